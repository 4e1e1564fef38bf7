//! Serialisation of encrypted outputs in answers.

use unspoken_ckks::{Ciphertext, CkksParameters, Evaluator, PeriodicPacking};
use unspoken_ring::{Basis, declassify};
use unspoken_rlwe::{self as rlwe, RlweError, RoundedCiphertext, SecretKey};
use zeroize::Zeroizing;

use crate::error::ProtocolError;

/// Number of bits by which an output's scale stays above the noise of its last rounding.
const PRECISION_BITS: f64 = 24.0;

/// Standard deviation of the last rounding of an output, which follows from [`PRECISION_BITS`].
pub(crate) const OUTPUT_ROUNDING: f64 = 1.0 / (1 << 24) as f64;

/// Rescales as far down as the precision allows, and serialises: scale (f64), then the ciphertext.
///
/// # Errors
/// Only for parameters that the ring refuses, which the check of the parameters rules out.
pub fn write_output(parameters: &CkksParameters, output: &Ciphertext) -> Result<Vec<u8>, ProtocolError> {
    let (basis, scale) = sent_basis(parameters, output.inner().basis(), output.scale());
    let mut small = output.inner().rescale(parameters.ring(), basis)?;
    small.fetch(parameters.rlwe())?;
    let mut bytes = scale.to_le_bytes().to_vec();
    bytes.extend(small.to_bytes(parameters.rlwe()));
    Ok(bytes)
}

/// The primes and the scale at which [`write_output`] sends an output over `basis`: the smallest modulus that leaves
/// the scale large enough.
fn sent_basis(parameters: &CkksParameters, basis: Basis, scale: f64) -> (Basis, f64) {
    let least = least_output_scale_bits(parameters);
    let (chain, terminal) = (parameters.ring().chain(), parameters.ring().terminal());
    let divided = |to: Basis| {
        let dropped = chain[to.chain..basis.chain].iter().chain(&terminal[to.terminal..basis.terminal]);
        dropped.rev().fold(scale, |scale, &prime| scale / f64::from(prime))
    };
    let smaller = (1..=basis.chain).flat_map(|chain| (0..=basis.terminal).map(move |t| (chain, t)));
    let reached = smaller.map(|(chain, terminal)| {
        let to = Basis::chain(chain).with_terminal(terminal);
        (to, divided(to))
    });
    let enough = reached.filter(|(to, scale)| *to == basis || scale.log2() >= least);
    enough.min_by(|(_, a), (_, b)| a.total_cmp(b)).unwrap_or((basis, scale))
}

/// `log2` of the scale below which [`write_output`] does not rescale.
fn least_output_scale_bits(parameters: &CkksParameters) -> f64 {
    let degree = parameters.ring().degree() as f64;
    // Rounding leaves coefficients of standard deviation sqrt(n/18) for a ternary secret, and sqrt(n) times that in the
    // slots.
    (degree * degree / 18.0).sqrt().log2() + PRECISION_BITS
}

/// A bound of the scale of outputs: [`write_output`] stops above one prime only if one more division by a prime would
/// leave too little, and the scale of the last prime is below that prime, because the values have to fit. An output
/// that is sent as it is has the default scale.
pub(crate) fn largest_output_scale(parameters: &CkksParameters) -> f64 {
    let largest_prime = parameters.ring().chain().iter().copied().max().map_or(1.0, f64::from);
    (least_output_scale_bits(parameters).exp2() * largest_prime).max(parameters.scale())
}

/// Maximum length of the result of [`write_output`] for an output of level `level`.
pub fn output_bytes(parameters: &CkksParameters, level: usize) -> usize {
    bytes_over(parameters, parameters.basis(level))
}

/// Length of the result of [`write_output`] for an output of this level and scale.
pub(crate) fn sent_output_bytes(parameters: &CkksParameters, level: usize, scale: f64) -> usize {
    bytes_over(parameters, sent_basis(parameters, parameters.basis(level), scale).0)
}

fn bytes_over(parameters: &CkksParameters, basis: Basis) -> usize {
    let residues = parameters.ring().residue_bytes(basis);
    8 + rlwe::HEADER_BYTES + 3 + 2 * residues
}

/// Reads the output of [`write_output`]: the ciphertext and its scale.
///
/// # Errors
/// If the bytes are not a finite scale of 1 or more and a ciphertext of these parameters.
pub(crate) fn read_output(parameters: &CkksParameters, bytes: &[u8]) -> Result<(rlwe::Ciphertext, f64), ProtocolError> {
    let refuse =
        |found: String| RlweError::Decode { what: "an answer", found, needed: "a scale and a ciphertext".into() };
    let (scale, rest) = bytes.split_first_chunk::<8>().ok_or_else(|| refuse(format!("{} bytes", bytes.len())))?;
    let scale = f64::from_le_bytes(*scale);
    if !(scale.is_finite() && scale >= 1.0) {
        return Err(refuse(format!("scale {scale}")).into());
    }
    Ok((rlwe::Ciphertext::from_bytes(parameters.rlwe(), rest)?, scale))
}

/// Bits of a coefficient of a rounded output.
const ROUNDED_BITS: u32 = RoundedCiphertext::MAX_BITS;

/// The part of the modulus that the largest value may fill.
const FILLED: f64 = 0.45;

/// Number of coefficients that are zero in a message, sent so that a receiver notices a ciphertext of other keys.
const CHECKED: usize = 16;

/// Bound of such a coefficient, as a part of the modulus. Under other keys it is exceeded with probability 31/32.
const MAX_CHECKED: f64 = 1.0 / 64.0;

/// The coefficients of the body of a rounded output: the coefficients of the vectors, then some that are zero.
fn rounded_places(packing: &PeriodicPacking) -> Vec<usize> {
    let mut places = packing.places();
    places.extend(packing.unused_places(CHECKED));
    places
}

/// Writes vectors that were joined as a [`RoundedCiphertext`]: the scale as a part of the modulus (f64), then the
/// ciphertext with the coefficients of the vectors and some that are zero. Values up to `bound` are first multiplied by
/// an integer, so that they fill the modulus.
///
/// # Errors
/// If the packing is of other parameters or has odd places, or the key
/// ([`KeyKind::HalfRing`](unspoken_rlwe::KeyKind::HalfRing)) is missing.
pub fn write_rounded_output(
    evaluator: &Evaluator<'_>,
    output: &Ciphertext,
    bound: f64,
    packing: &PeriodicPacking,
) -> Result<Vec<u8>, ProtocolError> {
    let parameters = evaluator.encoder().parameters();
    let (ring, modulus) = (parameters.ring(), parameters.log2_modulus(output.level()).exp2());
    let factor = rounded_factor(modulus, output.scale(), bound);
    let mut filled = output.inner().clone();
    for component in filled.components_mut() {
        ring.scale_assign(component, factor as i128).map_err(RlweError::from)?;
    }
    let mut bytes = (output.scale() * factor / modulus).to_le_bytes().to_vec();
    bytes.extend(
        filled
            .rounded(parameters.rlwe(), evaluator.keys(), ROUNDED_BITS, &rounded_places(packing))?
            .to_bytes(parameters.rlwe()),
    );
    Ok(bytes)
}

/// The integer by which values up to `bound` can be multiplied.
fn rounded_factor(modulus: f64, scale: f64, bound: f64) -> f64 {
    (FILLED * modulus / (scale * bound)).floor().clamp(1.0, f64::from(126).exp2())
}

/// Standard deviation of the error that [`write_rounded_output`] adds to the slots of an output of this level and
/// scale.
pub fn rounded_output_deviation(
    parameters: &CkksParameters,
    (level, scale): (usize, f64),
    bound: f64,
    packing: &PeriodicPacking,
) -> f64 {
    let coefficients = 2 * packing.period();
    let modulus = parameters.log2_modulus(level).exp2();
    let unit = modulus / (scale * rounded_factor(modulus, scale, bound)) * (-f64::from(ROUNDED_BITS)).exp2();
    RoundedCiphertext::deviation(parameters.ring()) * (coefficients as f64).sqrt() * unit
}

/// Length of the result of [`write_rounded_output`].
pub fn rounded_output_bytes(parameters: &CkksParameters, packing: &PeriodicPacking) -> usize {
    8 + RoundedCiphertext::byte_len(parameters.rlwe(), ROUNDED_BITS, rounded_places(packing).len())
}

/// A decrypted output of [`write_rounded_output`].
pub(crate) struct OpenedOutput {
    /// The coefficients of the vectors, as parts of the modulus.
    pub(crate) coefficients: Zeroizing<Vec<f64>>,
    /// The scale, as such a part.
    pub(crate) scale: f64,
}

/// Decrypts the output of [`write_rounded_output`]; `None` if the ciphertext is one of other keys.
///
/// # Errors
/// If the bytes are not a finite positive number and a ciphertext of these parameters with these places.
pub(crate) fn open_rounded_output(
    secret: &SecretKey,
    packing: &PeriodicPacking,
    bytes: &[u8],
) -> Result<Option<OpenedOutput>, ProtocolError> {
    let refuse =
        |found: String| RlweError::Decode { what: "an answer", found, needed: "a scale and a ciphertext".into() };
    let (scale, rest) = bytes.split_first_chunk::<8>().ok_or_else(|| refuse(format!("{} bytes", bytes.len())))?;
    let scale = f64::from_le_bytes(*scale);
    if !(scale.is_normal() && (0.0..=1.0).contains(&scale)) {
        return Err(refuse(format!("scale {scale}")).into());
    }
    let places = rounded_places(packing);
    let ciphertext = RoundedCiphertext::from_bytes(secret.parameters(), places.len(), rest)?;
    let mut coefficients = secret.decrypt_rounded(&ciphertext, &places)?;
    let used = 2 * packing.period() * packing.count();
    let fits = coefficients[used..].iter().fold(true, |fits, c| fits & (c.abs() < MAX_CHECKED));
    coefficients.truncate(used);
    Ok(declassify(fits).then_some(OpenedOutput { coefficients, scale }))
}
