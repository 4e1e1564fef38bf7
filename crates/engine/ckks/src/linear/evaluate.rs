//! Linear transformations as plain rotations, products and sums, for any arithmetic.

use std::collections::BTreeMap;

use crate::arithmetic::Arithmetic;
use crate::error::CkksError;
use crate::linear::plan::{LinearPlan, OPERATION, rotated_right};

impl LinearPlan {
    /// Evaluates the transformation by plain rotations, products and sums, for any arithmetic. Tests compare
    /// [`LinearTransform::apply`](crate::LinearTransform::apply) to it, and a simulator runs it
    /// ([`Arithmetic::linear`]). It uses the same keys, levels and scales, but more divisions, so it needs more time
    /// and adds more noise.
    ///
    /// # Errors
    /// If the input's level is below the plan's, its scale is not the planned one, or a key is missing.
    pub fn evaluate<A: Arithmetic>(&self, arithmetic: &A, input: &A::Vector) -> Result<A::Vector, CkksError> {
        self.check(arithmetic.level(input), arithmetic.scale(input))?;
        let input = arithmetic.lowered(input, self.level)?;
        let slots = self.parameters.slots();
        let mut babies = BTreeMap::new();
        let mut sums: BTreeMap<usize, A::Vector> = BTreeMap::new();
        for (giant, row) in self.rows() {
            for (baby, diagonal) in row {
                if let std::collections::btree_map::Entry::Vacant(entry) = babies.entry(baby) {
                    entry.insert(arithmetic.rotate(&input, self.steps.baby(baby, slots) as i64)?);
                }
                let values = rotated_right(diagonal, self.steps.giant(giant, slots));
                let product = arithmetic.mul_values(&babies[&baby], &values, self.plaintext_scale)?;
                let sum = match sums.remove(&giant) {
                    Some(sum) => arithmetic.add(&sum, &product)?,
                    None => product,
                };
                sums.insert(giant, sum);
            }
        }
        let mut total: Option<(usize, A::Vector)> = None;
        for (giant, sum) in sums.into_iter().rev() {
            let sum = match total {
                Some((last, total)) => {
                    let steps = self.steps.giant(last - giant, slots) as i64;
                    arithmetic.add(&arithmetic.rotate(&total, steps)?, &sum)?
                }
                None => sum,
            };
            total = Some((giant, sum));
        }
        let none = || CkksError::Shape { operation: OPERATION, found: 0, needed: "at least one diagonal".into() };
        let (giant, total) = total.ok_or_else(none)?;
        arithmetic.rescale(&arithmetic.rotate(&total, self.steps.giant(giant, slots) as i64)?)
    }
}
