//! Feeds `hack_fuzz::sealed_value` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::sealed_value(data);
});
