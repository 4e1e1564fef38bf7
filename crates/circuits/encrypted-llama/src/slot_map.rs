//! Maps of the slots of one vector, as sums of masked rotations.

use std::collections::BTreeMap;

use unspoken_ckks::Complex64;

/// `out[j] = sum_k diagonals[k][j] in[j + k]`, indices modulo the slots.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SlotMap {
    diagonals: BTreeMap<usize, Vec<f64>>,
}

impl SlotMap {
    /// A map of vectors of `slots` slots. `terms` gets a slot of the output, and calls its argument with each slot of
    /// the input that contributes to it, and with the factor of that slot.
    pub fn new(slots: usize, mut terms: impl FnMut(usize, &mut dyn FnMut(usize, f64))) -> Self {
        let mut diagonals: Vec<Option<Vec<f64>>> = vec![None; slots];
        for slot in 0..slots {
            terms(slot, &mut |source, factor| {
                if factor != 0.0 {
                    let rotation = (source + slots - slot) % slots;
                    diagonals[rotation].get_or_insert_with(|| vec![0.0; slots])[slot] += factor;
                }
            });
        }
        let diagonals = diagonals.into_iter().enumerate();
        SlotMap { diagonals: diagonals.filter_map(|(rotation, diagonal)| Some((rotation, diagonal?))).collect() }
    }

    /// The map that takes one slot of the input, or none, for each slot of the output: pairs of the slot and its
    /// source. If it is only counted, it has its rotations, and a single factor for each.
    pub fn gather(slots: usize, counted: bool, pairs: impl Iterator<Item = (usize, usize)>) -> Self {
        let mut diagonals: Vec<(usize, Vec<f64>)> = Vec::new();
        let (len, mut last) = (if counted { 1 } else { slots }, 0);
        for (slot, source) in pairs {
            let rotation = (source + slots - slot) % slots;
            // Most slots have the rotation of the one before.
            if diagonals.get(last).is_none_or(|(known, _)| *known != rotation) {
                last = diagonals.iter().position(|(known, _)| *known == rotation).unwrap_or_else(|| {
                    diagonals.push((rotation, vec![0.0; len]));
                    diagonals.len() - 1
                });
            }
            diagonals[last].1[slot % len] = 1.0;
        }
        SlotMap { diagonals: diagonals.into_iter().collect() }
    }

    /// The rotations to the left.
    pub fn rotations(&self) -> impl Iterator<Item = usize> + '_ {
        self.diagonals.keys().copied()
    }

    /// The factors by rotation.
    pub fn into_diagonals(self) -> BTreeMap<usize, Vec<Complex64>> {
        let complex = |diagonal: Vec<f64>| diagonal.into_iter().map(Complex64::from).collect();
        self.diagonals.into_iter().map(|(rotation, diagonal)| (rotation, complex(diagonal))).collect()
    }
}
