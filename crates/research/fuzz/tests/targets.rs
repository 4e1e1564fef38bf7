//! Every target accepts its seeds, and keeps its property for changed ones. Without a fuzzer's coverage and sanitizer.

use std::collections::HashSet;

use fastrand::Rng;
use unspoken_fuzz::{TARGETS, Target, repair_in_place};

/// Changed inputs of each target. A target of descriptions takes a tenth of a second for one.
const CHANGED: u32 = 12;

/// Longest changed input, in bytes.
const MAX_BYTES: usize = 1 << 18;

#[test]
fn names_are_distinct() {
    let names: HashSet<_> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(names.len(), TARGETS.len());
    assert!(TARGETS.iter().all(|target| Target::find(target.name).is_some()));
    assert!(Target::find("").is_none());
}

/// One test, because a client that has refused the content of an answer encodes nothing more: seeds come first.
#[test]
fn seeds_are_accepted_and_changed_ones_keep_the_property() {
    let targets = TARGETS.map(|target| (target, (target.seeds)()));
    for (target, seeds) in &targets {
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        for (index, seed) in seeds.iter().enumerate() {
            let mut repaired = seed.clone();
            (target.repair)(&mut repaired);
            assert!((target.run)(seed), "{} refuses seed {index}", target.name);
            assert!((target.run)(&repaired), "{} refuses seed {index} after its repair", target.name);
        }
    }
    for (target, seeds) in &targets {
        let mut rng = Rng::with_seed(43);
        for _ in 0..CHANGED {
            let mut data = changed(&seeds[rng.usize(..seeds.len())], &mut rng);
            let size = data.len();
            data.resize(size.max(MAX_BYTES), 0);
            let size = repair_in_place(target, &mut data, size, MAX_BYTES, rng.u32(..));
            (target.run)(&data[..size]);
        }
    }
}

/// A copy of `seed` with a few bytes changed, removed or repeated.
fn changed(seed: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut data = seed.to_vec();
    for _ in 0..rng.usize(1..=4) {
        if data.is_empty() {
            break;
        }
        let place = rng.usize(..data.len());
        match rng.u8(..4) {
            0 => data[place] ^= 1 << rng.u8(..8),
            1 => data[place] = rng.u8(..),
            2 => data.truncate(place),
            _ => {
                let end = (place + rng.usize(1..=16)).min(data.len());
                data.extend_from_within(place..end);
            }
        }
    }
    data
}
