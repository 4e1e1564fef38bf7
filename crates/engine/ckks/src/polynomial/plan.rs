//! Plans that split a polynomial into baby steps and giant steps.

use std::collections::BTreeSet;

use num_complex::Complex64;

use super::ceil_log2;
use crate::cost::{Cost, CostModel};
use crate::parameters::CkksParameters;

/// A coefficient: a number, or one for each of several polynomials that are evaluated together.
pub(super) trait Coefficient: Clone {
    /// Whether it is zero in all polynomials.
    fn is_zero(&self) -> bool;

    /// `self -= other`.
    fn subtract(&mut self, other: &Self);

    /// `self *= 2`.
    fn double(&mut self);
}

impl Coefficient for Complex64 {
    fn is_zero(&self) -> bool {
        *self == Complex64::default()
    }

    fn subtract(&mut self, other: &Self) {
        *self -= other;
    }

    fn double(&mut self) {
        *self *= 2.0;
    }
}

impl Coefficient for Vec<Complex64> {
    fn is_zero(&self) -> bool {
        self.iter().all(Coefficient::is_zero)
    }

    fn subtract(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(c, other)| c.subtract(other));
    }

    fn double(&mut self) {
        self.iter_mut().for_each(Coefficient::double);
    }
}

/// A polynomial as `sum_k c_k T_k + sum_g q_g T_g`, with every `q_g` split in the same way.
#[derive(Debug)]
pub(super) struct Node<C> {
    /// `(k, c_k)`, `c_k` not zero.
    pub(super) terms: Vec<(usize, C)>,
    /// `(g, q_g)`, `g` a power of two, `q_g` not constant.
    pub(super) products: Vec<(usize, Node<C>)>,
}

/// A split polynomial and the powers it needs.
pub(super) struct Plan<C> {
    pub(super) root: Node<C>,
    /// Every `k >= 2` whose `T_k` (or `x^k`) is needed, directly or to compute another power.
    pub(super) powers: BTreeSet<usize>,
    /// Number of levels by which the root's sum is below the argument.
    depth: usize,
}

/// The factors `(high, low)` of `T_k`, with `k = high + low` and `high` a power of two. This keeps the depth at
/// `ceil(log2 k)`, and odd (even) polynomials need only odd (even) powers and powers of two.
pub(super) fn factors(k: usize) -> (usize, usize) {
    let high = k.next_power_of_two() / 2;
    (high, k - high)
}

impl<C: Coefficient> Plan<C> {
    /// The cheapest plan for the polynomial with these coefficients, lowest degree first, of an argument at `level`.
    /// The candidates are the numbers of baby steps that are powers of two.
    pub(super) fn cheapest(parameters: &CkksParameters, chebyshev: bool, coefficients: &[C], level: usize) -> Self {
        let model = CostModel::nominal(parameters);
        let most = ceil_log2(coefficients.len());
        let plans = (0..=most).map(|log2_babies| Plan::new(chebyshev, coefficients, 1 << log2_babies));
        let priced = plans.map(|plan| (model.seconds(&plan.cost(parameters, level)), plan));
        let cheapest = priced.min_by(|(a, _), (b, _)| a.total_cmp(b));
        cheapest.map_or_else(|| Plan::new(chebyshev, coefficients, 1), |(_, plan)| plan)
    }

    /// Splits a polynomial so that leaves have degree below `babies`.
    pub(super) fn new(chebyshev: bool, coefficients: &[C], babies: usize) -> Self {
        let depth = ceil_log2(coefficients.len()).saturating_sub(1);
        let root = cut(chebyshev, coefficients.to_vec(), depth, babies);
        let mut wanted = BTreeSet::new();
        root.collect_powers(&mut wanted);
        let mut powers = BTreeSet::new();
        while let Some(k) = wanted.pop_last().filter(|&k| k > 1) {
            let (high, low) = factors(k);
            wanted.extend([high, low]);
            if chebyshev && high > low {
                wanted.insert(high - low);
            }
            powers.insert(k);
        }
        Plan { root, powers, depth }
    }

    fn cost(&self, parameters: &CkksParameters, level: usize) -> Cost {
        let product = |depth: usize| {
            let level = level.saturating_sub(depth);
            let (basis, below) = (parameters.basis(level), parameters.basis(level.saturating_sub(1)));
            let mut cost = Cost::tensor(parameters.ring(), basis);
            cost += Cost::key_switch(parameters.ring(), basis, below);
            cost += Cost::addition(parameters.ring(), basis, 3);
            cost
        };
        let mut cost = Cost::default();
        self.powers.iter().for_each(|&k| cost += product(ceil_log2(k) - 1));
        self.root.visit(self.depth, &mut |node, depth| {
            let limbs = parameters.limbs(level.saturating_sub(depth));
            cost += Cost::elementwise(parameters.ring(), 12 * limbs * node.terms.len());
            if !node.products.is_empty() {
                cost += product(depth);
            }
        });
        cost
    }
}

impl<C> Node<C> {
    fn collect_powers(&self, powers: &mut BTreeSet<usize>) {
        powers.extend(self.terms.iter().map(|&(k, _)| k));
        for (giant, quotient) in &self.products {
            powers.insert(*giant);
            quotient.collect_powers(powers);
        }
    }

    /// Calls `visit` on every node with the depth of its sum.
    fn visit(&self, depth: usize, visit: &mut impl FnMut(&Node<C>, usize)) {
        visit(self, depth);
        self.products.iter().for_each(|(_, quotient)| quotient.visit(depth.saturating_sub(1), visit));
    }
}

/// Splits a polynomial whose sum is `depth` levels below the argument, where `T_k` is available if `ceil(log2 k) <=
/// depth`.
fn cut<C: Coefficient>(chebyshev: bool, mut coefficients: Vec<C>, depth: usize, babies: usize) -> Node<C> {
    let mut node = Node { terms: Vec::new(), products: Vec::new() };
    loop {
        let len = coefficients.iter().rposition(|c| !c.is_zero()).map_or(0, |last| last + 1);
        coefficients.truncate(len);
        let reachable = |k: usize| k < 2 || ceil_log2(k) <= depth;
        let terms = coefficients.iter().enumerate().filter(|(_, c)| !c.is_zero());
        if len <= babies.max(2) && terms.clone().all(|(k, _)| reachable(k)) {
            node.terms.extend(terms.map(|(k, c)| (k, c.clone())));
            return node;
        }
        let giant = 1 << (len - 1).ilog2();
        let quotient = divide(chebyshev, &mut coefficients, giant);
        match quotient.as_slice() {
            [constant] => node.terms.push((giant, constant.clone())),
            _ => node.products.push((giant, cut(chebyshev, quotient, depth.saturating_sub(1), babies))),
        }
    }
}

/// Divides by `T_giant` (or `x^giant`), with `giant` the largest power of two that is at most the degree. Leaves the
/// remainder in `coefficients` and returns the quotient.
fn divide<C: Coefficient>(chebyshev: bool, coefficients: &mut Vec<C>, giant: usize) -> Vec<C> {
    let mut quotient = coefficients.split_off(giant);
    if chebyshev {
        // T_giant T_k = (T_(giant+k) + T_(giant-k)) / 2.
        for (k, c) in quotient.iter_mut().enumerate().skip(1) {
            coefficients[giant - k].subtract(c);
            c.double();
        }
    }
    quotient
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_switches(chebyshev: bool, coefficients: &[Complex64]) -> usize {
        let parameters = crate::Preset::find("insecure_n11_depth9_scale50").unwrap().build().unwrap();
        let plan = Plan::cheapest(&parameters, chebyshev, coefficients, 9);
        let mut products = 0;
        plan.root.visit(0, &mut |node, _| products += node.products.len());
        plan.powers.len() + products
    }

    #[test]
    fn plans_take_few_products() {
        let ones = |len| vec![Complex64::from(1.0); len];
        // Counts every product of two ciphertexts; a good plan needs about 2 sqrt(degree).
        assert_eq!(key_switches(false, &ones(4)), 2);
        assert!(key_switches(true, &ones(32)) <= 12);
        assert!(key_switches(true, &ones(64)) <= 17);
        let odd: Vec<_> = (0..64).map(|k| Complex64::from((k % 2) as f64)).collect();
        assert!(key_switches(true, &odd) <= 14);
        let mut power = vec![Complex64::default(); 33];
        power[32] = Complex64::from(1.0);
        assert_eq!(key_switches(false, &power), 5);
    }
}
