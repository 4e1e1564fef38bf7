//! T-Respire, the paper's point of comparison: the client encrypts a short query with AES-128 in counter mode, and the
//! server decrypts it under encryption, with an encrypted AES key, before it answers as Respire does.
//!
//! The paper's T-Respire is Respire's program and the AES circuits of Bon et al. and Belaid et al., neither of which is
//! here. Stand-ins, which the records name: for AES, a circuit of this engine's operations, which bootstraps each bit
//! of the state to an RGSW ciphertext and looks a byte up in a rotated table; for Respire, our packed mode. One column
//! of one round is measured and multiplied by the 40 columns of a block.
//!
//! The paper does not print its number of blocks. It is inferred from the bytes of its queries: 16 are taken for the
//! counter, the rest is blocks.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use rayon::ThreadPool;
use unspoken_gsw::{
    CircuitBootstrapKey, LweCiphertext, LweSecret, LweSwitchKey, Rgsw, RingSecret, RlweCiphertext,
    SeededBlindRotationKey, SeededConversionKey, SeededLweSwitchKey,
};
use unspoken_pir_scheme::PirParameters;
use unspoken_ring::{Poly, SecretRng};

use super::index::IndexTimes;
use super::keys::fraction;
use crate::clock::{Repetitions, TimedOperation, alternate, median};
use crate::error::wrong;
use crate::harness::Harness;
use crate::row::{Metric, params};

/// Columns of the state times rounds of AES-128.
const COLUMN_ROUNDS: f64 = 40.0;

const COLUMN: Metric = Metric::less("transciphered_column_time", "s");
const TIME: Metric = Metric::less("transciphered_expansion_time", "s");
const STAND_IN: &str = "T-Respire, stand-in";

/// Bytes of T-Respire's queries for `index_bits` bits of the index (Table 7).
fn paper_query_bytes(index_bits: u32) -> Option<u32> {
    match index_bits {
        20 => Some(144),
        22 => Some(208),
        25 => Some(336),
        _ => None,
    }
}

/// Measures a column of a round on one thread, decrypted and compared, and reports the time of a query.
pub(super) fn run(
    harness: &mut Harness<'_>,
    repetitions: Repetitions,
    times: IndexTimes,
    pir: &PirParameters,
) -> anyhow::Result<()> {
    harness.progress("published: one column of a round of AES");
    let circuit = RefCell::new(Circuit::new(pir, 39)?);
    let pool = &harness.single_thread;
    let mut operations: Vec<TimedOperation<'_>> = vec![Box::new(|| circuit.borrow_mut().measure(pool))];
    let samples = alternate(repetitions, &mut operations)?;
    drop(operations);
    let column = median(&samples[0]);
    let common = params! {
        "preset": pir.name(), "threads": 1, "clock": "wall", "repetitions": samples[0].len(),
        "stand_in": "AES by circuit bootstraps and rotated tables instead of the published circuit; our packed mode \
                     instead of Respire",
        "extrapolated": "40 columns of rounds from one",
    };
    let case = format!("{} bits", times.bits);
    harness.row(COLUMN, format!("{case}: 32 bits of state"), &samples[0], None, common.clone());
    let block = COLUMN_ROUNDS * column;
    let blocks = paper_query_bytes(times.bits).map(|bytes| (bytes - 16) / 16);
    for blocks in [Some(1), blocks].into_iter().flatten() {
        let mut params = common.clone();
        params.insert("blocks".into(), blocks.into());
        let theirs = f64::from(blocks) * block + times.packed;
        let name = if blocks == 1 { "1 block".into() } else { format!("{blocks} blocks, as the paper's query") };
        harness.value(TIME, format!("{case}, {name}"), times.compact, Some((STAND_IN, theirs)), params);
    }
    Ok(())
}

/// An encrypted byte: its bits, the lowest first. The phase of a bit is `2^31 bit` plus noise.
type Byte = [LweCiphertext; 8];

/// An encrypted column of the state.
type Column = [Byte; 4];

/// A round of AES on one column of the encrypted state, with all keys and the secret for checks.
pub(super) struct Circuit {
    pir: PirParameters,
    words: LweSecret,
    switch: LweSwitchKey,
    bootstrap: CircuitBootstrapKey,
    table: Poly,
    rng: SecretRng,
}

impl Circuit {
    pub(super) fn new(pir: &PirParameters, seed: u64) -> anyhow::Result<Self> {
        let mut rng = SecretRng::insecure_from_seed(seed);
        let (literal, bootstrap) = (pir.literal(), pir.bootstrap());
        let words = LweSecret::generate(literal.compact, &mut rng);
        let ring = RingSecret::from_lwe(pir.ring(), &words)?;
        let lwe = LweSecret::generate(literal.bootstrap.lwe, &mut rng);
        let rotation = SeededBlindRotationKey::generate(&lwe, &ring, bootstrap.rotation(), &mut rng)?;
        let conversion = SeededConversionKey::generate(bootstrap, &ring, &mut rng)?.expand()?;
        let target = (&lwe, literal.bootstrap.lwe);
        let switch = SeededLweSwitchKey::generate(&words, target, literal.compact_switch, &mut rng).expand();
        let bootstrap = CircuitBootstrapKey::new(rotation.expand(pir.ring())?, Arc::new(conversion));
        Ok(Circuit { pir: pir.clone(), words, switch, bootstrap, table: table(pir)?, rng })
    }

    /// Seconds of one column of a round, on random bytes; the result is compared with the round in the clear.
    fn measure(&mut self, pool: &ThreadPool) -> anyhow::Result<f64> {
        let mut bytes = [0; 8];
        self.rng.fill(&mut bytes);
        let [column, key] = [0, 4].map(|at| std::array::from_fn::<u8, 4, _>(|i| bytes[at + i]));
        let [encrypted, encrypted_key] = [self.encrypt(column), self.encrypt(key)];
        let started = Instant::now();
        let found = pool.install(|| self.round(&encrypted, &encrypted_key))?;
        let seconds = started.elapsed().as_secs_f64();
        let (found, needed) = (self.decrypt(&found)?, round(column, key));
        let differ = found.iter().zip(needed).filter(|(a, b)| **a != *b).count();
        if differ > 0 {
            let case = "a column of a round of AES, bytes that differ";
            return Err(wrong(case, differ as f64, 0.0));
        }
        Ok(seconds)
    }

    /// The bits of four bytes, each with the lowest bit first.
    pub(super) fn encrypt(&mut self, column: [u8; 4]) -> Column {
        column.map(|byte| {
            std::array::from_fn(|bit| {
                let (seed, literal) = (self.rng.seed(), self.pir.literal().compact);
                let message = u32::from(byte >> bit & 1) << 31;
                let body = self.words.encrypt(message, (&seed, 0), literal, &mut self.rng);
                LweCiphertext::expand(body, (&seed, 0), self.words.dimension())
            })
        })
    }

    pub(super) fn decrypt(&self, column: &Column) -> anyhow::Result<[u8; 4]> {
        let mut bytes = [0; 4];
        for (byte, bits) in bytes.iter_mut().zip(column) {
            for (bit, ciphertext) in bits.iter().enumerate() {
                let phase = self.words.phase(ciphertext)?.wrapping_add(1 << 30);
                *byte |= u8::from(phase >> 31 == 1) << bit;
            }
        }
        Ok(bytes)
    }

    /// SubBytes, MixColumns and AddRoundKey on one column, whose bytes ShiftRows has already brought together.
    pub(super) fn round(&self, column: &Column, key: &Column) -> anyhow::Result<Column> {
        let [a, b, c, d] = column;
        let bytes = [self.substituted(a)?, self.substituted(b)?, self.substituted(c)?, self.substituted(d)?];
        let mut mixed = key.clone();
        for (row, sum) in mixed.iter_mut().enumerate() {
            let byte = |at: usize| &bytes[(row + at) % 4];
            // 2 a + 3 b + c + d in GF(2^8), where a sum is a sum of bits.
            [byte(0), byte(1)].into_iter().try_for_each(|doubled| add_doubled(sum, doubled))?;
            for plain in [byte(1), byte(2), byte(3)] {
                sum.iter_mut().zip(plain).try_for_each(|(sum, bit)| add(sum, bit))?;
            }
        }
        Ok(mixed)
    }

    /// A byte's image under the S-box: its bits become RGSW ciphertexts, which rotate a table of all eight bits of all
    /// images.
    fn substituted(&self, byte: &Byte) -> anyhow::Result<Byte> {
        let (ring, output) = (self.pir.ring(), self.pir.bootstrap().output());
        let mut rotated = RlweCiphertext::trivial(ring, &self.table)?;
        for (place, bit) in byte.iter().enumerate() {
            let bit: Rgsw = self.bootstrap.bootstrap(&self.switch.switch(bit)?, output)?;
            let turned = rotated.rotated(ring, (2 * ring.degree() - (1 << place)) as u32)?;
            rotated = bit.select(ring, &rotated, &turned)?;
        }
        let bits: Vec<LweCiphertext> =
            (0..8).map(|bit| rotated.coefficient(ring, 256 * bit)).collect::<Result<_, _>>()?;
        Ok(std::array::from_fn(|bit| bits[bit].clone()))
    }
}

/// Bit `k` of the image of byte `x` is coefficient `256 k + x`, in units of half the modulus.
fn table(pir: &PirParameters) -> anyhow::Result<Poly> {
    let ring = pir.ring();
    let half = fraction(ring, 0.5);
    let mut coefficients = vec![0; ring.degree()];
    for byte in 0..=u8::MAX {
        for bit in 0..8 {
            coefficients[256 * bit + usize::from(byte)] = i64::from(substitute(byte) >> bit & 1) * half;
        }
    }
    Ok(ring.evaluate_i64(&coefficients, ring.basis())?)
}

/// Adds a bit modulo 2: a difference is a sum.
fn add(sum: &mut LweCiphertext, bit: &LweCiphertext) -> anyhow::Result<()> {
    Ok(sum.sub_assign(bit)?)
}

/// Adds twice a byte in GF(2^8) modulo `x^8 + x^4 + x^3 + x + 1`.
fn add_doubled(sum: &mut Byte, byte: &Byte) -> anyhow::Result<()> {
    let [low @ .., highest] = byte;
    sum[1..].iter_mut().zip(low).try_for_each(|(sum, bit)| add(sum, bit))?;
    [0, 1, 3, 4].into_iter().try_for_each(|at| add(&mut sum[at], highest))
}

/// A round in the clear (FIPS 197): SubBytes, MixColumns and AddRoundKey on one column.
fn round(column: [u8; 4], key: [u8; 4]) -> [u8; 4] {
    let bytes = column.map(substitute);
    std::array::from_fn(|row| {
        let byte = |at: usize| bytes[(row + at) % 4];
        key[row] ^ product(2, byte(0)) ^ product(3, byte(1)) ^ byte(2) ^ byte(3)
    })
}

/// The S-box of AES: the inverse in GF(2^8), and an affine map.
fn substitute(byte: u8) -> u8 {
    // The group has 255 elements, so the power 254 is the inverse; the power of 0 is 0.
    let inverse = (0..254).fold(1, |power, _| product(power, byte));
    (0..5).fold(0x63, |sum, turn| sum ^ inverse.rotate_left(turn))
}

/// The product in GF(2^8).
fn product(a: u8, b: u8) -> u8 {
    let mut shifted = a;
    (0..8).fold(0, |sum, bit| {
        let term = shifted * (b >> bit & 1);
        shifted = (shifted << 1) ^ (0x1b * (shifted >> 7));
        sum ^ term
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 197, figure 7 and appendix B; the column of MixColumns is a common test vector.
    #[test]
    fn the_round_in_the_clear_is_that_of_the_standard() {
        assert_eq!([0x00, 0x01, 0x53, 0xff].map(substitute), [0x63, 0x7c, 0xed, 0x16]);
        let preimage = |image: u8| (0..=u8::MAX).find(|&byte| substitute(byte) == image).unwrap();
        assert_eq!(round([0xdb, 0x13, 0x53, 0x45].map(preimage), [0; 4]), [0x8e, 0x4d, 0xa1, 0xbc]);
        // Appendix B, round 1: the first column after ShiftRows, and the round key.
        let column = [0xd4, 0xbf, 0x5d, 0x30].map(preimage);
        assert_eq!(round(column, [0xa0, 0xfa, 0xfe, 0x17]), [0xa4, 0x9c, 0x7f, 0xf2]);
    }
}
