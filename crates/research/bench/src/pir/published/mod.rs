//! The published forms of Pirouette (Kang and Schild, PoPETs 2026) as baselines: what this project replaced, built as
//! published from the operations of the engine, at parameters that have 128 bits of security for every key.
//!
//! Nothing outside this benchmark uses these forms.
//!
//! | file | form |
//! | --- | --- |
//! | `decomposition` | index to digits to bits to RGSW ciphertexts: Algorithms 3 and 13 to 20 |
//! | `parameters` | digits, gadgets, noise, failures |
//! | `table_six`, `paper` | bytes of keys as the paper counts them; the paper's own sets |
//! | `keys` | the client's half |
//! | `index` | the decomposition beside ours |
//! | `records` | selectors with two rows for each row of the table (Algorithm 21) beside ours |
//! | `transciphering` | T-Respire, the paper's point of comparison |
//!
//! # Parameters
//! The paper's keys do not all reach 128 bits (`security_bits` of the records). Here the ring, the small LWE secret and
//! the circuit bootstrap come from the parameter sets of `unspoken-pir-scheme`. The LWE secret of queries and digits is
//! the ring's secret, so that Algorithm 17 needs no key switch: an LWE dimension that is secure at the precision of a
//! digit would be almost as long. Every rounding of a ciphertext of 2,048 words has a deviation of 9.2, and two of them
//! must stay below half of `alpha`, the distance of two digits modulo `q = 2N`. With digits of 5 bits, as in the paper,
//! half of `alpha` is 64, which fails more than once in 2^40, at the paper's dimension of 1,300, too. Digits have 4
//! bits.
//!
//! # Corrections
//! As printed, some steps do not compute what their proofs say. Built here is what the proofs need:
//!
//! - Algorithm 17, line 1: the table of the highest bit has the opposite sign.
//! - Algorithm 18 ends before it returns the last digit, which needs no floor. So an index of `d` digits takes `3d - 2`
//!   blind rotations, not `3d`.
//! - Algorithm 19, line 1 adds `q/(2 alpha)`: the proof needs half of `alpha`, and Algorithm 17 has already added it.
//! - Algorithm 19, line 9: factors with a coefficient for each block whose number has the bit.
//! - Algorithm 16 rounds ties up. After the first step one word in 16 is a tie, and with a binary secret their errors
//!   add up to a bias. Ties are rounded to even numbers.
//! - Algorithm 21, line 8: the parent minus the right child, as in Equation 3.

mod decomposition;
mod index;
mod keys;
mod paper;
mod parameters;
mod records;
mod table_six;
#[cfg(test)]
mod tests;
mod transciphering;

use unspoken_pir_scheme::PirParameters;

use crate::clock::Repetitions;
use crate::harness::Harness;

/// The measured sizes.
#[derive(Clone, Copy)]
pub(super) struct PublishedCase {
    /// Bits of indices.
    pub(super) index_bits: &'static [u32],
    /// Number of large records.
    pub(super) records: u64,
    pub(super) repetitions: Repetitions,
}

pub(super) fn run(harness: &mut Harness<'_>, case: PublishedCase, pir: &PirParameters) -> anyhow::Result<()> {
    index::paper_sets(harness);
    for &bits in case.index_bits {
        let times = index::run(harness, case.repetitions, bits, pir)?;
        transciphering::run(harness, case.repetitions, times, pir)?;
    }
    records::run(harness, case, pir)
}
