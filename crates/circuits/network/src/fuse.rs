//! Networks with fewer affine maps: each one costs a level.

use crate::error::NetworkError;
use crate::matrix::SparseMatrix;
use crate::network::{Network, Step, ValueId};

/// Most entries of composed matrices, for each entry of their factors.
const GROWTH: usize = 2;

/// Most entries of composed matrices whose map does not make its argument longer. Such a map has at most as many
/// diagonals as results, so the number of its entries matters for memory alone.
const MOST_ENTRIES: usize = 1 << 22;

type Terms = Vec<(ValueId, SparseMatrix)>;

impl Network {
    /// The same network with fewer steps.
    ///
    /// An affine map of an affine map that has no other user becomes one map, unless it has more results than arguments
    /// and the composed matrices have more than twice the entries of both. Terms of one map with the same value become
    /// one. Steps that no output needs are left out; inputs stay.
    ///
    /// # Errors
    /// If an entry of a composed matrix is not finite.
    pub fn fused(&self) -> Result<Network, NetworkError> {
        let uses = self.uses();
        let mut network = self.clone();
        for index in 0..network.steps.len() {
            if let Step::Affine { terms, bias } = &network.steps[index] {
                let (terms, bias) = network.composed(terms.clone(), bias.clone(), &uses)?;
                network.steps[index] = Step::Affine { terms: merged(terms)?, bias };
            }
        }
        Ok(network.without_unused())
    }

    /// The terms of an affine map, with the affine maps before it composed into them.
    fn composed(
        &self,
        mut terms: Terms,
        mut bias: Vec<f64>,
        uses: &[usize],
    ) -> Result<(Terms, Vec<f64>), NetworkError> {
        let mut done = Vec::new();
        // Maps before this one are composed already, so their own terms need no further look.
        while let Some((value, outer)) = terms.pop() {
            let inner = match &self.steps[value.0] {
                Step::Affine { terms, bias } if uses[value.0] == 1 => Some((terms, bias)),
                _ => None,
            };
            let Some((inner, inner_bias)) = inner else {
                done.push((value, outer));
                continue;
            };
            let compose = |(value, matrix): &(ValueId, SparseMatrix)| Ok((*value, outer.compose(matrix)?));
            let composed = inner.iter().map(compose).collect::<Result<Terms, NetworkError>>()?;
            let nonzero = |terms: &Terms| terms.iter().map(|(_, matrix)| matrix.nonzero()).sum::<usize>();
            let most = GROWTH * (outer.nonzero() + nonzero(inner));
            let shortens = outer.rows() <= outer.columns();
            if nonzero(&composed) > if shortens { most.max(MOST_ENTRIES) } else { most } {
                done.push((value, outer));
            } else {
                outer.add_product(inner_bias, &mut bias);
                done.extend(composed);
            }
        }
        done.sort_by_key(|(value, _)| *value);
        Ok((done, bias))
    }

    /// Whether an output needs each step. Inputs count as needed.
    fn needed(&self) -> Vec<bool> {
        let mut needed = vec![false; self.steps.len()];
        self.outputs.iter().for_each(|(_, value)| needed[value.0] = true);
        for (index, step) in self.steps.iter().enumerate().rev() {
            if needed[index] || matches!(step, Step::Input { .. }) {
                needed[index] = true;
                step.arguments().into_iter().for_each(|value| needed[value.0] = true);
            }
        }
        needed
    }

    /// A step that no output needs, if there is one.
    pub(crate) fn unused(&self) -> Option<ValueId> {
        self.needed().iter().position(|needed| !needed).map(ValueId)
    }

    /// The network without the steps that no output needs.
    fn without_unused(&self) -> Network {
        let used = self.needed();
        let before = |index: usize| ValueId(used[..index].iter().filter(|used| **used).count());
        let renumbered = |step: &Step| match step {
            Step::Input { name } => Step::Input { name: name.clone() },
            Step::Affine { terms, bias } => Step::Affine {
                terms: terms.iter().map(|(value, matrix)| (before(value.0), matrix.clone())).collect(),
                bias: bias.clone(),
            },
            Step::Function { input, function } => Step::Function { input: before(input.0), function: *function },
            Step::Product(a, b) => Step::Product(before(a.0), before(b.0)),
        };
        let kept = |index: &usize| used[*index];
        Network {
            steps: (0..used.len()).filter(kept).map(|index| renumbered(&self.steps[index])).collect(),
            sizes: (0..used.len()).filter(kept).map(|index| self.sizes[index]).collect(),
            outputs: self.outputs.iter().map(|(name, value)| (name.clone(), before(value.0))).collect(),
        }
    }
}

/// Terms with the same value, which are neighbours, as one.
fn merged(terms: Terms) -> Result<Terms, NetworkError> {
    let mut merged = Terms::new();
    for (value, matrix) in terms {
        match merged.last_mut() {
            Some((last, sum)) if *last == value => *sum = sum.plus(&matrix)?,
            _ => merged.push((value, matrix)),
        }
    }
    Ok(merged)
}
