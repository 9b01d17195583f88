//! Feeds `hack_fuzz::netlink_answer` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::netlink_answer(data);
});
