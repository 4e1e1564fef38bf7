//! Expansion of a query to RGSW ciphertexts of the bits of its index.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use unspoken_gsw::{CircuitBootstrapKey, GswError, LweCiphertext, Rgsw, RotatedBit};
use unspoken_ring::DigitGadget;

use crate::device::{each, is_on_device};
use crate::error::{SchemeError, range};
use crate::keys::PreparedKeys;
use crate::query::Query;
use crate::shape::DatabaseShape;

/// RGSW ciphertexts of the bits of a query's index, the lowest first: the first phase of [`answer`](crate::answer).
/// Runs on all threads.
///
/// # Errors
/// If the keys do not fit the query's mode, the query has another number of bits than the shape's index, or `cancel` is
/// set.
pub fn expand(
    keys: &PreparedKeys,
    shape: DatabaseShape,
    query: &Query,
    cancel: &AtomicBool,
) -> Result<Vec<Rgsw>, SchemeError> {
    let (bits, gadgets) = (shape.index_bits(), keys.parameters.gadgets(shape));
    let wrong = || SchemeError::Mode { found: keys.mode(), needed: query.mode() };
    let dimension = keys.parameters.literal().compact.dimension;
    match query {
        Query::Packed(bits) => bits.expand(keys, &gadgets),
        Query::Bits { seed, bodies } => {
            let key = keys.bootstrap.as_ref().ok_or_else(wrong)?;
            if bodies.len() != bits as usize {
                return Err(range("read a query", bodies.len() as u64, format!("a body for each of {bits} bits")));
            }
            let dimension = keys.parameters.literal().bootstrap.lwe.dimension;
            let shift = u32::BITS - keys.parameters.literal().bit_body_bits;
            let expand = |(i, &body): (usize, &u32)| LweCiphertext::expand(body << shift, (seed, i as u64), dimension);
            let ciphertexts: Vec<LweCiphertext> = bodies.iter().enumerate().map(expand).collect();
            bootstrapped((keys, key), &gadgets, &ciphertexts, cancel)
        }
        Query::Compact { seed, body } => {
            decomposed(keys, shape, LweCiphertext::expand(*body, (seed, 0), dimension), cancel)
        }
        Query::Session { counter, body } => {
            let stream = (&keys.session, u64::from(*counter));
            decomposed(keys, shape, LweCiphertext::expand(*body, stream, dimension), cancel)
        }
    }
}

fn bootstrapped(
    (keys, key): (&PreparedKeys, &CircuitBootstrapKey),
    gadgets: &[DigitGadget],
    ciphertexts: &[LweCiphertext],
    cancel: &AtomicBool,
) -> Result<Vec<Rgsw>, SchemeError> {
    let bootstrap = |(ciphertext, &gadget)| {
        check(cancel)?;
        Ok(key.bootstrap(ciphertext, gadget)?)
    };
    each(keys.parameters.ring(), ciphertexts.iter().zip(gadgets).collect(), bootstrap)
}

/// Returns an error when the work is cancelled.
pub(crate) fn check(cancel: &AtomicBool) -> Result<(), SchemeError> {
    if cancel.load(Ordering::Relaxed) { Err(SchemeError::Interrupted) } else { Ok(()) }
}

/// Extracts the bits of an encrypted index, the lowest first. The rest of the index is shifted so that its lowest bit
/// is the highest bit of the word, and switched to the bootstrap's secret. The blind rotation that gives the RGSW
/// ciphertext of the bit also gives an encryption of the bit at its place in the index. This is subtracted from the
/// index (Pirouette, Algorithm 3, with digits of one bit and one rotation for both). The shift multiplies the noise, so
/// the lowest bits of a long index are refreshed first.
fn decomposed(
    keys: &PreparedKeys,
    shape: DatabaseShape,
    mut rest: LweCiphertext,
    cancel: &AtomicBool,
) -> Result<Vec<Rgsw>, SchemeError> {
    let wrong = || SchemeError::Mode { found: keys.mode(), needed: crate::Mode::Compact };
    let (key, switch) = keys.bootstrap.as_ref().zip(keys.compact.as_ref()).ok_or_else(wrong)?;
    let (bits, gadgets) = (shape.index_bits(), keys.parameters.gadgets(shape));
    let converted: Vec<OnceLock<Result<Rgsw, GswError>>> = (0..bits).map(|_| OnceLock::new()).collect();
    let refreshed = keys.parameters.refreshed_bits(shape);
    // Each rotation depends on the previous one. Other threads convert finished rotations meanwhile.
    rayon::in_place_scope(|scope| {
        for (bit, (converted, &gadget)) in converted.iter().zip(&gadgets).enumerate() {
            check(cancel)?;
            let above = bits - 1 - bit as u32;
            let mut highest = switch.switch(&rest.shifted(above))?;
            if bit < refreshed as usize {
                check(cancel)?;
                highest = switch.switch(&key.refresh(&highest)?)?;
            }
            let rotated = key.rotate(&highest, gadget, half_place(keys, above))?;
            if above > 0 {
                subtract_bit(key, &rotated, above, &mut rest)?;
            }
            let convert = move || {
                let _ = converted.set(key.convert(&rotated));
            };
            match is_on_device(keys.parameters.ring()) {
                true => convert(),
                false => scope.spawn(move |_| convert()),
            }
        }
        Ok::<_, SchemeError>(())
    })?;
    let taken = converted.into_iter().filter_map(OnceLock::into_inner);
    Ok(taken.collect::<Result<_, _>>()?)
}

/// Half the place value of a bit, scaled from 2^32 to the ring's modulus: the input of a rotation. The place value of a
/// bit with `above` bits above it is `2^(31 - above)`.
pub(crate) fn half_place(keys: &PreparedKeys, above: u32) -> i64 {
    (keys.parameters.ring().log2_modulus() + f64::from(30 - above) - 32.0).exp2().round() as i64
}

/// Subtracts a bit at its place. The rotation gives plus or minus half of its place value.
pub(crate) fn subtract_bit(
    key: &CircuitBootstrapKey,
    rotated: &RotatedBit,
    above: u32,
    rest: &mut LweCiphertext,
) -> Result<(), GswError> {
    let mut sign = key.signed(rotated)?;
    sign.body = sign.body.wrapping_add(1 << (30 - above));
    rest.sub_assign(&sign)
}
