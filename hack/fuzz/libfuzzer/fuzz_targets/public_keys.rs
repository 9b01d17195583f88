//! Feeds `hack_fuzz::public_keys` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::public_keys(data);
});
