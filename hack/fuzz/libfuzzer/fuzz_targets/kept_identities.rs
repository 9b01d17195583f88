//! Feeds `hack_fuzz::kept_identities` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::kept_identities(data);
});
