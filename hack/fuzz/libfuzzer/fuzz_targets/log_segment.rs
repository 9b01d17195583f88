//! Feeds `hack_fuzz::log_segment` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::log_segment(data);
});
