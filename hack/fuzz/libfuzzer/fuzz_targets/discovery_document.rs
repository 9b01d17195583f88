//! Feeds `hack_fuzz::discovery_document` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::discovery_document(data);
});
