//! Feeds `hack_fuzz::checkpoint_records` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::checkpoint_records(data);
});
