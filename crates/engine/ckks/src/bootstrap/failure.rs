//! The failure probability of a bootstrap. It fails if the integer that raising the modulus adds is outside the
//! interval of the reduction.

use unspoken_rlwe::security::SPARSE_WEIGHT;

/// The reduction is valid for `|x| <= RANGE`, with `x` a coefficient divided by the modulus before the raise.
pub(crate) const RANGE: f64 = 13.5;

/// `log2` of a bound on the probability that any of `coefficients` coefficients exceeds [`RANGE`].
///
/// Before the raise each coefficient of `c_0 + c_1 s`, divided by the modulus, is the sum of `h + 1` terms uniform in
/// `[-1/2, 1/2]`, with `h` the weight of the sparse secret. The bound is Chernoff's bound for that sum, `min_t
/// (sinh(t/2) / (t/2))^(h+1) exp(-t RANGE)`, on both sides, and the union bound over the coefficients. `c_0` counts as
/// one of the uniform terms: it is uniform for everybody without the secret, and for the secret's holder the term is
/// smaller, not larger. The sine shifts its argument by 1/4, but `|I| <= 13` still gives `|x| < 13.25`.
pub(crate) fn log2_failure(coefficients: usize) -> f64 {
    (ln_tail((SPARSE_WEIGHT + 1) as f64, RANGE) + (2.0 * coefficients as f64).ln()) / std::f64::consts::LN_2
}

/// Chernoff's bound on the natural logarithm of the probability that `terms` uniform terms sum to `sum` or more.
fn ln_tail(terms: f64, sum: f64) -> f64 {
    let exponent = |t: f64| terms * ((t / 2.0).sinh() / (t / 2.0)).ln() - t * sum;
    // The exponent is convex in t.
    let (mut low, mut high) = (1e-3, 100.0);
    for _ in 0..100 {
        let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        if exponent(a) < exponent(b) {
            high = b;
        } else {
            low = a;
        }
    }
    exponent(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_rarer_than_promised_and_the_bound_is_one() {
        assert!((log2_failure(1 << 16) + 49.6).abs() < 0.1, "{}", log2_failure(1 << 16));
        assert!((log2_failure(1 << 16) - log2_failure(1 << 15) - 1.0).abs() < 1e-9);
        // Twelve terms of the Irwin-Hall distribution, exactly: Pr[sum > 11/2] = (1/2)^12 / 12!.
        let exact = -12.0 - (1..=12).map(|k| f64::from(k).log2()).sum::<f64>();
        let bound = ln_tail(12.0, 5.5) / std::f64::consts::LN_2;
        assert!((exact..exact + 6.0).contains(&bound), "{bound} for {exact}");
    }
}
