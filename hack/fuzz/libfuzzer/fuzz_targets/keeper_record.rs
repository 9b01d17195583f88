//! Feeds `hack_fuzz::keeper_record` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::keeper_record(data);
});
