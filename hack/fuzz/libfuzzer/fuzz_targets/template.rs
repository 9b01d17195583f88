//! Feeds `hack_fuzz::template` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::template(data);
});
