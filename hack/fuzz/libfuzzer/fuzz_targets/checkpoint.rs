//! Feeds `hack_fuzz::checkpoint` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::checkpoint(data);
});
