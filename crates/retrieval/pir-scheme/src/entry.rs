//! Encoding of pieces of records as polynomials.
//!
//! A sum over rows multiplies every entry of a column with the errors of a row's selector. Most of these errors are a
//! random polynomial times the secret. The size of such a product must not depend on the content of records. If all
//! coefficients of an entry were equal, the product would be far larger than for other entries: a binary secret has
//! mean one half, and both polynomials would have their weight at the lowest frequencies. Two measures prevent this:
//!
//! - Pieces are masked with a public pad. Bytes that were chosen without knowledge of the pad then look random.
//! - Each unit is represented by one of two integers: the integer that keeps the sums of the coefficients small. The
//!   entry then has no weight at the frequencies of the secret's mean.

use std::sync::LazyLock;

use subtle::ConstantTimeEq;
use unspoken_ring::Poly;
use zeroize::{Zeroizing, zeroize_stack};

use crate::error::{SchemeError, range};
use crate::parameters::PirParameters;

/// Version of the encoding of pieces as entries.
pub const ENTRY_FORMAT: u32 = 1;

/// Bound at which [`balance`] reverses sums of coefficients, in multiples of half the modulus. Sums of random units
/// hardly ever reach it.
const MAX_SUM: i32 = 16;

/// Encodes an entry of a table: [`PirParameters::pieces`] consecutive pieces, masked with their pads. Piece `k` is in
/// the coefficients whose index is `k` modulo the number of pieces. Missing bytes at the end count as zeros.
///
/// `number` is the number of the entry: the index of its first piece divided by the number of pieces. `plane` is the
/// number of its table.
///
/// # Errors
/// If there are too many bytes.
pub fn encode_entry(parameters: &PirParameters, plane: usize, number: u64, pieces: &[u8]) -> Result<Poly, SchemeError> {
    check_length(parameters, pieces)?;
    let mut padded = vec![0; parameters.pieces() * parameters.piece_bytes()];
    pads(plane, number).finalize_xof().fill(&mut padded);
    padded.iter_mut().zip(pieces).for_each(|(pad, byte)| *pad ^= byte);
    let mut coefficients = centred(parameters, &padded);
    balance(&mut coefficients, parameters.literal().plaintext_bits);
    Ok(parameters.ring().evaluate_i32(&coefficients, parameters.ring().basis())?)
}

/// As [`encode_entry`], without pads and in constant time. Pads are not needed: encrypted entries look random in every
/// product. The result is marked as secret.
pub(crate) fn encode_secret(parameters: &PirParameters, pieces: &[u8]) -> Result<Poly, SchemeError> {
    check_length(parameters, pieces)?;
    let coefficients = Zeroizing::new(centred(parameters, pieces));
    let mut entry = parameters.ring().evaluate_i32(&coefficients, parameters.ring().basis())?;
    entry.mark_secret();
    Ok(entry)
}

fn check_length(parameters: &PirParameters, pieces: &[u8]) -> Result<(), SchemeError> {
    let most = parameters.pieces() * parameters.piece_bytes();
    match pieces.len() <= most {
        true => Ok(()),
        false => Err(range("encode an entry of a table", pieces.len() as u64, format!("at most {most} bytes"))),
    }
}

/// The coefficients of the pieces, centred around zero.
fn centred(parameters: &PirParameters, pieces: &[u8]) -> Vec<i32> {
    let (count, bits) = (parameters.pieces(), parameters.literal().plaintext_bits);
    let half = 1 << (bits - 1);
    let mut coefficients = vec![0; parameters.ring().degree()];
    for (place, piece) in pieces.chunks(parameters.piece_bytes()).enumerate() {
        for (i, unit) in units(piece, bits).enumerate() {
            coefficients[i * count + place] = (unit ^ half) - half;
        }
    }
    coefficients
}

/// Adds the modulus to some coefficients or subtracts it, so that all prefix sums of the coefficients stay small.
/// Coefficients of absolute value half the modulus get the sign that reduces the sum. When the sum reaches its bound,
/// so do all others.
fn balance(coefficients: &mut [i32], bits: u32) {
    let (modulus, half) = (1 << bits, 1 << (bits - 1));
    let mut sum = 0i32;
    for coefficient in coefficients {
        // No branches: they would be unpredictable.
        let away = coefficient.signum() == sum.signum();
        let moves = away & ((coefficient.abs() == half) | (sum.abs() >= MAX_SUM * half));
        *coefficient -= i32::from(moves) * sum.signum() * modulus;
        sum += *coefficient;
    }
}

/// Hasher whose output is the pads of an entry's pieces, concatenated.
fn pads(plane: usize, number: u64) -> blake3::Hasher {
    static KEY: LazyLock<[u8; 32]> =
        LazyLock::new(|| blake3::derive_key("unspoken 2026 pads of retrieval tables", &[]));
    let mut hasher = blake3::Hasher::new_keyed(&KEY);
    hasher.update(&(plane as u64).to_le_bytes()).update(&number.to_le_bytes());
    hasher
}

/// Bytes of stack to wipe after hashing secret input: more than a hasher and its output use.
pub(crate) const HASH_STACK_BYTES: usize = 8192;

/// Removes the pad from a piece. Computes the pads of the whole entry and selects one with masks, because an offset
/// would depend on the index. Wipes the hasher and the pads, because both reveal the index.
pub(crate) fn remove_pad(parameters: &PirParameters, plane: usize, index: u64, piece: &mut [u8]) {
    #[inline(never)]
    fn write_pads(plane: usize, number: u64, pads_of_entry: &mut [u8]) {
        pads(plane, number).finalize_xof().fill(pads_of_entry);
    }
    let (count, length) = (parameters.pieces(), parameters.piece_bytes());
    // The number of pieces is a power of two: a division would take longer for some indices.
    let (number, place) = (index >> count.ilog2(), index & (count as u64 - 1));
    let mut all = Zeroizing::new(vec![0; count * length]);
    write_pads(plane, number, &mut all);
    zeroize_stack::<HASH_STACK_BYTES>();
    for (candidate, pad) in (0u64..).zip(all.chunks(length)) {
        let mask = 0u8.wrapping_sub(candidate.ct_eq(&place).unwrap_u8());
        piece.iter_mut().zip(pad).for_each(|(byte, pad)| *byte ^= pad & mask);
    }
}

/// Splits bytes into numbers of `bits` bits, the lowest first. `bits` divides 8.
fn units(bytes: &[u8], bits: u32) -> impl Iterator<Item = i32> {
    bytes.iter().flat_map(move |&byte| (0..8 / bits).map(move |i| i32::from(byte) >> (i * bits) & ((1 << bits) - 1)))
}

/// The inverse of [`units`], for numbers modulo `2^bits`.
pub(crate) fn bytes_of(units: &[i32], bits: u32) -> Vec<u8> {
    let byte = |units: &[i32]| units.iter().rev().fold(0, |byte, unit| byte << bits | (unit & ((1 << bits) - 1)));
    units.chunks((8 / bits) as usize).map(|units| byte(units) as u8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Preset;

    #[test]
    fn sums_of_coefficients_stay_small_whatever_they_are() {
        let random = |i: i32| (i.wrapping_mul(0x9E37_79B1_u32 as i32) >> 28 & 15) - 8;
        let kinds: [&dyn Fn(i32) -> i32; 6] =
            [&|_| -8, &|_| 7, &|_| 1, &|i| i % 16 - 8, &|i| (i / 64) % 2 * 15 - 8, &random];
        for (kind, value) in kinds.into_iter().enumerate() {
            let before: Vec<i32> = (0..2048).map(value).collect();
            let mut after = before.clone();
            balance(&mut after, 4);
            let mut sum = 0i32;
            for (before, after) in before.iter().zip(&after) {
                assert!((after - before) % 16 == 0 && after.abs() < 16, "{kind}: {before} became {after}");
                sum += after;
                assert!(sum.abs() < (MAX_SUM + 2) * 8, "{kind}: {sum}");
            }
        }
        // Balanced coefficients do not change.
        let mut zeros = [0; 64];
        balance(&mut zeros, 4);
        assert_eq!(zeros, [0; 64]);
    }

    #[test]
    fn pads_are_taken_off_and_are_never_the_same() {
        let parameters = Preset::InsecureN11.build().unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for (plane, number) in [(0, 0), (0, 1), (1, 0), (1, 1), (0, 1 << 22)] {
            let mut entry = vec![0; 1024];
            pads(plane, number).finalize_xof().fill(&mut entry);
            for (index, piece) in (number * 4..).zip(entry.chunks_mut(256)) {
                assert!(seen.insert(piece.to_vec()));
                let mut shorter = piece[..100].to_vec();
                remove_pad(&parameters, plane, index, piece);
                assert_eq!(piece, [0; 256]);
                remove_pad(&parameters, plane, index, &mut shorter);
                assert_eq!(shorter, [0; 100]);
            }
        }
    }
}
