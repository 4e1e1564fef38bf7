//! Decomposition of integers in floating point into digits. No branch depends on their value, because they may be a
//! client's messages.

use crate::kernels::ConversionTarget;
use crate::modular::Modulus;

/// `log2` of the exclusive bound on the magnitude of integers.
pub(crate) const MAX_LOG2_INTEGER: u32 = 126;

/// Number of bits of a digit. A digit is from `-2^29` to `2^29`. It is stored with [`BIAS`] added, because kernels
/// convert words up to `2^30`.
const DIGIT_BITS: u32 = 30;

/// Added to a digit to make it non-negative.
const BIAS: u32 = 1 << (DIGIT_BITS - 1);

/// A constant whose neighbouring floating-point numbers are integers. After it is added to a number, the lowest 32 bits
/// of the sum are the lowest 32 bits of the rounded number.
const SHIFT: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52

/// Number of coefficients that are decomposed at a time.
const BLOCK: usize = 256;

/// Bytes of stack to wipe after [`split`]: more than it uses.
pub(crate) const STACK_BYTES: usize = 4096;

/// Number of digits of an integer below `2^log2_bound` in magnitude.
pub(crate) const fn digit_count(log2_bound: u32) -> usize {
    (log2_bound + 1).div_ceil(DIGIT_BITS) as usize
}

/// The nearest integer, ties to even, without a call or a branch. A number of at least 2^51 is returned unchanged, even
/// if it has a half.
#[inline(always)]
pub fn round_ties_even(x: f64) -> f64 {
    const LARGE: f64 = 2_251_799_813_685_248.0; // 2^51
    let rounded = (x + SHIFT) - SHIFT;
    if x.abs() < LARGE { rounded } else { x }
}

/// Removes the highest digit from an integer whose higher digits are already removed, and returns it with [`BIAS`]
/// added. `unit` is the weight of the digit.
#[inline(always)]
fn take_digit(rest: &mut f64, unit: f64, inverse: f64) -> u32 {
    let shifted = *rest * inverse + SHIFT;
    *rest -= (shifted - SHIFT) * unit;
    (shifted.to_bits() as u32).wrapping_add(BIAS)
}

/// The weight of digit `place`, and its inverse.
fn unit(place: usize) -> (f64, f64) {
    let log2 = (DIGIT_BITS as usize * place) as i32;
    (2f64.powi(log2), 2f64.powi(-log2))
}

/// Rounds numbers to integers and writes their digits: digit `j` of number `i` to `digits[j * stride + i]`. Returns
/// whether all numbers are below `2^log2_bound` in magnitude; if not, the digits are wrong.
#[inline(never)]
pub(crate) fn split(numbers: &[f64], log2_bound: u32, digits: &mut [u32], stride: usize) -> bool {
    let (bound, mut fits) = (2f64.powi(log2_bound as i32), true);
    for (block, numbers) in numbers.chunks(BLOCK).enumerate() {
        let mut rests = [0f64; BLOCK];
        for (rest, &x) in rests.iter_mut().zip(numbers) {
            *rest = round_ties_even(x);
            fits &= x.abs() < bound;
        }
        for place in (0..digit_count(log2_bound)).rev() {
            let (unit, inverse) = unit(place);
            let target = &mut digits[place * stride + block * BLOCK..][..numbers.len()];
            target.iter_mut().zip(&mut rests).for_each(|(digit, rest)| *digit = take_digit(rest, unit, inverse));
        }
    }
    fits
}

/// The constants that convert `count` digits to Montgomery form modulo a prime.
pub(crate) fn conversion_target(modulus: &Modulus, count: usize) -> ConversionTarget {
    let base = modulus.from_u32(1 << DIGIT_BITS);
    let powers = std::iter::successors(Some(modulus.r2), |&power| Some(modulus.mul(power, base)));
    let factors: Vec<u32> = powers.take(count).collect();
    let bias = factors.iter().fold(0, |sum, &factor| modulus.add(sum, modulus.mul(factor, modulus.from_u32(BIAS))));
    ConversionTarget { modulus: *modulus, offset: modulus.neg(bias), factors }
}

/// The integer nearest to a number below 2^126 in magnitude, ties to even, without a branch or a call. For other
/// numbers the result is unspecified.
pub fn nearest_integer(x: f64) -> i128 {
    let mut rest = round_ties_even(x);
    (0..digit_count(MAX_LOG2_INTEGER)).rev().fold(0, |integer: i128, place| {
        let (unit, inverse) = unit(place);
        let digit = take_digit(&mut rest, unit, inverse).wrapping_sub(BIAS).cast_signed();
        (integer << DIGIT_BITS) + i128::from(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_integers_are_exact() {
        let powers = (0..126).flat_map(|i| [2f64.powi(i), 2f64.powi(i) * 1.2345, 3f64.powi(i / 2) + 0.5]);
        for x in powers.chain([0.0, 0.5, 1.5, 0.49999999999999994, 4503599627370495.5]).flat_map(|x| [x, -x]) {
            assert_eq!(nearest_integer(x), x.round_ties_even() as i128, "{x}");
            if x.abs() < 2f64.powi(51) {
                assert_eq!(round_ties_even(x), x.round_ties_even(), "{x}");
            }
        }
    }
}
