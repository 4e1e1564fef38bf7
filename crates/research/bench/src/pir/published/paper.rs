//! The paper's own sets (Tables 3 and 4) and what its text prints, under the formulas of the engine.

use unspoken_gsw::{Noise, log2_failure};
use unspoken_ring::ERROR_SIGMA;

use super::table_six::TableSix;

const LOG2_DEGREE: u32 = 11;
const LOG2_MODULUS: f64 = 56.0;
/// LWE dimensions: of the query and the digits, and of the bits.
const DIMENSIONS: [usize; 2] = [1300, 600];
/// LWE dimension of the scheme switch, in Table 4. Table 3 ends at 600.
const SCHEME_SWITCH: usize = 512;
const SWITCH_MODULUS: f64 = 42.0;
const DIGIT_BITS: u32 = 5;

/// Bytes of offline communication that Table 7 prints.
pub(super) const PRINTED_BYTES: f64 = 1.2e9;

/// Blind rotations of the decomposition of `index_bits` bits, as section 3.1 counts them.
pub(super) fn printed_rotations(index_bits: u32) -> u32 {
    3 * index_bits.div_ceil(DIGIT_BITS)
}

/// Bytes of all keys but the keys of the response, by Table 6 with `ceil(log_B Q)` levels.
pub(super) fn bytes() -> f64 {
    let count = TableSix { degree: 1 << LOG2_DEGREE, log2_modulus: LOG2_MODULUS };
    let [query, bits] = DIMENSIONS;
    let switch = |target| TableSix::switch((1 << LOG2_DEGREE, target), 14, SWITCH_MODULUS);
    2.0 * count.evaluation(query, 4)
        + count.evaluation(SCHEME_SWITCH, 7)
        + switch(query)
        + switch(bits)
        + count.conversion(7)
}

/// Keys that reach less than 128 bits: name, dimension, `log2` of the modulus over the deviation of errors.
pub(super) fn keys() -> [(&'static str, usize, f64); 3] {
    let [query, bits] = DIMENSIONS;
    let ratio = |log2_modulus: f64| log2_modulus - ERROR_SIGMA.log2();
    [
        ("evaluation keys, N = 2048, 56 bits", 1 << LOG2_DEGREE, ratio(LOG2_MODULUS)),
        ("key switch to n = 1300, 42 bits", query, ratio(SWITCH_MODULUS)),
        ("key switch to n = 600, 42 bits", bits, ratio(SWITCH_MODULUS)),
    ]
}

/// `log2` of a lower estimate of the probability that a decomposition of 25 bits fails: the roundings of Algorithms
/// 16 and 17 alone. Each of the three floors after the first adds two of them, and half of `alpha` must bound both.
pub(super) fn rounding_log2_failure() -> f64 {
    let log2_order = LOG2_DEGREE + 1;
    let (rounding, floors) = (Noise::switching(DIMENSIONS[0], 0.0), f64::from(25 / DIGIT_BITS - 2));
    let half_alpha = f64::from(log2_order - DIGIT_BITS - 1).exp2();
    log2_failure(rounding.times(2.0), half_alpha, floors)
}
