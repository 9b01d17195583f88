//! Feeds `hack_fuzz::jail_frame` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::jail_frame(data);
});
