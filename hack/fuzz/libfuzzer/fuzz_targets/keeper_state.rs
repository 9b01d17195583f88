//! Feeds `hack_fuzz::keeper_state` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::keeper_state(data);
});
