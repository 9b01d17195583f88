//! Feeds `hack_fuzz::acl_policy` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::acl_policy(data);
});
