//! The powers of a variable, and their copies at lower levels.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use num_complex::Complex64;

use crate::arithmetic::Arithmetic;
use crate::error::CkksError;
use crate::parameters::Drop;

/// The powers `T_k` (or `x^k`) of one variable.
///
/// Between levels that are not nested, a drop costs a division and adds the noise of a rescale. Therefore every such
/// copy of a power is made once and kept, and a sum of powers is dropped once, as a sum.
pub(super) struct Powers<V> {
    powers: BTreeMap<usize, Rc<V>>,
    /// Copies by exponent and level.
    lowered: RefCell<BTreeMap<(usize, usize), Rc<V>>>,
}

impl<V: Clone> Powers<V> {
    pub(super) fn new(variable: V) -> Self {
        Powers { powers: BTreeMap::from([(1, Rc::new(variable))]), lowered: RefCell::default() }
    }

    pub(super) fn insert(&mut self, k: usize, power: V) {
        self.powers.insert(k, Rc::new(power));
    }

    /// Power `k`, at the level at which it was computed.
    pub(super) fn get(&self, k: usize) -> &V {
        &self.powers[&k]
    }

    /// The greatest power whose exponent is a power of two.
    pub(super) fn into_greatest(mut self) -> V {
        let greatest = self.powers.keys().rfind(|k| k.is_power_of_two()).copied().unwrap_or(1);
        let power = self.powers.remove(&greatest).expect("the variable is always there");
        drop(self.lowered);
        Rc::unwrap_or_clone(power)
    }

    /// Power `k` as an operand of an operation at `level`: itself, unless its primes lack some of that level.
    ///
    /// # Errors
    /// If its level is below `level`.
    pub(super) fn operand<A>(&self, arithmetic: &A, k: usize, level: usize) -> Result<Rc<V>, CkksError>
    where
        A: Arithmetic<Vector = V>,
    {
        let power = &self.powers[&k];
        if is_nested(arithmetic, arithmetic.level(power), level) {
            return Ok(Rc::clone(power));
        }
        let known = self.lowered.borrow().get(&(k, level)).map(Rc::clone);
        if let Some(copy) = known {
            return Ok(copy);
        }
        let copy = Rc::new(arithmetic.drop_to(power, level)?);
        self.lowered.borrow_mut().insert((k, level), Rc::clone(&copy));
        Ok(copy)
    }

    /// [`Arithmetic::sum_multiples`] of pairs of exponents and coefficients.
    pub(super) fn sum_multiples<A>(
        &self,
        arithmetic: &A,
        terms: &[(usize, Complex64)],
        level: usize,
        scale: f64,
    ) -> Result<V, CkksError>
    where
        A: Arithmetic<Vector = V>,
    {
        let own = |k: usize| arithmetic.level(self.get(k));
        let nested = terms.iter().all(|&(k, _)| is_nested(arithmetic, own(k), level));
        let common = if nested { level } else { terms.iter().map(|&(k, _)| own(k)).min().unwrap_or(level) };
        let powers = terms.iter().map(|&(k, _)| self.operand(arithmetic, k, common)).collect::<Result<Vec<_>, _>>()?;
        let terms: Vec<(&V, Complex64)> = powers.iter().map(Rc::as_ref).zip(terms.iter().map(|term| term.1)).collect();
        let sum = arithmetic.sum_multiples(&terms, common, scale)?;
        if common == level { Ok(sum) } else { arithmetic.drop_to(&sum, level) }
    }
}

/// Whether a vector at level `from` holds all primes of level `to`.
fn is_nested<A: Arithmetic>(arithmetic: &A, from: usize, to: usize) -> bool {
    from < to || matches!(arithmetic.parameters().drop(from, to), Drop::Nested)
}
