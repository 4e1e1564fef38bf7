//! Encodings of secret indices, in constant time.
//!
//! `alpha_j` and `cos((2j + 1) pi / 2p)` both follow from the root `w_j = exp(2 pi i (2j + 1) / 4p)`: the first is
//! `w_j`, conjugated for odd `j`, and the second is its real part. With `j = hi m + lo`, the root is the product of the
//! giant step `exp(2 pi i 2 hi m / 4p)` and the baby step `exp(2 pi i (2 lo + 1) / 4p)`. Two tables of about `sqrt(p)`
//! entries contain them. They are computed from `m` and `p`, which are public.
//!
//! What makes [`IndexEncoder::value`] constant-time: an entry is selected by a scan that reads the whole table and adds
//! each entry under a mask, so neither a branch nor an address depends on the index. The parity is exclusive-ored into
//! a sign bit. Padding is index 0 with a mask that clears the result at the end. No library function and no division
//! has an operand that depends on the index.

use std::f64::consts::PI;
use std::hint::black_box;

use unspoken_ckks::Complex64;

use crate::plan::IndexEncoding;

/// Encodes indices of tables of one width. The running time depends on the encoding and on the number of columns, not
/// on the index or on whether the slot is padded. Clients encode with it.
#[derive(Clone, Debug)]
pub struct IndexEncoder {
    encoding: IndexEncoding,
    columns: usize,
    /// `log2 m`.
    log2_babies: u32,
    giants: Vec<Root>,
    babies: Vec<Root>,
}

/// The bits of the real and of the imaginary part.
type Root = [u64; 2];

impl IndexEncoder {
    /// An encoder of indices below `columns`.
    pub fn new(encoding: IndexEncoding, columns: usize) -> Self {
        let log2_babies = columns.max(1).ilog2() / 2;
        let babies = 1 << log2_babies;
        let root = |numerator: usize| {
            let root = Complex64::cis(2.0 * PI * numerator as f64 / (4 * columns) as f64);
            [root.re.to_bits(), root.im.to_bits()]
        };
        let giants = (0..columns.div_ceil(babies)).map(|hi| root(2 * hi * babies)).collect();
        let babies = (0..babies).map(|lo| root(2 * lo + 1)).collect();
        IndexEncoder { encoding, columns, log2_babies, giants, babies }
    }

    /// Number of vectors per subtable.
    pub fn vectors(&self) -> usize {
        self.encoding.vectors(self.columns)
    }

    /// The slot of vector `vector` for an index, which must be below the number of columns; padding for `None`. Equal
    /// to [`IndexEncoding::value`] up to rounding.
    pub fn value(&self, index: Option<usize>, vector: usize) -> Complex64 {
        let (index, present) = split(index);
        match self.encoding {
            IndexEncoding::Alpha => {
                let root = self.root(index);
                let conjugate = (index & 1) << 63;
                Complex64::new(masked(root.re, present, 0), masked(root.im, present, conjugate))
            }
            IndexEncoding::Cosine => Complex64::from(masked(self.root(index).re, present, 0)),
            IndexEncoding::Index => {
                let index = index | (self.columns as u64 & !present);
                // The signed conversion is one instruction. The reciprocal is exact for a power of two.
                Complex64::from(index.cast_signed() as f64 * (1.0 / self.columns as f64))
            }
            IndexEncoding::OneHot => {
                Complex64::from(f64::from_bits(1f64.to_bits() & equal(index, vector as u64) & present))
            }
        }
    }

    /// `w_j`.
    fn root(&self, index: u64) -> Complex64 {
        let low = (1 << self.log2_babies) - 1;
        select(&self.giants, index >> self.log2_babies) * select(&self.babies, index & low)
    }
}

/// A secret index, or `padding` for `None`, in constant time.
pub fn index_or(index: Option<usize>, padding: usize) -> usize {
    let (index, present) = split(index);
    (index | (padding as u64 & !present)) as usize
}

/// The index, 0 for `None`, and a mask: all ones for an index, zero for `None`.
fn split(index: Option<usize>) -> (u64, u64) {
    // The barrier hides from the compiler that the flag has two values and that the index is 0 without it.
    let (index, present) = black_box((index.unwrap_or(0) as u64, u64::from(index.is_some())));
    (index, present.wrapping_neg())
}

/// `value` if `mask` is all ones, 0 if it is zero; with the sign bit `flip` exclusive-ored into it.
fn masked(value: f64, mask: u64, flip: u64) -> f64 {
    f64::from_bits((value.to_bits() ^ flip) & mask)
}

/// All ones if `a` equals `b`, otherwise zero. Both are below 2^63.
fn equal(a: u64, b: u64) -> u64 {
    let difference = a ^ b;
    // The highest bit of 0 - 1 is 1; of another difference below 2^63, minus 1, it is 0.
    (difference.wrapping_sub(1) >> 63).wrapping_neg()
}

/// Entry `wanted`. Reads all entries.
fn select(table: &[Root], wanted: u64) -> Complex64 {
    let mut bits = [0; 2];
    for (i, entry) in (0..).zip(table) {
        let mask = equal(i, wanted);
        bits[0] |= entry[0] & mask;
        bits[1] |= entry[1] & mask;
    }
    Complex64::new(f64::from_bits(bits[0]), f64::from_bits(bits[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENCODINGS: [IndexEncoding; 4] =
        [IndexEncoding::Alpha, IndexEncoding::Cosine, IndexEncoding::Index, IndexEncoding::OneHot];

    #[test]
    fn every_index_and_padding_agree_with_the_reference() {
        for columns in [4, 8, 64, 128, 256, 4096] {
            for encoding in ENCODINGS {
                let encoder = IndexEncoder::new(encoding, columns);
                assert_eq!(encoder.vectors(), encoding.vectors(columns));
                for index in (0..columns).map(Some).chain([None]) {
                    for vector in [0, 1, columns / 2, columns - 1] {
                        let (found, expected) = (encoder.value(index, vector), encoding.value(index, columns, vector));
                        assert!((found - expected).norm() < 1e-15, "{encoding:?} {columns} {index:?}: {found}");
                    }
                }
            }
        }
    }

    #[test]
    fn padding_is_exact() {
        for encoding in ENCODINGS {
            let value = IndexEncoder::new(encoding, 256).value(None, 0);
            let expected = if encoding == IndexEncoding::Index { 1.0 } else { 0.0 };
            assert_eq!((value.re.to_bits(), value.im.to_bits()), (f64::to_bits(expected), 0), "{encoding:?}");
        }
    }

    #[test]
    fn missing_indices_are_replaced() {
        for padding in [0, 7, 4095] {
            assert_eq!((index_or(Some(5), padding), index_or(None, padding)), (5, padding));
        }
    }

    #[test]
    fn scans_are_short() {
        for columns in [4, 256, 512, 4096] {
            let encoder = IndexEncoder::new(IndexEncoding::Alpha, columns);
            let scanned = encoder.giants.len() + encoder.babies.len();
            assert!(scanned * scanned <= 9 * columns / 2, "{columns} columns, {scanned} entries");
        }
    }
}
