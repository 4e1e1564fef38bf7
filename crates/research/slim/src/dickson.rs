//! Leaves in a basis in which their leading coefficient is 1.

/// A polynomial `D_d(y) + sum_(0 < k < d) b_k D_k(y) + b_0`, where `y = 2 r u` and `D_k(y) = 2 r^k T_k(u)` are the
/// Dickson polynomials with parameter `r^2` ("The analytic representation of substitutions on a power of a prime number
/// of letters", Annals of Mathematics 1897): `D_1 = y` and `D_(i+k) = D_i D_k - r^(2k) D_(i-k)`, with `D_0 = 2`.
///
/// A factor on the leading coefficient would use a level; here it is part of the factor on the argument.
#[derive(Clone, Debug)]
pub(crate) struct Dickson {
    /// `r`, with `2 r^d` the leading Chebyshev coefficient.
    pub(crate) ratio: f64,
    /// `b_0 .. b_d`; `b_d` is 1.
    pub(crate) coefficients: Vec<f64>,
}

impl Dickson {
    /// The polynomial with these Chebyshev coefficients, or its negative if its leading coefficient is negative: only
    /// its square is needed. None if the leading coefficient is 0 or too small.
    pub(crate) fn new(chebyshev: &[f64]) -> Option<Self> {
        let degree = chebyshev.len() - 1;
        let leading = chebyshev[degree];
        let ratio = (leading.abs() / 2.0).powf(1.0 / degree as f64);
        let coefficient = |(k, c): (usize, &f64)| {
            let c = c * leading.signum();
            match k {
                0 => c,
                _ if k == degree => 1.0,
                _ => c / (2.0 * ratio.powi(k as i32)),
            }
        };
        let coefficients: Vec<f64> = chebyshev.iter().enumerate().map(coefficient).collect();
        let usable = ratio > 0.0 && coefficients.iter().all(|c| c.is_finite());
        usable.then_some(Dickson { ratio, coefficients })
    }

    /// The sum of the absolute coefficients.
    pub(crate) fn size(&self) -> f64 {
        self.coefficients.iter().map(|c| c.abs()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::clenshaw;

    #[test]
    fn the_leading_coefficient_becomes_1() {
        let series = [0.3, -0.2, 0.05, 0.01, -0.004];
        let leaf = Dickson::new(&series).unwrap();
        let u = 0.37;
        let y = 2.0 * leaf.ratio * u;
        // D_(k+1) = y D_k - r^2 D_(k-1).
        let mut powers = vec![2.0, y];
        for k in 2..=4 {
            powers.push(y * powers[k - 1] - leaf.ratio * leaf.ratio * powers[k - 2]);
        }
        let sum: f64 = (1..=4).map(|k| leaf.coefficients[k] * powers[k]).sum();
        assert_eq!(leaf.coefficients[4], 1.0);
        assert!((sum + leaf.coefficients[0] + clenshaw(&series, u)).abs() < 1e-15, "the negative of the series");
        assert!(Dickson::new(&[1.0, 0.0, 0.0]).is_none());
    }
}
