//! Networks over several copies of a repeated vector.
//!
//! A vector that is shorter than the slots is repeated through them, so a ciphertext has room for more entries than
//! the vector has. Each entry starts in one of the copies and moves through layers of sparse shifts. Entries that would
//! meet in a slot take different copies, or different shifts with the same sum. So a layer needs much fewer shifts than
//! a factor of a Benes network, which keeps all slots of one vector occupied. Slots without an entry are zero after the
//! last layer, so the sum of all copies is the result, repeated through the slots again. The sum needs rotations by
//! multiples of the length, but no mask and no level.
//!
//! With eight copies, layers whose shifts reach every distance once are enough: 8 x 8 x 8 shifts for 512 entries, in
//! three levels. With two copies, entries need some choice among shifts with the same sum. A Benes network needs about
//! two to four times as many diagonals as the distances alone. The construction is our own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::diagonals::Diagonals;
use crate::error::{PermuteError, wrong};
use crate::permutation::Permutation;

/// Limits of a network that is read: layers, copies, and slots of all layers together.
const MAX_LAYERS: usize = 64;
const MAX_COPIES: usize = 1 << 10;
const MAX_SLOTS: usize = 1 << 26;

/// A layer: slots take entries from other slots; slots that take none become zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// For each shift to the left, the slots that take their entry from this many slots to the right, modulo the slots
    /// of all copies together.
    pub shifts: BTreeMap<i64, Vec<u32>>,
    /// Number of baby steps, which are rotations from one digit decomposition; giant steps are multiples of it.
    pub babies: usize,
}

/// A network over several copies of a repeated vector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copies {
    /// Number of copies that entries move through, a power of two.
    pub count: usize,
    /// The layers, in the order they are applied.
    pub layers: Vec<Layer>,
}

impl Layer {
    /// Its shifts as diagonals of a matrix over the slots of `period` slots.
    pub(crate) fn diagonals(&self, period: usize) -> Diagonals {
        Diagonals::of_shifts(period, self.shifts.clone())
    }
}

impl Copies {
    /// Number of masks.
    pub fn masks(&self) -> usize {
        self.layers.iter().map(|layer| layer.shifts.len()).sum()
    }

    /// The rotations that sum the copies of vectors of `length`; each doubles the number of copies in the sum.
    pub(crate) fn doublings(&self, length: usize) -> impl Iterator<Item = i64> {
        (0..self.count.trailing_zeros()).map(move |bit| (length as i64) << bit)
    }

    /// Checks sizes before anything of their size is allocated.
    ///
    /// # Errors
    /// If something is out of range.
    pub(crate) fn check(&self, length: usize) -> Result<(), PermuteError> {
        if !self.count.is_power_of_two() || self.count > MAX_COPIES {
            return Err(wrong("the number of copies", self.count, format!("a power of two up to {MAX_COPIES}")));
        }
        let (layers, period) = (self.layers.len(), length.saturating_mul(self.count));
        if !(1..=MAX_LAYERS).contains(&layers) || layers.saturating_mul(period) > MAX_SLOTS {
            let needed = format!("1 to {MAX_LAYERS} layers, with at most {MAX_SLOTS} slots together");
            return Err(wrong("the size of the network", format!("{layers} layers of {period} slots"), needed));
        }
        for layer in &self.layers {
            if layer.shifts.is_empty() || layer.shifts.keys().any(|shift| shift.unsigned_abs() > MAX_SLOTS as u64) {
                return Err(wrong("a shift", "missing or out of range", format!("at most {MAX_SLOTS} either way")));
            }
            if !(1..=2 * period).contains(&layer.babies) {
                return Err(wrong("the number of baby steps", layer.babies, format!("1 to {}", 2 * period)));
            }
        }
        Ok(())
    }

    /// The permutation of vectors of `length` that a checked network computes, found by running it in the clear.
    ///
    /// # Errors
    /// If it does not compute one.
    pub(crate) fn permutation(&self, length: usize) -> Result<Permutation, PermuteError> {
        let period = length * self.count;
        let mut slots: Vec<Option<u32>> = (0..period).map(|slot| Some((slot % length) as u32)).collect();
        for layer in &self.layers {
            let mut next = vec![None; period];
            for (&shift, positions) in &layer.shifts {
                for &position in positions {
                    let from = (i64::from(position) + shift).rem_euclid(period as i64) as usize;
                    put(next.get_mut(position as usize), slots[from])?;
                }
            }
            slots = next;
        }
        let mut result = vec![None; length];
        for (slot, entry) in slots.into_iter().enumerate().filter(|(_, entry)| entry.is_some()) {
            put(result.get_mut(slot % length), entry)?;
        }
        let source = result.into_iter().map(|entry| entry.ok_or_else(|| misplaced("nothing")));
        Permutation::new(source.collect::<Result<_, _>>()?)
    }
}

/// Puts an entry into an empty slot.
fn put(slot: Option<&mut Option<u32>>, entry: Option<u32>) -> Result<(), PermuteError> {
    match (slot, entry) {
        (None, _) => Err(misplaced("beyond the copies")),
        (_, None) => Err(misplaced("taken from an empty one")),
        (Some(Some(_)), _) => Err(misplaced("two entries")),
        (Some(slot), entry) => {
            *slot = entry;
            Ok(())
        }
    }
}

fn misplaced(found: &str) -> PermuteError {
    wrong("a slot of the copies", found, "exactly one entry")
}
