//! Feeds `hack_fuzz::node_metadata` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::node_metadata(data);
});
