//! Feeds `hack_fuzz::login_token` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::login_token(data);
});
