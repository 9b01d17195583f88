//! Feeds `hack_fuzz::nft_description` from libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hack_fuzz::nft_description(data);
});
