//! Feeds `hack_fuzz::task_request` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::task_request(data);
});
