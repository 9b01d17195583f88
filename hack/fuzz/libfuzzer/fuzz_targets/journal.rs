//! Feeds `hack_fuzz::journal` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::journal(data);
});
