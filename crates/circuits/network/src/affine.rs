//! Affine maps on encrypted values.

use std::collections::BTreeMap;

use unspoken_ckks::{
    Arithmetic, CkksError, CkksParameters, Complex64, Encoder, InnerSum, LinearPlan, LinearTransform, PreparedVector,
};

use crate::diagonals::{Planned, Prices, Shape, Term, plan};
use crate::layout::Layout;

/// An affine map of some values at one level, with a rescale.
pub(crate) struct Affine {
    layout: Layout,
    /// The blocks of each vector of the result.
    results: Vec<Vec<Part>>,
    sum: InnerSum,
    /// One period of each vector.
    bias: Vec<Vec<Complex64>>,
}

/// A block, with its diagonals.
struct Part {
    term: usize,
    from: usize,
    map: Map,
}

enum Map {
    /// Diagonals with rotations.
    Diagonals(LinearTransform),
    /// The main diagonal alone.
    Factors(PreparedVector),
}

/// The scale of each argument of a map, and the scale of its result.
pub(crate) struct Scales {
    pub(crate) inputs: Vec<f64>,
    pub(crate) output: f64,
}

impl Affine {
    /// Plans a map. Diagonals are encoded at their first use. Without `values`, the map has the keys, the cost and the
    /// memory of the real one, and all its weights are 1.
    pub(crate) fn new(
        prices: &Prices,
        parameters: &CkksParameters,
        terms: &[Term<'_>],
        bias: &[f64],
        scales: &Scales,
        shape: Shape,
        values: bool,
    ) -> Result<Self, CkksError> {
        let Planned { layout, places, blocks } = plan(prices, terms, shape)?;
        let batch = shape.batch;
        let modulus = parameters.level_modulus(shape.level);
        let mut results: Vec<Vec<Part>> = (0..layout.vectors()).map(|_| Vec::new()).collect();
        for block in blocks {
            let of_counted = || block.diagonals.iter().map(|k| (k * batch, vec![Complex64::from(1.0)])).collect();
            let mut diagonals: BTreeMap<usize, Vec<Complex64>> =
                if values { block.values(places, batch) } else { of_counted() };
            let input = scales.inputs[block.term];
            let map = match block.steps {
                Some(steps) => {
                    let plan = LinearPlan::of_steps(parameters, diagonals, steps, shape.level, input, scales.output)?;
                    // Of weights that are 1, all diagonals would be one number.
                    let plan = if values { plan } else { plan.with_period(places.whole * batch) };
                    Map::Diagonals(LinearTransform::deferred(plan))
                }
                None => {
                    let main = diagonals.remove(&0).unwrap_or_default();
                    Map::Factors(PreparedVector::new(main, shape.level, modulus * scales.output / input)?)
                }
            };
            results[block.to].push(Part { term: block.term, from: block.from, map });
        }
        let sum = InnerSum::new((places.fold * batch) as i64, places.whole / places.fold)?;
        let bias = (0..layout.vectors()).map(|vector| layout.fill(vector, |element| bias[element])).collect();
        Ok(Affine { layout, results, sum, bias })
    }

    /// The layout of the result.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Bytes of memory of the diagonals and biases, counted as if all were encoded.
    pub(crate) fn prepared_bytes(&self, parameters: &CkksParameters) -> u64 {
        let map = |part: &Part| match &part.map {
            Map::Diagonals(transform) => transform.prepared_bytes(),
            Map::Factors(factors) => factors.prepared_bytes(parameters),
        };
        let bias: usize = self.bias.iter().map(|bias| size_of_val(bias.as_slice())).sum();
        self.results.iter().flatten().map(map).sum::<u64>() + bias as u64
    }

    /// Encodes the diagonals, unless that was done.
    pub(crate) fn encode(&self, encoder: &Encoder) -> Result<(), CkksError> {
        self.results.iter().flatten().try_for_each(|part| match &part.map {
            Map::Diagonals(transform) => transform.encode(encoder),
            Map::Factors(_) => Ok(()),
        })
    }

    /// The result for the values of the terms, one level below the planned one.
    pub(crate) fn evaluate<A: Arithmetic>(
        &self,
        arithmetic: &A,
        inputs: &[&[A::Vector]],
    ) -> Result<Vec<A::Vector>, CkksError> {
        let result = |(parts, bias): (&Vec<Part>, &Vec<Complex64>)| {
            let mut sum: Option<A::Vector> = None;
            let mut add = |part: A::Vector| {
                sum = Some(match sum.take() {
                    Some(sum) => arithmetic.add(&sum, &part)?,
                    None => part,
                });
                Ok::<_, CkksError>(())
            };
            let mut products: Vec<(&A::Vector, &PreparedVector)> = Vec::new();
            for part in parts {
                let input = &inputs[part.term][part.from];
                match &part.map {
                    Map::Diagonals(transform) => add(arithmetic.linear(transform, input)?)?,
                    Map::Factors(factors) => products.push((input, factors)),
                }
            }
            if !products.is_empty() {
                add(arithmetic.rescale(&arithmetic.sum_products(&products)?)?)?;
            }
            let none = || CkksError::Shape { operation: "affine map", found: 0, needed: "one or more blocks".into() };
            let sum = self.sum.apply(arithmetic, &sum.ok_or_else(none)?)?;
            arithmetic.add_values(&sum, bias)
        };
        self.results.iter().zip(&self.bias).map(result).collect()
    }
}
