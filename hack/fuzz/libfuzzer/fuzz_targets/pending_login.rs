//! Feeds `hack_fuzz::pending_login` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::pending_login(data);
});
