//! Evaluation of polynomials by baby steps and giant steps, with late relinearisation.
//!
//! The algorithm is that of Paterson and Stockmeyer ("On the number of nonscalar multiplications necessary to evaluate
//! polynomials", SIAM J. Comput. 1973), with the scale of every part computed backwards from the result, so that all
//! summands have equal scales by construction (Bossuat, Mouchet, Troncoso-Pastoriza and Hubaux, EUROCRYPT 2021, section
//! 5).

use num_complex::Complex64;

use super::plan::{Node, Plan, factors};
use super::powers::Powers;
use super::{Polynomial, PolynomialBasis};
use crate::arithmetic::{Arithmetic, check_scale};
use crate::error::CkksError;

const OPERATION: &str = "evaluate a polynomial";

/// Evaluates the polynomial on every slot. The result has the parameters' scale and is [`Polynomial::depth`] levels
/// below the input.
///
/// # Errors
/// As for [`evaluate_to_scale`].
pub fn evaluate<A: Arithmetic>(
    arithmetic: &A,
    input: &A::Vector,
    polynomial: &Polynomial,
) -> Result<A::Vector, CkksError> {
    evaluate_to_scale(arithmetic, input, polynomial, arithmetic.parameters().scale())
}

/// Evaluates the polynomial on every slot. The result has scale `scale` and is [`Polynomial::depth`] levels below the
/// input.
///
/// Each coefficient is multiplied by `scale` and the primes of a level, divided by the scale of its power, and rounded.
/// A `scale` far below the input's makes the rounded coefficients coarse.
///
/// # Errors
/// [`CkksError::Level`] if the input's level is below the polynomial's depth; other errors if the input is not
/// relinearised, the relinearisation key is missing, a coefficient is complex in the conjugate-invariant ring, or the
/// scale is not a positive number.
pub fn evaluate_to_scale<A: Arithmetic>(
    arithmetic: &A,
    input: &A::Vector,
    polynomial: &Polynomial,
    scale: f64,
) -> Result<A::Vector, CkksError> {
    if polynomial.degree() == 0 {
        check_scale(OPERATION, scale)?;
        let zero = arithmetic.mul_constant(input, Complex64::default(), scale)?;
        return arithmetic.add_constant(&zero, polynomial.coefficients()[0]);
    }
    evaluate_with(arithmetic, input, polynomial, (None, scale))
}

/// As [`evaluate_to_scale`], with the value of every slot multiplied by the weight of the slot. Weights repeat if they
/// are fewer than the slots. Every coefficient becomes a vector, which is encoded during the evaluation; levels and
/// scales are the same as without weights.
///
/// # Errors
/// As for [`evaluate_to_scale`], and if the polynomial is constant.
pub(crate) fn evaluate_weighted<A: Arithmetic>(
    arithmetic: &A,
    input: &A::Vector,
    polynomial: &Polynomial,
    weights: &[Complex64],
    scale: f64,
) -> Result<A::Vector, CkksError> {
    if polynomial.degree() == 0 {
        let needed = "a polynomial of degree 1 or more".into();
        return Err(CkksError::Shape { operation: OPERATION, found: 0, needed });
    }
    evaluate_with(arithmetic, input, polynomial, (Some(weights), scale))
}

fn evaluate_with<A: Arithmetic>(
    arithmetic: &A,
    input: &A::Vector,
    polynomial: &Polynomial,
    (weights, scale): (Option<&[Complex64]>, f64),
) -> Result<A::Vector, CkksError> {
    check_scale(OPERATION, scale)?;
    let (found, needed) = (arithmetic.level(input), polynomial.depth());
    if found < needed {
        return Err(CkksError::Level { operation: OPERATION, found, needed });
    }
    let variable = change_variable(arithmetic, input, polynomial)?;
    let level = arithmetic.level(&variable);
    let plan = Plan::cheapest(arithmetic.parameters(), polynomial, level);
    let powers = make_powers(arithmetic, variable, &plan, polynomial.basis())?;
    // The level of the last sum, one above the level of the result.
    let level = level - polynomial.product_depth() + 1;
    Steps { arithmetic, powers, weights }.evaluate(&plan.root, level, scale)
}

/// Maps the argument to the variable of the basis. A factor other than 1 uses one level.
fn change_variable<A: Arithmetic>(
    arithmetic: &A,
    input: &A::Vector,
    polynomial: &Polynomial,
) -> Result<A::Vector, CkksError> {
    let (factor, offset) = polynomial.affine_map();
    let mut variable = input.clone();
    if factor != 1.0 {
        let parameters = arithmetic.parameters();
        let scale = parameters.scale() * parameters.level_modulus(arithmetic.level(input));
        variable = arithmetic.rescale(&arithmetic.mul_constant(input, Complex64::from(factor), scale)?)?;
    }
    if offset != 0.0 {
        variable = arithmetic.add_constant(&variable, Complex64::from(offset))?;
    }
    Ok(variable)
}

/// Computes the powers of a plan, each at the highest possible level: `T_k` is `ceil(log2 k)` levels below `T_1`.
fn make_powers<A: Arithmetic>(
    arithmetic: &A,
    variable: A::Vector,
    plan: &Plan,
    basis: PolynomialBasis,
) -> Result<Powers<A::Vector>, CkksError> {
    let mut powers = Powers::new(variable);
    for &k in &plan.powers {
        let (high, low) = factors(k);
        let level = arithmetic.level(powers.get(high));
        let product = arithmetic.tensor(powers.get(high), powers.operand(arithmetic, low, level)?.as_ref())?;
        let product = match basis {
            PolynomialBasis::Monomial => product,
            // T_(a+b) = 2 T_a T_b - T_(a-b), subtracted before the rescale, at the scale of the product.
            PolynomialBasis::Chebyshev { .. } => {
                let doubled = arithmetic.add(&product, &product)?;
                if high == low {
                    arithmetic.plus_constant(doubled, Complex64::from(-1.0))?
                } else {
                    let scale = arithmetic.scale(&doubled);
                    let lower = powers.operand(arithmetic, high - low, level)?;
                    let lower = arithmetic.lowered(&lower, level)?;
                    arithmetic.sub(&doubled, &arithmetic.mul_constant(&lower, Complex64::from(1.0), scale)?)?
                }
            }
        };
        powers.insert(k, arithmetic.relinearise_rescale(&product)?);
    }
    Ok(powers)
}

struct Steps<'a, A: Arithmetic> {
    arithmetic: &'a A,
    powers: Powers<A::Vector>,
    /// The factors of the slots of the result, if they are not all 1.
    weights: Option<&'a [Complex64]>,
}

impl<A: Arithmetic> Steps<'_, A> {
    /// Evaluates the node at `scale`, one level below `level`.
    fn evaluate(&self, node: &Node, level: usize, scale: f64) -> Result<A::Vector, CkksError> {
        let sum = self.sum(node, level, scale * self.arithmetic.parameters().level_modulus(level))?;
        self.arithmetic.relinearise_rescale(&sum)
    }

    /// Evaluates the node at `level` and `scale` without relinearisation, so that one relinearisation serves all its
    /// products.
    fn sum(&self, node: &Node, level: usize, scale: f64) -> Result<A::Vector, CkksError> {
        let arithmetic = self.arithmetic;
        let mut sum = None;
        let mut add = |part: A::Vector| -> Result<(), CkksError> {
            sum = Some(match sum.take() {
                Some(sum) => arithmetic.add(&sum, &part)?,
                None => part,
            });
            Ok(())
        };
        let terms: Vec<(usize, Complex64)> = node.terms.iter().filter(|(k, _)| *k > 0).copied().collect();
        if !terms.is_empty() {
            add(self.multiples(&terms, level, scale)?)?;
        }
        for (giant, quotient) in &node.products {
            let power = self.powers.operand(arithmetic, *giant, level)?;
            let quotient = self.evaluate(quotient, level + 1, scale / arithmetic.scale(&power))?;
            add(arithmetic.tensor(&quotient, &power)?)?;
        }
        let constant = node.terms.iter().find(|(k, _)| *k == 0);
        match (sum, constant) {
            (Some(sum), Some(&(_, constant))) => self.plus_constant(sum, constant),
            (Some(sum), None) => Ok(sum),
            // Only a constant polynomial has neither terms nor products, and `evaluate_to_scale` has handled that case.
            (None, constant) => {
                let zero = arithmetic.mul_constant(self.powers.get(1), Complex64::default(), scale)?;
                let zero = arithmetic.drop_to(&zero, level)?;
                self.plus_constant(zero, constant.map_or(Complex64::default(), |c| c.1))
            }
        }
    }

    /// The sum of powers times coefficients, and times the weights.
    fn multiples(&self, terms: &[(usize, Complex64)], level: usize, scale: f64) -> Result<A::Vector, CkksError> {
        let arithmetic = self.arithmetic;
        let Some(weights) = self.weights else { return self.powers.sum_multiples(arithmetic, terms, level, scale) };
        let weighted = |&(k, coefficient): &(usize, Complex64)| {
            let power = self.powers.operand(arithmetic, k, level)?;
            let power = arithmetic.lowered(&power, level)?;
            let values: Vec<Complex64> = weights.iter().map(|weight| weight * coefficient).collect();
            arithmetic.mul_values(&power, &values, scale / arithmetic.scale(&power))
        };
        let (first, others) = terms.split_first().expect("callers pass terms");
        others.iter().try_fold(weighted(first)?, |sum, term| arithmetic.add(&sum, &weighted(term)?))
    }

    fn plus_constant(&self, sum: A::Vector, constant: Complex64) -> Result<A::Vector, CkksError> {
        let Some(weights) = self.weights else { return self.arithmetic.plus_constant(sum, constant) };
        let values: Vec<Complex64> = weights.iter().map(|weight| weight * constant).collect();
        self.arithmetic.add_values(&sum, &values)
    }
}
