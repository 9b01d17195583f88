//! Feeds `hack_fuzz::artifact_zip` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::artifact_zip(data);
});
