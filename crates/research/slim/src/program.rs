//! Evaluation of all leaves at once, by baby steps and giant steps.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use unspoken_ckks::{Arithmetic, CkksError, CkksParameters, Complex64, PreparedVector};

use crate::dickson::Dickson;

/// Makes a plaintext vector of one number for each leaf, at a level and a scale.
pub(crate) type Encode<'a> = &'a dyn Fn(&[f64], usize, f64) -> Result<PreparedVector, CkksError>;

/// A polynomial for each leaf, as `sum_k b_k D_k + sum_g q_g D_g + b_0`, with every `q_g` split in the same way.
/// Vectors contain a number for each leaf.
#[derive(Default)]
struct Node {
    terms: Vec<(usize, Vec<f64>)>,
    products: Vec<(usize, Node)>,
    constant: Vec<f64>,
    /// `D_k` is added after the rescale of the sum, at its own scale: a leading coefficient of 1 takes no level.
    power: Option<usize>,
}

/// The factors `(high, low)` of `D_k`, with `k = high + low` and `high` a power of two.
fn factors(k: usize) -> (usize, usize) {
    let high = k.next_power_of_two() / 2;
    (high, k - high)
}

/// Levels that `D_k` is below the argument.
fn depth_of(k: usize) -> usize {
    k.next_power_of_two().trailing_zeros() as usize
}

/// Splits polynomials with leading coefficient 1, whose degree is a power of two.
fn cut_leaves(mut coefficients: Vec<Vec<f64>>, ratios: &[f64], babies: usize) -> Node {
    let degree = coefficients.len() - 1;
    if degree == 1 {
        return Node { power: coefficients.pop().map(|_| 1), constant: coefficients.remove(0), ..Node::default() };
    }
    // D_g (D_g + ...) + ...: the sum has the level of D_g.
    let (giant, depth) = (degree / 2, depth_of(degree) - 1);
    let mut quotient = divide(&mut coefficients, giant, ratios);
    quotient.pop();
    let quotient = Node { power: Some(giant), ..cut(quotient, ratios, depth.saturating_sub(1), babies) };
    let mut node = cut(coefficients, ratios, depth, babies);
    node.products.push((giant, quotient));
    node
}

/// Splits polynomials whose sum is `depth` levels below the argument.
fn cut(mut coefficients: Vec<Vec<f64>>, ratios: &[f64], depth: usize, babies: usize) -> Node {
    let mut node = Node::default();
    while coefficients.len() > babies.max(2) || (2..coefficients.len()).any(|k| depth_of(k) > depth) {
        let giant = 1 << (coefficients.len() - 1).ilog2();
        let mut quotient = divide(&mut coefficients, giant, ratios);
        if quotient.len() == 1 {
            node.terms.extend(quotient.pop().map(|factor| (giant, factor)));
        } else {
            node.products.push((giant, cut(quotient, ratios, depth.saturating_sub(1), babies)));
        }
    }
    let mut rest = coefficients.into_iter();
    node.constant = rest.next().unwrap_or_default();
    node.terms.extend((1..).zip(rest));
    node
}

/// Divides by `D_giant`, of at least half the degree. Leaves the remainder in `coefficients` and returns the quotient.
fn divide(coefficients: &mut Vec<Vec<f64>>, giant: usize, ratios: &[f64]) -> Vec<Vec<f64>> {
    let quotient = coefficients.split_off(giant);
    // D_(giant+k) = D_giant D_k - r^(2k) D_(giant-k), and D_0 = 2.
    for (k, part) in quotient.iter().enumerate().skip(1) {
        let twice = if k == giant { 2.0 } else { 1.0 };
        for ((b, q), r) in coefficients[giant - k].iter_mut().zip(part).zip(ratios) {
            *b -= twice * q * r.powi(2 * k as i32);
        }
    }
    quotient
}

impl Node {
    fn collect_powers(&self, powers: &mut BTreeSet<usize>) {
        powers.extend(self.terms.iter().map(|(k, _)| k));
        powers.extend(self.power);
        for (giant, quotient) in &self.products {
            powers.insert(*giant);
            quotient.collect_powers(powers);
        }
    }
}

/// The vectors of a [`Node`], encoded for the level and scale of its sum.
struct PreparedNode {
    terms: Vec<(usize, PreparedVector)>,
    products: Vec<(usize, PreparedNode)>,
    constant: PreparedVector,
    power: Option<usize>,
    level: usize,
    scale: f64,
}

/// The evaluation of all leaves for arguments of one level and scale.
pub(crate) struct Program {
    /// `D_k` for ascending `k >= 2`: the number to subtract from the product of its factors, `r^(2 low)` times
    /// `D_(high - low)`, or `2 r^(2 low)` if the factors are equal.
    powers: BTreeMap<usize, PreparedVector>,
    root: PreparedNode,
}

impl Program {
    /// Prepares leaves of the same degree, at most `babies` baby steps each, for arguments at this level and scale.
    pub(crate) fn new(
        parameters: &CkksParameters,
        leaves: &[Dickson],
        babies: usize,
        (level, scale): (usize, f64),
        encode: Encode<'_>,
    ) -> Result<Self, CkksError> {
        let ratios: Vec<f64> = leaves.iter().map(|leaf| leaf.ratio).collect();
        let degree = leaves.first().map_or(0, |leaf| leaf.coefficients.len() - 1);
        let column = |k: usize| leaves.iter().map(|leaf| leaf.coefficients[k]).collect();
        let root = cut_leaves((0..=degree).map(column).collect(), &ratios, babies);
        let mut wanted = BTreeSet::new();
        root.collect_powers(&mut wanted);
        let mut needed = BTreeSet::new();
        while let Some(k) = wanted.pop_last().filter(|&k| k > 1) {
            let (high, low) = factors(k);
            wanted.extend([high, low, high - low]);
            needed.insert(k);
        }
        let mut scales = BTreeMap::from([(1, scale)]);
        let mut powers = BTreeMap::new();
        for k in needed {
            let (high, low) = factors(k);
            let level = level + 1 - depth_of(k);
            let product = scales[&high] * scales[&low];
            let square = |r: &f64| r.powi(2 * low as i32);
            let vector = match high == low {
                true => encode(&ratios.iter().map(|r| -2.0 * square(r)).collect::<Vec<_>>(), level, product)?,
                false => {
                    let factor: Vec<f64> = ratios.iter().map(|r| -square(r)).collect();
                    encode(&factor, level, product / scales[&(high - low)])?
                }
            };
            powers.insert(k, vector);
            scales.insert(k, product / parameters.level_modulus(level));
        }
        let steps = Prepare { parameters, scales, encode };
        let root = match root.power {
            Some(_) => steps.sum(&root, level, scale)?,
            None => steps.sum(&root, level + 1 - depth_of(degree), steps.scales[&(degree / 2)].powi(2))?,
        };
        Ok(Program { root, powers })
    }

    /// The scale of the results.
    pub(crate) fn scale(&self, parameters: &CkksParameters) -> f64 {
        let PreparedNode { level, scale, .. } = self.root;
        if self.root.is_linear() { scale } else { scale / parameters.level_modulus(level) }
    }

    /// All plaintext vectors.
    pub(crate) fn vectors(&self) -> Vec<&PreparedVector> {
        let mut vectors: Vec<&PreparedVector> = self.powers.values().collect();
        self.root.collect_vectors(&mut vectors);
        vectors
    }

    /// Evaluates all leaves.
    pub(crate) fn run<A: Arithmetic>(&self, arithmetic: &A, argument: &A::Vector) -> Result<A::Vector, CkksError> {
        let mut powers = BTreeMap::from([(1, argument.clone())]);
        for (&k, vector) in &self.powers {
            let (high, low) = factors(k);
            let product = arithmetic.tensor(&powers[&high], &powers[&low])?;
            let other = match high == low {
                true => Cow::Owned(ones(arithmetic, &powers[&high])?),
                false => Cow::Borrowed(&powers[&(high - low)]),
            };
            let sum = arithmetic.add(&product, &arithmetic.mul_prepared(&*other, vector)?)?;
            powers.insert(k, arithmetic.relinearise_rescale(&sum)?);
        }
        Steps { arithmetic, powers }.evaluate(&self.root)
    }
}

/// What a [`Node`] is prepared with.
struct Prepare<'a> {
    parameters: &'a CkksParameters,
    /// The scale of each `D_k`.
    scales: BTreeMap<usize, f64>,
    encode: Encode<'a>,
}

impl Prepare<'_> {
    /// A node whose sum has this level and scale. Quotients get the scales that this needs.
    fn sum(&self, node: &Node, level: usize, scale: f64) -> Result<PreparedNode, CkksError> {
        let terms = node.terms.iter().map(|(k, factor)| {
            let vector = (self.encode)(factor, level, scale / self.scales[k])?;
            Ok((*k, vector))
        });
        let terms = terms.collect::<Result<_, CkksError>>()?;
        let products = node.products.iter().map(|(giant, quotient)| {
            let (scale, above) = (scale / self.scales[giant], level + 1);
            let prepared = match quotient.power {
                // The argument is added at its own level.
                Some(1) => self.sum(quotient, level, scale)?,
                _ => self.sum(quotient, above, scale * self.parameters.level_modulus(above))?,
            };
            Ok((*giant, prepared))
        });
        let products = products.collect::<Result<_, CkksError>>()?;
        let constant = (self.encode)(&node.constant, level, scale)?;
        Ok(PreparedNode { terms, products, constant, power: node.power, level, scale })
    }
}

impl PreparedNode {
    /// Whether the value is the argument plus a constant, which takes no rescale.
    fn is_linear(&self) -> bool {
        self.power == Some(1)
    }

    fn collect_vectors<'a>(&'a self, vectors: &mut Vec<&'a PreparedVector>) {
        vectors.push(&self.constant);
        vectors.extend(self.terms.iter().map(|(_, vector)| vector));
        self.products.iter().for_each(|(_, quotient)| quotient.collect_vectors(vectors));
    }
}

/// A vector of ones of scale 1, without noise, at the level of another vector. A constant is added as its product with
/// an encoded vector, so that the encoding is kept.
pub(crate) fn ones<A: Arithmetic>(arithmetic: &A, a: &A::Vector) -> Result<A::Vector, CkksError> {
    arithmetic.add_constant(&arithmetic.mul_constant(a, Complex64::default(), 1.0)?, Complex64::from(1.0))
}

struct Steps<'a, A: Arithmetic> {
    arithmetic: &'a A,
    powers: BTreeMap<usize, A::Vector>,
}

impl<A: Arithmetic> Steps<'_, A> {
    /// The value of a node. All products of a node have one relinearisation.
    fn evaluate(&self, node: &PreparedNode) -> Result<A::Vector, CkksError> {
        let arithmetic = self.arithmetic;
        let one = ones(arithmetic, &*arithmetic.lowered(&self.powers[&1], node.level)?)?;
        let mut pairs = vec![(&one, &node.constant)];
        pairs.extend(node.terms.iter().map(|(k, vector)| (&self.powers[k], vector)));
        let mut sum = arithmetic.sum_products(&pairs)?;
        for (giant, quotient) in &node.products {
            let power = arithmetic.lowered(&self.powers[giant], node.level)?;
            sum = arithmetic.add(&arithmetic.tensor(&self.evaluate(quotient)?, &power)?, &sum)?;
        }
        let value = match (node.is_linear(), node.products.is_empty()) {
            (true, _) => sum,
            (false, true) => arithmetic.rescale(&sum)?,
            (false, false) => arithmetic.relinearise_rescale(&sum)?,
        };
        match node.power {
            Some(k) => arithmetic.add(&*arithmetic.lowered(&self.powers[&k], arithmetic.level(&value))?, &value),
            None => Ok(value),
        }
    }
}
