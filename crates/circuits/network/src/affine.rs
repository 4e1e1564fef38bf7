//! Affine maps on encrypted values.

use std::collections::BTreeMap;

use unspoken_ckks::{
    Arithmetic, CkksError, CkksParameters, Complex64, Encoder, InnerSum, LinearPlan, LinearTransform, PreparedVector,
};

use crate::diagonals::{Planned, Shape, Term, rotation};
use crate::layout::Layout;

/// An affine map of some values at one level, with a rescale.
pub(crate) struct Affine {
    layout: Layout,
    /// Number of vectors of each argument.
    vectors: Vec<usize>,
    blocks: Blocks,
    /// Bytes of the values of diagonals that a map without values does not have.
    absent_bytes: u64,
    sum: InnerSum,
    /// One period of each vector.
    bias: Vec<Vec<Complex64>>,
}

/// The blocks of each vector of the result, with the numbers of their inputs: the vectors of all arguments.
enum Blocks {
    /// Diagonals with rotations.
    Diagonals(Vec<Vec<(usize, LinearTransform)>>),
    /// Main diagonals alone.
    Factors(Vec<Vec<(usize, PreparedVector)>>),
}

/// The scale of each argument of a map, and the scale of its result.
pub(crate) struct Scales {
    pub(crate) inputs: Vec<f64>,
    pub(crate) output: f64,
}

impl Affine {
    /// A map with this plan. Diagonals are encoded at their first use. Without `values`, the map has the keys, the cost
    /// and the memory of the real one, and all its weights are 1.
    pub(crate) fn new(
        parameters: &CkksParameters,
        planned: Planned,
        terms: &[Term<'_>],
        bias: &[f64],
        scales: &Scales,
        shape: Shape,
        values: bool,
    ) -> Result<Self, CkksError> {
        let Planned { layout, places, blocks, steps } = planned;
        let stride = layout.stride();
        let vectors: Vec<usize> = terms.iter().map(|term| term.layout.vectors()).collect();
        let modulus = parameters.level_modulus(shape.level);
        let absent = if values { 0 } else { places.whole * stride * size_of::<Complex64>() };
        let absent_bytes = blocks.iter().map(|block| (block.diagonals.len() * absent) as u64).sum();
        let (mut transforms, mut factors) = (Vec::new(), Vec::new());
        transforms.resize_with(layout.vectors(), Vec::new);
        factors.resize_with(layout.vectors(), Vec::new);
        for block in blocks {
            let number = vectors[..block.term].iter().sum::<usize>() + block.from;
            let one = |k: &i64| (rotation(*k, stride, layout.slots()), vec![Complex64::from(1.0)]);
            let mut diagonals: BTreeMap<usize, Vec<Complex64>> =
                if values { block.values(places, &layout) } else { block.diagonals.iter().map(one).collect() };
            let input = scales.inputs[block.term];
            match steps {
                Some(steps) => {
                    let plan = LinearPlan::of_steps(parameters, diagonals, steps, shape.level, input, scales.output)?;
                    // All blocks are stored in one way, though some repeat sooner.
                    let plan = plan.with_period(places.whole * stride);
                    transforms[block.to].push((number, LinearTransform::deferred(plan)));
                }
                None => {
                    let main = diagonals.remove(&0).unwrap_or_default();
                    let factor = PreparedVector::new(main, shape.level, modulus * scales.output / input)?;
                    factors[block.to].push((number, factor));
                }
            };
        }
        let blocks = if steps.is_some() { Blocks::Diagonals(transforms) } else { Blocks::Factors(factors) };
        let sum = InnerSum::new((places.fold * stride) as i64, places.whole / places.fold)?;
        let bias = (0..layout.vectors()).map(|vector| {
            let values =
                layout.elements(vector).into_iter().map(|(element, position)| (position, bias[element].into()));
            layout.in_all_rows(values, Complex64::default())
        });
        let bias = bias.collect();
        Ok(Affine { layout, vectors, blocks, absent_bytes, sum, bias })
    }

    /// The layout of the result.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Bytes of memory of the diagonals and biases, counted as if all were encoded.
    pub(crate) fn prepared_bytes(&self, parameters: &CkksParameters) -> u64 {
        let blocks: u64 = match &self.blocks {
            Blocks::Diagonals(rows) => rows.iter().flatten().map(|(_, transform)| transform.prepared_bytes()).sum(),
            Blocks::Factors(rows) => rows.iter().flatten().map(|(_, factor)| factor.prepared_bytes(parameters)).sum(),
        };
        let bias: usize = self.bias.iter().map(|bias| size_of_val(bias.as_slice())).sum();
        blocks + bias as u64 + self.absent_bytes
    }

    /// Bytes of encoded diagonals that are kept and could be encoded at each run.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let Blocks::Diagonals(rows) = &self.blocks else { return 0 };
        let kept = |transform: &LinearTransform| {
            transform.prepared_bytes() - transform.plan().clone().streamed().prepared_bytes()
        };
        rows.iter().flatten().map(|(_, transform)| kept(transform)).sum()
    }

    /// Whether diagonals are encoded whenever they are used.
    pub(crate) fn is_streamed(&self) -> bool {
        let Blocks::Diagonals(rows) = &self.blocks else { return false };
        rows.iter().flatten().any(|(_, transform)| transform.plan().is_streamed())
    }

    /// Encodes the diagonals, unless that was done.
    pub(crate) fn encode(&self, encoder: &Encoder) -> Result<(), CkksError> {
        match &self.blocks {
            Blocks::Diagonals(rows) => rows.iter().flatten().try_for_each(|(_, transform)| transform.encode(encoder)),
            Blocks::Factors(_) => Ok(()),
        }
    }

    /// Encodes the diagonals whenever they are used, and does not keep them: less memory, more time.
    pub(crate) fn stream(&mut self) {
        if let Blocks::Diagonals(rows) = &mut self.blocks {
            for (_, transform) in rows.iter_mut().flatten() {
                *transform = LinearTransform::deferred(transform.plan().clone().streamed());
            }
        }
    }

    /// The result for the values of the terms, one level below the planned one.
    pub(crate) fn evaluate<A: Arithmetic>(
        &self,
        arithmetic: &A,
        inputs: &[&[A::Vector]],
    ) -> Result<Vec<A::Vector>, CkksError> {
        let found: Vec<usize> = inputs.iter().map(|vectors| vectors.len()).collect();
        if found != self.vectors {
            let needed = format!("arguments of {:?} vectors, found {found:?}", self.vectors);
            return Err(CkksError::Shape { operation: "affine map", found: found.len(), needed });
        }
        let inputs: Vec<&A::Vector> = inputs.iter().copied().flatten().collect();
        let sums = match &self.blocks {
            Blocks::Diagonals(rows) => {
                let rows = rows.iter().map(|row| row.iter().map(|(i, t)| (*i, t)).collect());
                arithmetic.linear_sums(&rows.collect::<Vec<Vec<_>>>(), &inputs)?
            }
            Blocks::Factors(rows) => {
                let row = |row: &Vec<(usize, PreparedVector)>| {
                    let products: Vec<_> = row.iter().map(|(i, factor)| (inputs[*i], factor)).collect();
                    arithmetic.rescale(&arithmetic.sum_products(&products)?)
                };
                rows.iter().map(row).collect::<Result<_, _>>()?
            }
        };
        let finish =
            |(sum, bias): (&A::Vector, &Vec<Complex64>)| arithmetic.add_values(&self.sum.apply(arithmetic, sum)?, bias);
        sums.iter().zip(&self.bias).map(finish).collect()
    }
}
