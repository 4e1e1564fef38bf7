//! Plans that split a polynomial into baby steps and giant steps.

use std::collections::BTreeSet;

use num_complex::Complex64;

use super::{Polynomial, PolynomialBasis, ceil_log2};
use crate::cost::{Cost, CostModel};
use crate::parameters::CkksParameters;

/// A polynomial as `sum_k c_k T_k + sum_g q_g T_g`, with every `q_g` split in the same way.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// `(k, c_k)`, `c_k` not zero.
    pub(super) terms: Vec<(usize, Complex64)>,
    /// `(g, q_g)`, `g` a power of two, `q_g` not constant.
    pub(super) products: Vec<(usize, Node)>,
}

/// A split polynomial and the powers it needs.
pub(super) struct Plan {
    pub(super) root: Node,
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

impl Plan {
    /// The cheapest plan for an argument at `level`. The candidates are the numbers of baby steps that are powers of
    /// two.
    pub(super) fn cheapest(parameters: &CkksParameters, polynomial: &Polynomial, level: usize) -> Self {
        let model = CostModel::nominal(parameters);
        let most = ceil_log2(polynomial.degree() + 1);
        let plans = (0..=most).map(|log2_babies| Plan::new(polynomial, 1 << log2_babies));
        let priced = plans.map(|plan| (model.seconds(&plan.cost(parameters, level)), plan));
        let cheapest = priced.min_by(|(a, _), (b, _)| a.total_cmp(b));
        cheapest.map_or_else(|| Plan::new(polynomial, 1), |(_, plan)| plan)
    }

    /// Splits a polynomial so that leaves have degree below `babies`.
    pub(super) fn new(polynomial: &Polynomial, babies: usize) -> Self {
        let chebyshev = polynomial.basis != PolynomialBasis::Monomial;
        let depth = polynomial.product_depth().saturating_sub(1);
        let root = cut(chebyshev, polynomial.coefficients.clone(), depth, babies);
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

impl Node {
    fn collect_powers(&self, powers: &mut BTreeSet<usize>) {
        powers.extend(self.terms.iter().map(|&(k, _)| k));
        for (giant, quotient) in &self.products {
            powers.insert(*giant);
            quotient.collect_powers(powers);
        }
    }

    /// Calls `visit` on every node with the depth of its sum.
    fn visit(&self, depth: usize, visit: &mut impl FnMut(&Node, usize)) {
        visit(self, depth);
        self.products.iter().for_each(|(_, quotient)| quotient.visit(depth.saturating_sub(1), visit));
    }
}

/// Splits a polynomial whose sum is `depth` levels below the argument, where `T_k` is available if `ceil(log2 k) <=
/// depth`.
fn cut(chebyshev: bool, mut coefficients: Vec<Complex64>, depth: usize, babies: usize) -> Node {
    let is_zero = |c: &Complex64| *c == Complex64::default();
    let mut node = Node::default();
    loop {
        let len = coefficients.iter().rposition(|c| !is_zero(c)).map_or(0, |last| last + 1);
        coefficients.truncate(len);
        let reachable = |k: usize| k < 2 || ceil_log2(k) <= depth;
        let terms = coefficients.iter().enumerate().filter(|(_, c)| !is_zero(c));
        if len <= babies.max(2) && terms.clone().all(|(k, _)| reachable(k)) {
            node.terms.extend(terms.map(|(k, &c)| (k, c)));
            return node;
        }
        let giant = 1 << (len - 1).ilog2();
        let quotient = divide(chebyshev, &mut coefficients, giant);
        match quotient.as_slice() {
            [constant] => node.terms.push((giant, *constant)),
            _ => node.products.push((giant, cut(chebyshev, quotient, depth.saturating_sub(1), babies))),
        }
    }
}

/// Divides by `T_giant` (or `x^giant`), with `giant` the largest power of two that is at most the degree. Leaves the
/// remainder in `coefficients` and returns the quotient.
fn divide(chebyshev: bool, coefficients: &mut Vec<Complex64>, giant: usize) -> Vec<Complex64> {
    let mut quotient = coefficients.split_off(giant);
    if chebyshev {
        // T_giant T_k = (T_(giant+k) + T_(giant-k)) / 2.
        for (k, c) in quotient.iter_mut().enumerate().skip(1) {
            coefficients[giant - k] -= *c;
            *c *= 2.0;
        }
    }
    quotient
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_switches(polynomial: &Polynomial) -> usize {
        let parameters = crate::Preset::find("insecure_n11_depth9_scale50").unwrap().build().unwrap();
        let plan = Plan::cheapest(&parameters, polynomial, 9);
        let mut products = 0;
        plan.root.visit(0, &mut |node, _| products += node.products.len());
        plan.powers.len() + products
    }

    #[test]
    fn plans_take_few_products() {
        let ones = |len| vec![Complex64::from(1.0); len];
        // Counts every product of two ciphertexts; a good plan needs about 2 sqrt(degree).
        assert_eq!(key_switches(&Polynomial::monomial(&ones(4)).unwrap()), 2);
        assert!(key_switches(&Polynomial::chebyshev(&ones(32), -1.0, 1.0).unwrap()) <= 12);
        assert!(key_switches(&Polynomial::chebyshev(&ones(64), -1.0, 1.0).unwrap()) <= 17);
        let odd: Vec<_> = (0..64).map(|k| Complex64::from((k % 2) as f64)).collect();
        assert!(key_switches(&Polynomial::chebyshev(&odd, -1.0, 1.0).unwrap()) <= 14);
        let mut power = vec![Complex64::default(); 33];
        power[32] = Complex64::from(1.0);
        assert_eq!(key_switches(&Polynomial::monomial(&power).unwrap()), 5);
    }
}
