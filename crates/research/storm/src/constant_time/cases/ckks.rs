//! CKKS: keys, encoding, encryption, decryption.

use std::collections::BTreeSet;
use std::mem::discriminant;
use std::path::Path;

use unspoken_ckks::{Bootstrap, CkksParameters, Complex64, Encoder, Preset, SlotValues};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{
    CompactQueryParameters, CompactQuerySecret, KeyKind, KeyPlan, PublicKey, SecretKey, SeededSmallRingKeys,
    SeededSwitchingKey, SmallRing, SubringQueryParameters, SubringQuerySecret, ZeroEncryption, galois,
};

use super::{secret_generator, secret_numbers};
use crate::constant_time::memcheck::mark_secret;

const STANDARD: &str = "insecure_n11_depth9_scale50";
const REAL: &str = "insecure_n11_real_depth9_scale50";
pub const BOOTSTRAPPED: &str = "insecure_n11_boot_depth10_scale50";

/// A parameter set by name.
pub fn parameters(preset: &str) -> anyhow::Result<CkksParameters> {
    Ok(Preset::find(preset)?.build()?)
}

/// A secret key whose coefficients are secret, but not random.
pub fn secret_key(parameters: &CkksParameters) -> anyhow::Result<SecretKey> {
    let mut bytes = known_key(parameters)?.to_bytes()?;
    mark_secret(&mut bytes);
    Ok(SecretKey::from_bytes(parameters.rlwe(), &bytes)?)
}

/// The same key, not marked secret.
fn known_key(parameters: &CkksParameters) -> anyhow::Result<SecretKey> {
    Ok(SecretKey::generate(parameters.rlwe(), &mut SecretRng::insecure_from_seed(5))?)
}

/// Secret numbers in pairs.
fn secret_values(count: usize) -> Vec<Complex64> {
    secret_numbers(2 * count).as_chunks().0.iter().map(|&[re, im]| Complex64::new(re, im)).collect()
}

/// One key of each kind that a plan needs: keys of one kind take the same path.
fn one_of_each_kind(plan: &KeyPlan) -> Vec<(KeyKind, usize)> {
    let mut seen = Vec::new();
    let mut kinds = Vec::new();
    for (kind, chain) in plan.iter() {
        if !seen.contains(&discriminant(&kind)) {
            seen.push(discriminant(&kind));
            kinds.push((kind, chain));
        }
    }
    kinds
}

pub fn keys(_: &Path) -> anyhow::Result<()> {
    let mut generator = secret_generator();
    let mut kinds = BTreeSet::new();
    for preset in [STANDARD, REAL, BOOTSTRAPPED] {
        let parameters = parameters(preset)?;
        let ring = parameters.ring();
        let secret = SecretKey::generate(parameters.rlwe(), &mut generator)?;
        SecretKey::from_bytes(parameters.rlwe(), &secret.to_bytes()?)?;
        secret.identity()?;
        PublicKey::generate(&secret, &mut generator)?.to_bytes();
        let mut plan = KeyPlan::new();
        plan.require(KeyKind::Relinearisation, parameters.chain(1));
        plan.require(KeyKind::Galois { element: galois::rotation(ring, 3) }, parameters.chain(1));
        if parameters.bootstrap().is_some() {
            plan.extend(&Bootstrap::new(&parameters, parameters.slots(), SlotValues::Real)?.query_key_plan());
            plan.require(KeyKind::SubringQuery, parameters.chain(1));
            let small = SmallRing::new(parameters.rlwe(), ring.degree() / 4, 16)?;
            SeededSmallRingKeys::generate(&small, &secret, &mut generator)?.to_bytes(&small);
        }
        for (kind, chain) in one_of_each_kind(&plan) {
            SeededSwitchingKey::generate(&secret, kind, chain, &mut generator)?;
            kinds.insert(format!("{kind}").split(' ').next().map(str::to_owned));
        }
    }
    anyhow::ensure!(kinds.len() >= 4, "keys of {kinds:?} only; needed relinearisation, Galois and encapsulation keys");
    Ok(())
}

pub fn encoding(_: &Path) -> anyhow::Result<()> {
    for preset in [STANDARD, REAL] {
        let parameters = parameters(preset)?;
        let (encoder, level, scale) = (Encoder::new(&parameters), 3, parameters.scale());
        let slots = parameters.slots();
        for count in [1, 64, slots] {
            encoder.encode_real(&secret_numbers(count), level, scale)?;
        }
        encoder.encode_coefficients(&secret_numbers(parameters.ring().degree()), level, scale)?;
        if preset == STANDARD {
            for count in [1, slots] {
                encoder.encode(&secret_values(count), level, scale)?;
            }
        }
    }
    Ok(())
}

pub fn encryption(_: &Path) -> anyhow::Result<()> {
    let mut generator = secret_generator();
    let parameters = parameters(BOOTSTRAPPED)?;
    let (encoder, secret) = (Encoder::new(&parameters), secret_key(&parameters)?);
    let (level, scale) = (parameters.max_level(), parameters.scale());
    let plaintext = encoder.encode(&secret_values(parameters.slots()), level, scale)?;
    encoder.encrypt(&plaintext, &secret, &mut generator)?.to_bytes(&parameters);
    let public = PublicKey::generate(&secret, &mut generator)?;
    encoder.encrypt_public(&plaintext, &public, &mut generator)?.to_bytes(&parameters);
    let zero = ZeroEncryption::seeded(&secret, parameters.basis(level), &mut generator)?;
    encoder.encrypt_with(&plaintext, zero)?.to_bytes(&parameters);
    let compact = CompactQueryParameters::new(parameters.rlwe())?;
    let torus: Vec<f64> = secret_numbers(compact.len()).iter().map(|x| 0.25 * x).collect();
    CompactQuerySecret::of(&secret, &compact)?.encrypt(&torus, &mut generator)?.to_bytes(&compact);
    let subring = SubringQueryParameters::new(parameters.rlwe(), 64)?;
    SubringQuerySecret::of(&secret, &subring)?.encrypt(&torus[..64], &mut generator)?.to_bytes(&subring)?;
    Ok(())
}

pub fn decryption(_: &Path) -> anyhow::Result<()> {
    for preset in [STANDARD, REAL] {
        let parameters = parameters(preset)?;
        let (encoder, known) = (Encoder::new(&parameters), known_key(&parameters)?);
        let values: Vec<f64> = (0..parameters.slots()).map(|i| (i % 7) as f64 / 8.0).collect();
        let secret = secret_key(&parameters)?;
        for level in [0, 4] {
            let plaintext = encoder.encode_real(&values, level, parameters.scale())?;
            let sent = encoder.encrypt(&plaintext, &known, &mut SecretRng::insecure_from_seed(6))?;
            let ciphertext = sent.expand(&parameters);
            encoder.decrypt(&ciphertext, &secret)?;
            let phase = secret.decrypt(ciphertext.inner())?;
            encoder.decode_coefficients(&phase, parameters.scale())?;
        }
    }
    Ok(())
}
