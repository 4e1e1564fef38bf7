//! Arithmetic modulo one prime below 2^30, and the search for such primes.

/// Exclusive upper bound of every prime: four times a residue still fits 32 bits,
/// which is what the lazy butterflies rely on.
pub const PRIME_LIMIT: u32 = 1 << 30;

/// A prime modulus `q < 2^30` with the constants of Montgomery multiplication (radix `R = 2^32`).
///
/// Residues are canonical, in `[0, q)`, wherever a function does not say otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modulus {
    /// The prime itself.
    pub q: u32,
    /// `-q^-1 mod 2^32`.
    pub neg_inv: u32,
    /// `R mod q`.
    pub r: u32,
    /// `R^2 mod q`.
    pub r2: u32,
}

/// A constant factor with its precomputed quotient (Shoup): `quotient = floor(value * 2^32 / q)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Shoup {
    /// The factor, in `[0, q)`.
    pub value: u32,
    /// `floor(value * 2^32 / q)`.
    pub quotient: u32,
}

impl Modulus {
    /// The constants for the odd modulus `q < 2^30`. The caller must ensure that `q` is prime where that is needed.
    pub fn new(q: u32) -> Self {
        debug_assert!(q & 1 == 1 && q > 1 && q < PRIME_LIMIT);
        let mut inv = 1u32;
        for _ in 0..5 {
            inv = inv.wrapping_mul(2u32.wrapping_sub(q.wrapping_mul(inv)));
        }
        let r = ((1u64 << 32) % u64::from(q)) as u32;
        let r2 = (u64::from(r) * u64::from(r) % u64::from(q)) as u32;
        Modulus { q, neg_inv: inv.wrapping_neg(), r, r2 }
    }

    /// `a + b mod q`.
    #[inline(always)]
    pub fn add(&self, a: u32, b: u32) -> u32 {
        reduce_once(a + b, self.q)
    }

    /// `a - b mod q`.
    #[inline(always)]
    pub fn sub(&self, a: u32, b: u32) -> u32 {
        reduce_once(a + self.q - b, self.q)
    }

    /// `-a mod q`.
    #[inline(always)]
    pub fn neg(&self, a: u32) -> u32 {
        reduce_once(self.q - a, self.q)
    }

    /// `a * b mod q` on plain residues.
    #[inline(always)]
    pub fn mul(&self, a: u32, b: u32) -> u32 {
        (u64::from(a) * u64::from(b) % u64::from(self.q)) as u32
    }

    /// Montgomery reduction without the final subtraction: `t / R mod q`, in `[0, t / 2^32 + q]`.
    ///
    /// `t` must be below `2^64 - 2^32 q`.
    #[inline(always)]
    pub fn montgomery_lazy(&self, t: u64) -> u32 {
        let m = (t as u32).wrapping_mul(self.neg_inv);
        ((t + u64::from(m) * u64::from(self.q)) >> 32) as u32
    }

    /// `a * b / R mod q`, canonical.
    #[inline(always)]
    pub fn montgomery_mul(&self, a: u32, b: u32) -> u32 {
        reduce_once(self.montgomery_lazy(u64::from(a) * u64::from(b)), self.q)
    }

    /// `a * R mod q`: converts to Montgomery form.
    #[inline(always)]
    pub fn to_montgomery(&self, a: u32) -> u32 {
        self.montgomery_mul(a, self.r2)
    }

    /// `a / R mod q`: converts from Montgomery form.
    #[inline(always)]
    pub fn from_montgomery(&self, a: u32) -> u32 {
        self.montgomery_mul(a, 1)
    }

    /// `base^exponent mod q`.
    pub fn pow(&self, base: u32, mut exponent: u64) -> u32 {
        let (mut base, mut result) = (base % self.q, 1u32 % self.q);
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = self.mul(result, base);
            }
            base = self.mul(base, base);
            exponent >>= 1;
        }
        result
    }

    /// `a^-1 mod q` for a non-zero residue of a prime modulus.
    pub fn inv(&self, a: u32) -> u32 {
        debug_assert!(!a.is_multiple_of(self.q));
        self.pow(a, u64::from(self.q) - 2)
    }

    /// The constant `value` prepared for [`Modulus::mul_shoup_lazy`].
    pub fn shoup(&self, value: u32) -> Shoup {
        Shoup { value, quotient: ((u64::from(value) << 32) / u64::from(self.q)) as u32 }
    }

    /// `a * w mod q` in `[0, 2q)`, for any 32-bit `a`.
    #[inline(always)]
    pub fn mul_shoup_lazy(&self, a: u32, w: Shoup) -> u32 {
        let quotient = ((u64::from(a) * u64::from(w.quotient)) >> 32) as u32;
        a.wrapping_mul(w.value).wrapping_sub(quotient.wrapping_mul(self.q))
    }

    /// `a * w mod q`, canonical, for any 32-bit `a`.
    #[inline(always)]
    pub fn mul_shoup(&self, a: u32, w: Shoup) -> u32 {
        reduce_once(self.mul_shoup_lazy(a, w), self.q)
    }

    /// The residue of any 32-bit word, without a division or a branch.
    #[inline(always)]
    pub fn from_u32(&self, a: u32) -> u32 {
        // (a R) / R
        self.montgomery_mul_word(a, self.r)
    }

    /// The residue of a signed integer, without a division or a branch: coefficients of secrets are converted by this
    /// method.
    #[inline(always)]
    pub fn from_i32(&self, a: i32) -> u32 {
        // As a word, a negative integer is 2^32 too large.
        self.sub(self.from_u32(a as u32), self.r & (a >> 31) as u32)
    }

    /// The residue of a signed integer, without a division or a branch.
    #[inline(always)]
    pub fn from_i64(&self, a: i64) -> u32 {
        let high = self.montgomery_mul(self.from_i32((a >> 32) as i32), self.r2);
        self.add(high, self.from_u32(a as u32))
    }

    /// The residue of a signed 128-bit integer, without a division or a branch.
    #[inline(always)]
    pub fn from_i128(&self, a: i128) -> u32 {
        let shift = |x| self.montgomery_mul(x, self.r2);
        let middle = self.add(shift(self.from_i64((a >> 64) as i64)), self.from_u32((a >> 32) as u32));
        self.add(shift(middle), self.from_u32(a as u32))
    }

    /// `a * b / R mod q` for any word `a` and a residue `b`.
    #[inline(always)]
    fn montgomery_mul_word(&self, a: u32, b: u32) -> u32 {
        // The lazy result is below 2q: a b / 2^32 < q.
        reduce_once(self.montgomery_lazy(u64::from(a) * u64::from(b)), self.q)
    }

    /// The representative in `(-q/2, q/2]`.
    #[inline(always)]
    pub fn centred(&self, a: u32) -> i64 {
        let above = i64::from(self.q / 2) - i64::from(a);
        i64::from(a) - (i64::from(self.q) & (above >> 63))
    }
}

/// `a` or `a - m`, whichever is in `[0, m)`, for `a < 2m`. Branch-free.
#[inline(always)]
pub fn reduce_once(a: u32, m: u32) -> u32 {
    a.min(a.wrapping_sub(m))
}

/// Whether `n` is prime. Deterministic for all 32-bit integers (Miller-Rabin, bases 2, 7, 61).
pub fn is_prime(n: u32) -> bool {
    if n < 2 || (n > 2 && n.is_multiple_of(2)) {
        return n == 2;
    }
    let modulus = u64::from(n);
    let power = |mut base: u64, mut exponent: u64| {
        let mut result = 1u64;
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = result * base % modulus;
            }
            base = base * base % modulus;
            exponent >>= 1;
        }
        result
    };
    let trailing = (n - 1).trailing_zeros();
    let odd = u64::from((n - 1) >> trailing);
    [2u64, 7, 61].iter().all(|&base| {
        if base % modulus == 0 {
            return true;
        }
        let mut x = power(base, odd);
        if x == 1 || x == modulus - 1 {
            return true;
        }
        (1..trailing).any(|_| {
            x = x * x % modulus;
            x == modulus - 1
        })
    })
}

/// The primes `q = 1 mod step` in `[low, high)`, largest first.
pub fn primes_descending(low: u32, high: u32, step: u32) -> impl Iterator<Item = u32> {
    let first = (high.saturating_sub(2) / step) * step + 1;
    (0u32..)
        .map_while(move |i| first.checked_sub(i.checked_mul(step)?))
        .take_while(move |&q| q >= low && q > 1)
        .filter(move |&q| q < high && is_prime(q))
}

/// A primitive `order`-th root of unity modulo the prime `q`; `order` is a power of two dividing `q - 1`.
pub fn primitive_root_of_unity(modulus: &Modulus, order: u32) -> u32 {
    debug_assert!(order.is_power_of_two() && (modulus.q - 1).is_multiple_of(order));
    let exponent = u64::from((modulus.q - 1) / order);
    (2u32..)
        .map(|g| modulus.pow(g, exponent))
        .find(|&root| modulus.pow(root, u64::from(order) / 2) == modulus.q - 1)
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIME: u32 = 1_073_479_681; // 1 mod 2^17

    #[test]
    fn montgomery_agrees_with_division() {
        for q in [PRIME, 12289, 3] {
            let m = Modulus::new(q);
            for (a, b) in [(0, 0), (1, q - 1), (q - 1, q - 1), (q / 2, q / 3)] {
                let product = m.montgomery_mul(m.to_montgomery(a), m.to_montgomery(b));
                assert_eq!(m.from_montgomery(product), m.mul(a, b));
            }
        }
    }

    #[test]
    fn shoup_holds_for_every_32_bit_operand() {
        let m = Modulus::new(PRIME);
        for value in [0, 1, PRIME - 1, PRIME / 2] {
            let w = m.shoup(value);
            for a in [0, 1, PRIME, 4 * PRIME - 1, u32::MAX] {
                let lazy = m.mul_shoup_lazy(a, w);
                assert!(lazy < 2 * PRIME);
                assert_eq!(u64::from(m.mul_shoup(a, w)), u64::from(a) * u64::from(value) % u64::from(PRIME));
            }
        }
    }

    #[test]
    fn inverses_and_signs() {
        let m = Modulus::new(PRIME);
        assert_eq!(m.mul(m.inv(12345), 12345), 1);
        for a in [0, 1, -1, i32::MAX, i32::MIN, 12345, -12345] {
            assert_eq!(i64::from(m.from_i32(a)), i64::from(a).rem_euclid(i64::from(PRIME)));
        }
        for a in [0, 1, -1, i64::MAX, i64::MIN, 1 << 32, -(1 << 32), -(1 << 31)] {
            assert_eq!(i64::from(m.from_i64(a)), a.rem_euclid(i64::from(PRIME)));
        }
        for a in [0, 1, -1, i128::MAX, i128::MIN, 1 << 64, -(1 << 64), 1 << 32, -(1 << 96) + 7] {
            assert_eq!(i128::from(m.from_i128(a)), a.rem_euclid(i128::from(PRIME)));
        }
        assert_eq!(m.centred(PRIME - 1), -1);
        assert_eq!(m.neg(0), 0);
    }

    #[test]
    fn primes_match_trial_division() {
        let by_trial = |n: u32| n > 1 && (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
        for n in 0..5000 {
            assert_eq!(is_prime(n), by_trial(n), "{n}");
        }
        // Strong pseudoprimes to small bases.
        for n in [2047, 3_215_031_751, 25_326_001] {
            assert!(!is_prime(n));
        }
    }

    #[test]
    fn prime_supply_is_what_the_presets_assume() {
        let count = |low, high| primes_descending(low, high, 1 << 17).count();
        assert_eq!(count(1 << 24, 1 << 25), 18);
        assert_eq!(count(1 << 25, 1 << 26), 22);
        assert_eq!(primes_descending(1 << 29, 1 << 30, 1 << 17).next(), Some(PRIME));
    }

    #[test]
    fn roots_are_primitive() {
        let m = Modulus::new(PRIME);
        let root = primitive_root_of_unity(&m, 1 << 17);
        assert_eq!(m.pow(root, 1 << 16), PRIME - 1);
    }
}
