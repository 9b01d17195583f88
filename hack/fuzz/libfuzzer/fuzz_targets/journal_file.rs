//! Feeds `hack_fuzz::journal_file` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::journal_file(data);
});
