//! Feeds `hack_fuzz::wire_message` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::wire_message(data);
});
