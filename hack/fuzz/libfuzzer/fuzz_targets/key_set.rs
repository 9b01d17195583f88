//! Feeds `hack_fuzz::key_set` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::key_set(data);
});
