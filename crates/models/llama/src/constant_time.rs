//! Arithmetic and choices with secret numbers, in time and with addresses that do not depend on them. The functions of
//! the standard library look values up in tables.

use subtle::{Choice, ConditionallySelectable, ConstantTimeGreater, ConstantTimeLess};

/// `e^x` for `x` of at most 0, within `2^-50` of itself. What would be less than `e^-700` is that.
pub(crate) fn exp(x: f64) -> f64 {
    /// Added and subtracted again, it rounds to an integer.
    const ROUND: f64 = 1.5 * (1u64 << 52) as f64;
    // `x = whole ln 2 + rest`: the first part of ln 2 has 32 bits, so that its product with `whole` is exact.
    const LN_2: [f64; 2] = [0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10];
    let x = selected(x, -700.0, x.to_bits().ct_gt(&(-700.0f64).to_bits()));
    let rounded = x * std::f64::consts::LOG2_E + ROUND;
    let whole = rounded - ROUND;
    let rest = (x - whole * LN_2[0]) - whole * LN_2[1];
    // The series of exp up to rest^13 / 13!, for |rest| of at most 0.35.
    let power = (1..=13).rev().fold(1.0, |sum, i| 1.0 + sum * rest / f64::from(i));
    // The lowest bits of `rounded` are those of `whole`.
    power * f64::from_bits(rounded.to_bits().wrapping_add(1023) << 52)
}

/// The natural logarithm of a number of at least 1, within `2^-45`.
pub(crate) fn ln(x: f64) -> f64 {
    const FRACTION: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let exponent = (bits >> 52) as i64 as f64 - 1023.0;
    // In [1, 2), then in [0.75, 1.5).
    let fraction = f64::from_bits(bits & FRACTION | 1023 << 52);
    let halved = !fraction.to_bits().ct_lt(&1.5f64.to_bits());
    let fraction = selected(fraction, fraction / 2.0, halved);
    let exponent = selected(exponent, exponent + 1.0, halved);
    let ratio = (fraction - 1.0) / (fraction + 1.0);
    // The series of 2 atanh, for |ratio| of at most 0.2.
    let series = (0..11).rev().fold(0.0, |sum, i| sum * ratio * ratio + 1.0 / f64::from(2 * i + 1));
    exponent * std::f64::consts::LN_2 + 2.0 * ratio * series
}

pub(crate) fn selected(otherwise: f64, then: f64, choice: Choice) -> f64 {
    f64::from_bits(u64::conditional_select(&otherwise.to_bits(), &then.to_bits(), choice))
}

/// The place of the first choice that is set; 0 if none is.
pub(crate) fn first(choices: impl Iterator<Item = Choice>) -> u32 {
    let (mut place, mut found) = (0u32, Choice::from(0));
    for (number, choice) in (0u32..).zip(choices) {
        place.conditional_assign(&number, choice & !found);
        found |= choice;
    }
    place
}

/// The place of the largest key; the first of equal ones. 0 if all are 0.
pub(crate) fn largest(keys: &[u64]) -> u32 {
    let (mut best, mut place) = (0u64, 0u32);
    for (number, key) in (0u32..).zip(keys) {
        let larger = key.ct_gt(&best);
        best.conditional_assign(key, larger);
        place.conditional_assign(&number, larger);
    }
    place
}

/// The largest of numbers, none of which is NaN; minus infinity without numbers. `f64::max` branches on what is NaN.
pub(crate) fn maximum(values: &[f64]) -> f64 {
    let (mut key, mut best) = (0u64, f64::NEG_INFINITY);
    for value in values {
        let other = ordered(*value);
        let larger = other.ct_gt(&key);
        key.conditional_assign(&other, larger);
        best = selected(best, *value, larger);
    }
    best
}

/// A number in the same order as floating-point numbers; above 0 for those that are not NaN.
pub(crate) fn ordered(value: f64) -> u64 {
    // The sum makes -0 and 0 the same.
    let bits = (value + 0.0).to_bits();
    let sign = 0u64.wrapping_sub(bits >> 63);
    bits ^ (sign | 1 << 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_and_logarithms_are_those_of_the_library() {
        for i in 0..=70_000 {
            let x = -0.01 * f64::from(i);
            assert!((exp(x) / x.exp() - 1.0).abs() < 2f64.powi(-50), "{x}");
            let y = 1.0 + 0.37 * f64::from(i) * f64::from(i);
            assert!((ln(y) - y.ln()).abs() < 2f64.powi(-45), "{y}");
        }
        assert_eq!((exp(0.0), exp(-0.0), ln(1.0)), (1.0, 1.0, 0.0));
        assert_eq!((exp(-1e9), exp(f64::NEG_INFINITY)), (exp(-700.0), exp(-700.0)));
    }

    #[test]
    fn the_first_of_the_largest_numbers() {
        for (values, place) in [
            (&[3.0, 5.0, -7.0, 5.0][..], 1),
            (&[-3.0, -2.5, -2.75], 1),
            (&[-0.0, 0.0], 0),
            (&[0.0, -0.0, 1e-310], 2),
            (&[f64::MIN, f64::MIN], 0),
            (&[f64::NEG_INFINITY, f64::MIN, f64::MAX, f64::INFINITY], 3),
            (&[-1e-310, -1.0], 0),
        ] {
            let keys: Vec<u64> = values.iter().map(|value| ordered(*value)).collect();
            assert_eq!((largest(&keys), maximum(values)), (place, values[place as usize]), "{values:?}");
        }
        assert_eq!(maximum(&[]), f64::NEG_INFINITY);
    }
}
