//! Feeds `hack_fuzz::frame` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::frame(data);
});
