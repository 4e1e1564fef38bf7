//! BFV and BGV: encoding, encryption, decryption.

use std::path::Path;

use unspoken_exact::{Encoder, ExactParameters, Preset, Scheme};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{PublicKey, SecretKey};

use super::secret_generator;
use crate::constant_time::memcheck::mark_secret;

fn schemes() -> anyhow::Result<Vec<ExactParameters>> {
    let build = |scheme| Ok(Preset::find("insecure_n10_exact17")?.build(scheme)?);
    [Scheme::Bfv, Scheme::Bgv].map(build).into_iter().collect()
}

/// Integers from -100 to 100.
fn integers(count: usize) -> Vec<i64> {
    (0..count).map(|i| (i * 71 % 201) as i64 - 100).collect()
}

fn known_key(parameters: &ExactParameters) -> anyhow::Result<SecretKey> {
    Ok(SecretKey::generate(parameters.rlwe(), &mut SecretRng::insecure_from_seed(5))?)
}

fn secret_key(parameters: &ExactParameters) -> anyhow::Result<SecretKey> {
    let mut bytes = known_key(parameters)?.to_bytes()?;
    mark_secret(&mut bytes);
    Ok(SecretKey::from_bytes(parameters.rlwe(), &bytes)?)
}

pub fn encryption(_: &Path) -> anyhow::Result<()> {
    let mut generator = secret_generator();
    for parameters in schemes()? {
        let (encoder, secret) = (Encoder::new(&parameters), secret_key(&parameters)?);
        let mut values = integers(parameters.slots());
        mark_secret(&mut values);
        let public = PublicKey::generate(&secret, &mut generator)?;
        for plaintext in [encoder.encode_slots(&values)?, encoder.encode_coefficients(&values)?] {
            encoder.encrypt(&plaintext, &secret, &mut generator)?.to_bytes();
            encoder.encrypt_public(&plaintext, &public, &mut generator)?.to_bytes();
        }
    }
    Ok(())
}

pub fn decryption(_: &Path) -> anyhow::Result<()> {
    for parameters in schemes()? {
        let (encoder, known) = (Encoder::new(&parameters), known_key(&parameters)?);
        let plaintext = encoder.encode_slots(&integers(parameters.slots()))?;
        let ciphertext = encoder.encrypt(&plaintext, &known, &mut SecretRng::insecure_from_seed(6))?.expand()?;
        let decrypted = encoder.decrypt(&ciphertext, &secret_key(&parameters)?)?;
        encoder.decode_slots(&decrypted)?;
        encoder.decode_coefficients(&decrypted)?;
    }
    Ok(())
}
