//! Operations on several vectors at once.
//!
//! With several threads, whole vectors are spread over the threads before one is split: threads that work on one vector
//! wait for each other at the end of every step. Each thread works on at most one vector at a time, so memory is
//! bounded. The last vectors of a group, fewer than the threads, are split over all threads as usual.

use rayon::prelude::*;
use unspoken_ring::Ring;
use unspoken_rlwe::{KeyKind, KeyPlan, galois};

use crate::arithmetic::Arithmetic;
use crate::ciphertext::Ciphertext;
use crate::error::CkksError;
use crate::evaluator::Evaluator;
use crate::linear::LinearTransform;

/// Runs `work` on every item and returns the results in order. An error says the index of its item. A device does one
/// after the other.
pub(crate) fn each<T: Sync, R: Send>(
    ring: &Ring,
    items: &[T],
    work: impl Fn(&T) -> Result<R, CkksError> + Sync + Send,
) -> Result<Vec<R>, CkksError> {
    let mut results = Vec::with_capacity(items.len());
    let together = if ring.device().is_some() { 1 } else { at_once(items.len()) };
    for group in items.chunks(together) {
        let done: Vec<Result<R, CkksError>> = group.par_iter().map(&work).collect();
        for result in done {
            let index = results.len();
            results.push(result.map_err(|error| CkksError::InGroup { index, error: Box::new(error) })?);
        }
    }
    Ok(results)
}

/// Number of items of a group that are in work at the same time.
pub(crate) fn at_once(count: usize) -> usize {
    rayon::current_num_threads().min(count).max(1)
}

impl Evaluator<'_> {
    /// [`Arithmetic::rotate`] of several vectors, each by its own number of steps.
    ///
    /// # Errors
    /// [`CkksError::InGroup`] with the index of a vector whose key is missing.
    pub fn rotate_many(&self, inputs: &[(&Ciphertext, i64)]) -> Result<Vec<Ciphertext>, CkksError> {
        // Makes the forms of the keys before the threads that would each make them.
        for (input, steps) in inputs {
            let element = galois::rotation(self.parameters().ring(), *steps);
            let mut needed = KeyPlan::new();
            needed.require_over(KeyKind::Galois { element }, self.parameters().basis(input.level()));
            self.keys().prepare(self.parameters().ring(), &needed)?;
        }
        each(self.parameters().ring(), inputs, |&(input, steps)| self.rotate(input, steps))
    }
}

impl LinearTransform {
    /// [`LinearTransform::apply`] to several vectors.
    ///
    /// # Errors
    /// [`CkksError::InGroup`] with the index of a vector that does not fit.
    pub fn apply_many(&self, evaluator: &Evaluator<'_>, inputs: &[&Ciphertext]) -> Result<Vec<Ciphertext>, CkksError> {
        // Encodes the diagonals before the threads that would each encode them.
        self.prepare(evaluator)?;
        each(evaluator.parameters().ring(), inputs, |input| self.apply(evaluator, input))
    }
}
