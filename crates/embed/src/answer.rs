//! Encrypted embeddings on their way back: as few primes as the precision needs.

use unspoken_ckks::{Ciphertext, CkksParameters};
use unspoken_ring::Basis;
use unspoken_rlwe as rlwe;

use crate::error::EmbedError;

/// The checksum of a query or an answer.
pub(crate) fn checksum(model_id: &[u8], vectors: &[Vec<u8>]) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(model_id);
    vectors.iter().for_each(|vector| {
        hasher.update(vector);
    });
    hasher.finalize().as_bytes().to_vec()
}

/// Refuses what was damaged on the way.
pub(crate) fn check_sum(
    what: &'static str,
    model_id: &[u8],
    vectors: &[Vec<u8>],
    sum: &[u8],
) -> Result<(), EmbedError> {
    if checksum(model_id, vectors) == sum {
        Ok(())
    } else {
        Err(EmbedError::mismatch(what, "a wrong checksum", "undamaged bytes; send it again"))
    }
}

/// Bits an answer's scale stays above the noise of its last rounding.
const PRECISION_BITS: f64 = 24.0;

/// Divides out primes while the precision stays, and serialises: scale (f64), then the ciphertext.
pub(crate) fn write_vector(parameters: &CkksParameters, vector: &Ciphertext) -> Result<Vec<u8>, EmbedError> {
    let ring = parameters.ring();
    let degree = ring.degree() as f64;
    // Rounding leaves coefficients of deviation sqrt(n/18) for a ternary secret, and sqrt(n) times that in the slots.
    let noise = (degree * degree / 18.0).sqrt().log2();
    let (mut chain, mut scale) = (vector.inner().chain(), vector.scale());
    while chain > 1 {
        let prime = f64::from(ring.chain()[chain - 1]);
        if (scale / prime).log2() < noise + PRECISION_BITS {
            break;
        }
        scale /= prime;
        chain -= 1;
    }
    let small = vector.inner().rescale(ring, vector.inner().chain() - chain)?;
    let mut bytes = scale.to_le_bytes().to_vec();
    bytes.extend(small.to_bytes(parameters.rlwe()));
    Ok(bytes)
}

/// Most bytes [`write_vector`] makes.
pub(crate) fn vector_bytes(parameters: &CkksParameters, level: usize) -> usize {
    let residues = parameters.ring().residue_bytes(Basis::chain(parameters.chain(level)));
    8 + rlwe::HEADER_BYTES + 3 + 2 * residues
}

/// Reads what [`write_vector`] wrote.
pub(crate) fn read_vector(parameters: &CkksParameters, bytes: &[u8]) -> Result<(rlwe::Ciphertext, f64), EmbedError> {
    let refuse = |found: String| EmbedError::mismatch("answer", found, "a scale and a ciphertext");
    let (scale, rest) = bytes.split_first_chunk::<8>().ok_or_else(|| refuse(format!("{} bytes", bytes.len())))?;
    let scale = f64::from_le_bytes(*scale);
    if !(scale.is_finite() && scale >= 1.0) {
        return Err(refuse(format!("scale {scale}")));
    }
    Ok((rlwe::Ciphertext::from_bytes(parameters.rlwe(), rest)?, scale))
}
