//! Feeds `hack_fuzz::kek_file` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::kek_file(data);
});
