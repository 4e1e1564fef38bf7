//! Evaluation of polynomials by baby steps and giant steps, with late relinearisation.
//!
//! The algorithm is Paterson and Stockmeyer's ("On the number of nonscalar multiplications necessary to evaluate
//! polynomials", SIAM J. Comput. 1973), with the scale of every part computed backwards from the result, so that all
//! summands have equal scales by construction (Bossuat, Mouchet, Troncoso-Pastoriza and Hubaux, EUROCRYPT 2021, section
//! 5).

use num_complex::Complex64;

use super::plan::{Coefficient, Node, Plan, factors};
use super::powers::Powers;
use super::slots::SlotPolynomials;
use super::{Polynomial, PolynomialBasis, ceil_log2};
use crate::arithmetic::Arithmetic;
use crate::error::CkksError;
use crate::prepared::PreparedVector;
use crate::scale::check_scale;

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
    Ok(evaluate_with_power(arithmetic, input, polynomial, scale)?.value)
}

/// What an evaluation made: the value, and the greatest power of two among the powers of the variable.
pub struct WithPower<V> {
    /// The value of the polynomial.
    pub value: V,
    /// `T_n` (or `x^n`) of the variable, where `n` is the greatest power of two that is at most the degree; leading
    /// coefficients that are zero do not count. It is `log2(n)` levels below the variable, so at least one level above
    /// the value. `T_n` is at most 1 on the interval of the polynomial, and grows outside as fast as a polynomial of
    /// its degree can.
    pub power: V,
}

/// As [`evaluate_to_scale`], with a power that the evaluation made.
///
/// # Errors
/// As for [`evaluate_to_scale`].
pub fn evaluate_with_power<A: Arithmetic>(
    arithmetic: &A,
    input: &A::Vector,
    polynomial: &Polynomial,
    scale: f64,
) -> Result<WithPower<A::Vector>, CkksError> {
    check_scale(OPERATION, scale)?;
    if polynomial.degree() == 0 {
        let zero = arithmetic.mul_constant(input, Complex64::default(), scale)?;
        let value = arithmetic.add_constant(&zero, polynomial.coefficients()[0])?;
        return Ok(WithPower { value, power: input.clone() });
    }
    check_level(arithmetic.level(input), polynomial.depth())?;
    let variable = change_variable(arithmetic, input, polynomial)?;
    evaluate_with(arithmetic, variable, polynomial.basis(), (polynomial.coefficients(), &Everywhere), scale)
}

/// Evaluates in every slot the polynomial of that slot. The result has scale `scale` and is [`SlotPolynomials::depth`]
/// levels below the input.
///
/// Every coefficient becomes a vector, which is encoded during the evaluation; levels and scales are the same as for
/// one polynomial for all slots.
///
/// # Errors
/// As for [`evaluate_to_scale`].
pub fn evaluate_slots<A: Arithmetic>(
    arithmetic: &A,
    input: &A::Vector,
    polynomials: &SlotPolynomials,
    scale: f64,
) -> Result<A::Vector, CkksError> {
    Ok(evaluate_slots_with_power(arithmetic, input, polynomials, scale)?.value)
}

/// As [`evaluate_slots`], with a power that the evaluation made.
///
/// # Errors
/// As for [`evaluate_to_scale`].
pub fn evaluate_slots_with_power<A: Arithmetic>(
    arithmetic: &A,
    input: &A::Vector,
    polynomials: &SlotPolynomials,
    scale: f64,
) -> Result<WithPower<A::Vector>, CkksError> {
    check_scale(OPERATION, scale)?;
    check_level(arithmetic.level(input), polynomials.depth())?;
    let basis = PolynomialBasis::Chebyshev { low: -1.0, high: 1.0 };
    let coefficients = (polynomials.coefficients(), polynomials);
    evaluate_with(arithmetic, input.clone(), basis, coefficients, scale)
}

fn check_level(found: usize, needed: usize) -> Result<(), CkksError> {
    if found >= needed { Ok(()) } else { Err(CkksError::Level { operation: OPERATION, found, needed }) }
}

/// Evaluates a polynomial of degree 1 or more of the variable of its basis.
fn evaluate_with<A: Arithmetic, M: Multiples>(
    arithmetic: &A,
    variable: A::Vector,
    basis: PolynomialBasis,
    (coefficients, multiples): (&[M::Coefficient], &M),
    scale: f64,
) -> Result<WithPower<A::Vector>, CkksError> {
    let level = arithmetic.level(&variable);
    let chebyshev = basis != PolynomialBasis::Monomial;
    let plan = Plan::cheapest(arithmetic.parameters(), chebyshev, coefficients, level);
    let powers = make_powers(arithmetic, variable, &plan, basis)?;
    // The level of the last sum, one above the level of the result.
    let level = level - ceil_log2(coefficients.len()) + 1;
    let steps = Steps { arithmetic, powers, multiples };
    let value = steps.evaluate(&plan.root, level, scale)?;
    Ok(WithPower { value, power: steps.powers.into_greatest() })
}

/// Sums of powers times coefficients.
trait Multiples {
    type Coefficient: Coefficient;

    /// `sum c_k T_k` at `level` and `scale`, over one or more terms without a constant.
    fn sum<A: Arithmetic>(
        &self,
        arithmetic: &A,
        powers: &Powers<A::Vector>,
        terms: &[(usize, &Self::Coefficient)],
        place: (usize, f64),
    ) -> Result<A::Vector, CkksError>;

    /// `sum + constant`.
    fn plus<A: Arithmetic>(
        &self,
        arithmetic: &A,
        sum: A::Vector,
        constant: &Self::Coefficient,
    ) -> Result<A::Vector, CkksError>;
}

/// The same coefficients in every slot.
struct Everywhere;

impl Multiples for Everywhere {
    type Coefficient = Complex64;

    fn sum<A: Arithmetic>(
        &self,
        arithmetic: &A,
        powers: &Powers<A::Vector>,
        terms: &[(usize, &Complex64)],
        (level, scale): (usize, f64),
    ) -> Result<A::Vector, CkksError> {
        let terms: Vec<(usize, Complex64)> = terms.iter().map(|&(k, c)| (k, *c)).collect();
        powers.sum_multiples(arithmetic, &terms, level, scale)
    }

    fn plus<A: Arithmetic>(
        &self,
        arithmetic: &A,
        sum: A::Vector,
        constant: &Complex64,
    ) -> Result<A::Vector, CkksError> {
        arithmetic.plus_constant(sum, *constant)
    }
}

impl Multiples for SlotPolynomials {
    type Coefficient = Vec<Complex64>;

    fn sum<A: Arithmetic>(
        &self,
        arithmetic: &A,
        powers: &Powers<A::Vector>,
        terms: &[(usize, &Vec<Complex64>)],
        (level, scale): (usize, f64),
    ) -> Result<A::Vector, CkksError> {
        let mut factors = Vec::with_capacity(terms.len());
        for &(k, coefficient) in terms {
            let power = powers.operand(arithmetic, k, level)?;
            let factor = PreparedVector::new(self.values(coefficient), level, scale / arithmetic.scale(&power))?;
            factors.push((power, factor));
        }
        let products: Vec<(&A::Vector, &PreparedVector)> =
            factors.iter().map(|(power, factor)| (power.as_ref(), factor)).collect();
        arithmetic.sum_products(&products)
    }

    fn plus<A: Arithmetic>(
        &self,
        arithmetic: &A,
        sum: A::Vector,
        constant: &Vec<Complex64>,
    ) -> Result<A::Vector, CkksError> {
        arithmetic.add_values(&sum, &self.values(constant))
    }
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
    plan: &Plan<impl Coefficient>,
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

struct Steps<'a, A: Arithmetic, M> {
    arithmetic: &'a A,
    powers: Powers<A::Vector>,
    multiples: &'a M,
}

impl<A: Arithmetic, M: Multiples> Steps<'_, A, M> {
    /// Evaluates the node at `scale`, one level below `level`.
    fn evaluate(&self, node: &Node<M::Coefficient>, level: usize, scale: f64) -> Result<A::Vector, CkksError> {
        let sum = self.sum(node, level, scale * self.arithmetic.parameters().level_modulus(level))?;
        self.arithmetic.relinearise_rescale(&sum)
    }

    /// Evaluates the node at `level` and `scale` without relinearisation, so that one relinearisation serves all its
    /// products.
    fn sum(&self, node: &Node<M::Coefficient>, level: usize, scale: f64) -> Result<A::Vector, CkksError> {
        let arithmetic = self.arithmetic;
        let mut sum = None;
        let mut add = |part: A::Vector| -> Result<(), CkksError> {
            sum = Some(match sum.take() {
                Some(sum) => arithmetic.add(&sum, &part)?,
                None => part,
            });
            Ok(())
        };
        let terms: Vec<_> = node.terms.iter().filter(|(k, _)| *k > 0).map(|(k, c)| (*k, c)).collect();
        if !terms.is_empty() {
            add(self.multiples.sum(arithmetic, &self.powers, &terms, (level, scale))?)?;
        }
        for (giant, quotient) in &node.products {
            let power = self.powers.operand(arithmetic, *giant, level)?;
            let quotient = self.evaluate(quotient, level + 1, scale / arithmetic.scale(&power))?;
            add(arithmetic.tensor(&quotient, &power)?)?;
        }
        let sum = match sum {
            Some(sum) => sum,
            // Only a constant polynomial has neither terms nor products; it does not come here.
            None => {
                let zero = arithmetic.mul_constant(self.powers.get(1), Complex64::default(), scale)?;
                arithmetic.drop_to(&zero, level)?
            }
        };
        match node.terms.iter().find(|(k, _)| *k == 0) {
            Some((_, constant)) => self.multiples.plus(arithmetic, sum, constant),
            None => Ok(sum),
        }
    }
}
