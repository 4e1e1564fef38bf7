//! Permutations of the entries of a vector.

use chacha20::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::error::{PermuteError, shape};

/// Maximum length of a permutation: positions and sums of shifts fit 32 bits.
pub const MAX_LENGTH: usize = 1 << 24;

/// A permutation: entry `i` of the result is entry `source[i]` of the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u32>", into = "Vec<u32>")]
pub struct Permutation {
    source: Vec<u32>,
}

impl TryFrom<Vec<u32>> for Permutation {
    type Error = PermuteError;

    fn try_from(source: Vec<u32>) -> Result<Self, PermuteError> {
        Self::new(source)
    }
}

impl From<Permutation> for Vec<u32> {
    fn from(permutation: Permutation) -> Self {
        permutation.source
    }
}

impl Permutation {
    /// The permutation whose result has entry `source[i]` of the input as entry `i`.
    ///
    /// # Errors
    /// If the list is empty, too long, or does not name every position exactly once.
    pub fn new(source: Vec<u32>) -> Result<Self, PermuteError> {
        const OPERATION: &str = "make a permutation";
        let length = source.len();
        check_length(OPERATION, length)?;
        let mut seen = vec![false; length];
        for (index, &found) in source.iter().enumerate() {
            match seen.get_mut(found as usize) {
                Some(seen) if !*seen => *seen = true,
                _ => {
                    let found = found as usize;
                    return Err(PermuteError::NotAPermutation { operation: OPERATION, index, found, length });
                }
            }
        }
        Ok(Permutation { source })
    }

    /// A permutation that is valid by construction, without a check (except in debug builds).
    pub(crate) fn trusted(source: Vec<u32>) -> Self {
        debug_assert!(Self::new(source.clone()).is_ok());
        Permutation { source }
    }

    fn from_fn(operation: &'static str, length: usize, source: impl Fn(usize) -> usize) -> Result<Self, PermuteError> {
        check_length(operation, length)?;
        Ok(Self::trusted((0..length).map(|i| source(i) as u32).collect()))
    }

    /// The identity.
    ///
    /// # Errors
    /// If the length is zero or above [`MAX_LENGTH`].
    pub fn identity(length: usize) -> Result<Self, PermuteError> {
        Self::from_fn("identity", length, |i| i)
    }

    /// The reversal: the last entry comes first.
    ///
    /// # Errors
    /// Same as [`Permutation::identity`].
    pub fn reversal(length: usize) -> Result<Self, PermuteError> {
        Self::from_fn("reversal", length, |i| length - 1 - i)
    }

    /// The cyclic rotation to the left by `steps`.
    ///
    /// # Errors
    /// Same as [`Permutation::identity`].
    pub fn rotation(length: usize, steps: i64) -> Result<Self, PermuteError> {
        Self::from_fn("rotation", length, |i| (i as i64 + steps).rem_euclid(length as i64) as usize)
    }

    /// The exchange of two entries.
    ///
    /// # Errors
    /// If an entry is not below the length, or the length is out of range.
    pub fn swap(length: usize, a: usize, b: usize) -> Result<Self, PermuteError> {
        const OPERATION: &str = "swap";
        if a.max(b) >= length {
            return Err(shape(OPERATION, format!("entries {a} and {b}"), format!("two below the length, {length}")));
        }
        let other = |i: usize| {
            if i == a {
                b
            } else if i == b {
                a
            } else {
                i
            }
        };
        Self::from_fn(OPERATION, length, other)
    }

    /// The transpose of a `rows` by `columns` matrix; both the matrix and its transpose are stored row by row.
    ///
    /// # Errors
    /// If the number of entries is zero or above [`MAX_LENGTH`].
    pub fn transpose(rows: usize, columns: usize) -> Result<Self, PermuteError> {
        const OPERATION: &str = "transpose";
        let length = rows.checked_mul(columns).ok_or_else(|| too_long(OPERATION, usize::MAX))?;
        Self::from_fn(OPERATION, length, |i| (i % rows.max(1)) * columns + i / rows.max(1))
    }

    /// A uniformly random permutation, determined by the seed (Fisher and Yates).
    ///
    /// # Errors
    /// Same as [`Permutation::identity`].
    pub fn random(length: usize, seed: u64) -> Result<Self, PermuteError> {
        let mut permutation = Self::identity(length)?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for i in (1..length).rev() {
            // The bias of a product with 64 random bits is below 2^-40.
            let other = (u128::from(rng.next_u64()) * (i as u128 + 1)) >> 64;
            permutation.source.swap(i, other as usize);
        }
        Ok(permutation)
    }

    /// The number of entries.
    #[allow(clippy::len_without_is_empty)] // There is always an entry.
    pub fn len(&self) -> usize {
        self.source.len()
    }

    /// The position in the input of each entry of the result.
    pub fn source(&self) -> &[u32] {
        &self.source
    }

    /// Whether nothing moves.
    pub fn is_identity(&self) -> bool {
        self.source.iter().enumerate().all(|(i, &source)| i == source as usize)
    }

    /// The inverse permutation.
    pub fn inverse(&self) -> Self {
        let mut source = vec![0; self.len()];
        for (i, &from) in self.source.iter().enumerate() {
            source[from as usize] = i as u32;
        }
        Permutation { source }
    }

    /// The composition of this permutation, applied first, with `next`.
    ///
    /// # Errors
    /// If the lengths differ.
    pub fn then(&self, next: &Permutation) -> Result<Self, PermuteError> {
        if self.len() != next.len() {
            return Err(shape("compose permutations", next.len(), format!("the length of the first, {}", self.len())));
        }
        Ok(Permutation { source: next.source.iter().map(|&mid| self.source[mid as usize]).collect() })
    }

    /// The entries in their new order.
    ///
    /// # Errors
    /// If the number of entries is not the length of the permutation.
    pub fn apply<T: Clone>(&self, entries: &[T]) -> Result<Vec<T>, PermuteError> {
        if entries.len() != self.len() {
            let found = format!("{} entries", entries.len());
            return Err(shape("permute", found, format!("the length of the permutation, {}", self.len())));
        }
        Ok(self.source.iter().map(|&from| entries[from as usize].clone()).collect())
    }

    /// The permutation of a longer vector, whose additional entries stay where they are.
    ///
    /// # Errors
    /// If `length` is below the permutation's length, or above [`MAX_LENGTH`].
    pub fn padded(&self, length: usize) -> Result<Self, PermuteError> {
        const OPERATION: &str = "pad a permutation";
        check_length(OPERATION, length)?;
        if length < self.len() {
            return Err(shape(OPERATION, length, format!("{} or more", self.len())));
        }
        let rest = self.len() as u32..length as u32;
        Ok(Permutation { source: self.source.iter().copied().chain(rest).collect() })
    }

    /// The permutation of `count` concatenated vectors, each permuted in the same way.
    ///
    /// # Errors
    /// If `count` is zero, or the length of the result would be above [`MAX_LENGTH`].
    pub fn batch(&self, count: usize) -> Result<Self, PermuteError> {
        const OPERATION: &str = "batch a permutation";
        let n = self.len();
        let length = n.checked_mul(count).ok_or_else(|| too_long(OPERATION, usize::MAX))?;
        Self::from_fn(OPERATION, length, |i| i - i % n + self.source[i % n] as usize)
    }

    /// The distance each entry of the result moved to the left: source minus position.
    pub fn distances(&self) -> impl ExactSizeIterator<Item = i64> + '_ {
        self.source.iter().enumerate().map(|(i, &source)| i64::from(source) - i as i64)
    }
}

fn check_length(operation: &'static str, length: usize) -> Result<(), PermuteError> {
    if (1..=MAX_LENGTH).contains(&length) { Ok(()) } else { Err(too_long(operation, length)) }
}

fn too_long(operation: &'static str, length: usize) -> PermuteError {
    shape(operation, format!("{length} entries"), format!("from 1 to {MAX_LENGTH}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_permutation_is_refused_with_its_first_wrong_entry() {
        let refused = |source: &[u32]| match Permutation::new(source.to_vec()).unwrap_err() {
            PermuteError::NotAPermutation { index, found, .. } => (index, found),
            other => panic!("{other}"),
        };
        assert_eq!(refused(&[0, 2, 2]), (2, 2));
        assert_eq!(refused(&[0, 1, 3]), (2, 3));
        assert!(Permutation::new(vec![]).is_err());
        assert!(Permutation::identity(MAX_LENGTH + 1).is_err());
    }

    #[test]
    fn each_maker_moves_what_it_says() {
        let entries: Vec<usize> = (0..6).collect();
        let moved = |p: Result<Permutation, PermuteError>| p.unwrap().apply(&entries).unwrap();
        assert_eq!(moved(Permutation::identity(6)), entries);
        assert_eq!(moved(Permutation::reversal(6)), [5, 4, 3, 2, 1, 0]);
        assert_eq!(moved(Permutation::rotation(6, 2)), [2, 3, 4, 5, 0, 1]);
        assert_eq!(moved(Permutation::swap(6, 1, 4)), [0, 4, 2, 3, 1, 5]);
        assert_eq!(moved(Permutation::transpose(2, 3)), [0, 3, 1, 4, 2, 5]);
        assert_eq!(moved(Permutation::reversal(3).unwrap().batch(2)), [2, 1, 0, 5, 4, 3]);
        assert_eq!(moved(Permutation::reversal(3).unwrap().padded(6)), [2, 1, 0, 3, 4, 5]);
        assert!(Permutation::swap(6, 1, 6).is_err());
        assert!(Permutation::identity(5).unwrap().apply(&entries).is_err());
    }

    #[test]
    fn inverse_and_composition_agree_with_application() {
        let (a, b) = (Permutation::random(100, 1).unwrap(), Permutation::random(100, 2).unwrap());
        assert_ne!(a, b);
        let entries: Vec<usize> = (0..100).map(|i| i * i).collect();
        let both = a.then(&b).unwrap().apply(&entries).unwrap();
        assert_eq!(both, b.apply(&a.apply(&entries).unwrap()).unwrap());
        assert!(a.then(&a.inverse()).unwrap().is_identity());
        assert!(a.then(&Permutation::identity(99).unwrap()).is_err());
        assert!(
            a.distances().zip(entries.iter().enumerate()).all(|(d, (i, _))| i as i64 + d == i64::from(a.source[i]))
        );
    }
}
