//! Feeds `hack_fuzz::artifact_tar` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::artifact_tar(data);
});
