//! Feeds `hack_fuzz::token_answer` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::token_answer(data);
});
