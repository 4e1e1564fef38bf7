//! Fuzzes the decoder that the environment variable `FUZZ_TARGET` names.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use unspoken_fuzz::{Target, repair_in_place};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    Target::find(&name).unwrap_or_else(|| {
        panic!("FUZZ_TARGET is {name:?}, which is no target; needed one of those that `fuzz/run.sh --list` prints")
    })
});

fuzz_target!(init: LazyLock::force(&TARGET), |data: &[u8]| {
    (TARGET.run)(data);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let size = fuzzer_mutate(data, size, max_size);
    repair_in_place(&TARGET, data, size, max_size, seed)
});
