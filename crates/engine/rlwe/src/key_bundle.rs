//! Files of seeded switching keys.

use std::io::{Read, Write};
use std::sync::atomic::AtomicBool;

use unspoken_ring::{Domain, Poly, SecretRng, Seed};

use crate::codec::{HEADER_BYTES, Object, check_chain, read_header, refuse, take, write_header};
use crate::error::RlweError;
use crate::evaluation_keys::EvaluationKeys;
use crate::key_kind::KeyKind;
use crate::key_plan::{KeyPlan, KeyStorage, generate_keys};
use crate::keys::SecretKey;
use crate::parameters::Parameters;
use crate::switching_key::SeededSwitchingKey;

/// Largest number of keys in one bundle.
pub const MAX_BUNDLE_KEYS: usize = 4096;

const DESCRIPTOR_BYTES: usize = 12;

/// A file of seeded switching keys.
///
/// After the header: the number of keys (u32), a descriptor of 12 bytes per key (the Galois element, or 0 for
/// relinearisation, 2 and 4 for encapsulation of ciphertexts and of queries, 6 plus 256 times the Galois element for
/// decapsulation, 8 for the ring of half the degree, 10 for subring queries, u64; chain length, u32), then each key in
/// that order: its seed (32 bytes) and its rows. The descriptors come first so that a server knows the sizes of the
/// keys before it reads them.
pub struct KeyBundle;

impl KeyBundle {
    /// Bytes of a bundle with the keys of `plan`.
    pub fn byte_len(parameters: &Parameters, plan: &KeyPlan) -> u64 {
        let head = Self::plan_bytes(plan) + plan.len() * 32;
        head as u64 + plan.wire_bytes(parameters.ring())
    }

    /// Bytes of the plan at the beginning of a bundle, which [`KeyBundle::read_plan`] reads.
    pub fn plan_bytes(plan: &KeyPlan) -> usize {
        Self::most_plan_bytes(plan.len())
    }

    /// Maximum bytes of the plan of a bundle of at most `keys` keys.
    pub const fn most_plan_bytes(keys: usize) -> usize {
        HEADER_BYTES + 4 + keys * DESCRIPTOR_BYTES
    }

    /// Writes the plan: the part before the keys.
    ///
    /// # Errors
    /// If writing fails or the plan has more than [`MAX_BUNDLE_KEYS`] keys.
    pub fn write_plan(parameters: &Parameters, plan: &KeyPlan, out: &mut impl Write) -> Result<(), RlweError> {
        if plan.len() > MAX_BUNDLE_KEYS {
            return Err(refuse(
                Object::KeyBundle,
                format!("{} keys", plan.len()),
                format!("at most {MAX_BUNDLE_KEYS}"),
            ));
        }
        let mut bytes = Vec::new();
        write_header(parameters, Object::KeyBundle, &mut bytes);
        bytes.extend((plan.len() as u32).to_le_bytes());
        for (kind, chain) in plan.iter() {
            bytes.extend(kind.code().to_le_bytes());
            bytes.extend((chain as u32).to_le_bytes());
        }
        Ok(out.write_all(&bytes)?)
    }

    /// Generates every key of a plan and writes the bundle, with one key at a time in memory. Calls `progress` with the
    /// number of finished keys and the number of all keys. Stops early if `cancel` is set.
    ///
    /// # Errors
    /// If writing fails, [`RlweError::Interrupted`] if cancelled, or as for [`SeededSwitchingKey::generate`].
    pub fn write(
        secret: &SecretKey,
        plan: &KeyPlan,
        rng: &mut SecretRng,
        out: &mut impl Write,
        mut progress: impl FnMut(usize, usize),
        cancel: &AtomicBool,
    ) -> Result<(), RlweError> {
        Self::write_plan(secret.parameters(), plan, out)?;
        let mut done = 0;
        progress(done, plan.len());
        generate_keys(secret, plan, rng, cancel, |key| {
            Self::write_key(secret.parameters(), &key, out)?;
            done += 1;
            progress(done, plan.len());
            Ok(())
        })
    }

    /// Writes one key. Keys must be written in the order of the plan.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write_key(parameters: &Parameters, key: &SeededSwitchingKey, out: &mut impl Write) -> Result<(), RlweError> {
        out.write_all(&key.seed.0)?;
        let mut bytes = Vec::new();
        for body in &key.bodies {
            bytes.clear();
            parameters.ring().write_residues(body, &mut bytes);
            out.write_all(&bytes)?;
        }
        Ok(())
    }

    /// Reads the plan: the part before the keys, and no bytes after it.
    ///
    /// # Errors
    /// [`RlweError::Decode`] if the bundle is malformed or has other parameters, or if reading fails.
    pub fn read_plan(parameters: &Parameters, input: &mut impl Read) -> Result<KeyPlan, RlweError> {
        let object = Object::KeyBundle;
        let mut head = [0; HEADER_BYTES + 4];
        read_exact(object, input, &mut head)?;
        let mut rest = read_header(parameters, object, &head)?;
        let count = take(object, &mut rest, 4)?;
        let count = u32::from_le_bytes([count[0], count[1], count[2], count[3]]) as usize;
        if count > MAX_BUNDLE_KEYS {
            return Err(refuse(object, format!("{count} keys"), format!("at most {MAX_BUNDLE_KEYS}")));
        }
        let mut plan = KeyPlan::new();
        let mut last = None;
        for _ in 0..count {
            let mut descriptor = [0; DESCRIPTOR_BYTES];
            read_exact(object, input, &mut descriptor)?;
            let [e0, e1, e2, e3, e4, e5, e6, e7, c0, c1, c2, c3] = descriptor;
            let element = u64::from_le_bytes([e0, e1, e2, e3, e4, e5, e6, e7]);
            let chain = check_chain(parameters, object, u32::from_le_bytes([c0, c1, c2, c3]) as usize)?;
            let unknown = || refuse(object, format!("key kind {element}"), "a kind of this release: see `KeyBundle`");
            let kind = KeyKind::from_code(parameters.ring(), element).ok_or_else(unknown)?;
            parameters.check_kind(kind, chain)?;
            if last.is_some_and(|last| kind <= last) {
                return Err(refuse(object, format!("{kind} out of order"), "each key once, in ascending order"));
            }
            last = Some(kind);
            plan.require(kind, chain);
        }
        Ok(plan)
    }

    /// Reads a whole bundle. Each key is stored as `storage` says after it is read.
    ///
    /// # Errors
    /// [`RlweError::Decode`] if the data are not exactly one bundle, or if reading fails.
    pub fn read(
        parameters: &Parameters,
        storage: KeyStorage,
        input: &mut impl Read,
    ) -> Result<EvaluationKeys, RlweError> {
        let object = Object::KeyBundle;
        let plan = Self::read_plan(parameters, input)?;
        let mut keys = EvaluationKeys::with_storage(storage);
        for (kind, chain) in plan.iter() {
            keys.insert(parameters.ring(), &read_key(parameters, kind, chain, input)?)?;
        }
        match input.read(&mut [0])? {
            0 => Ok(keys),
            _ => Err(refuse(object, "surplus bytes", "the end")),
        }
    }
}

fn read_key(
    parameters: &Parameters,
    kind: KeyKind,
    chain: usize,
    input: &mut impl Read,
) -> Result<SeededSwitchingKey, RlweError> {
    let ring = parameters.ring();
    let (rows, basis) = kind.rows(ring, chain);
    let mut seed = [0; 32];
    read_exact(Object::KeyBundle, input, &mut seed)?;
    let mut packed = vec![0; ring.residue_bytes(basis)];
    let read_row = |_| -> Result<Poly, RlweError> {
        read_exact(Object::KeyBundle, input, &mut packed)?;
        Ok(ring.read_residues(&packed, basis, Domain::Evaluation)?)
    };
    let bodies = (0..rows).map(read_row).collect::<Result<_, _>>()?;
    Ok(SeededSwitchingKey { kind, chain, seed: Seed(seed), bodies })
}

fn read_exact(object: Object, input: &mut impl Read, bytes: &mut [u8]) -> Result<(), RlweError> {
    input.read_exact(bytes).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => {
            refuse(object, "the end of the data", format!("{} more bytes", bytes.len()))
        }
        _ => RlweError::Io(error),
    })
}
