//! The switching keys of a client in the form in which a server uses them.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use unspoken_ring::{Basis, GadgetKey, KeyRows, Poly, Recording, Ring, SecretRng, Special};

use crate::error::RlweError;
use crate::key_kind::KeyKind;
use crate::key_plan::{KeyPlan, KeyStorage, generate_keys};
use crate::keys::SecretKey;
use crate::switching_key::SeededSwitchingKey;

/// The switching keys of one client, on the server.
///
/// A key has two forms: the whole key, and the short form for ciphertexts of few primes
/// ([`Ring::switching_basis`]), which is made from it at the first use or by [`EvaluationKeys::prepare`].
#[derive(Debug, Default)]
pub struct EvaluationKeys {
    storage: KeyStorage,
    keys: BTreeMap<KeyKind, SwitchingKey>,
    /// Work with these keys that is done again and again.
    recordings: Mutex<HashMap<WorkId, Arc<Recording>>>,
}

/// Identifies work in this process: the object that does the work, the kind of work, and the bits of a number on which
/// the work depends.
pub type WorkId = [u64; 3];

/// Most recordings of work with a set of keys. Work beyond them is not recorded.
const MAX_RECORDINGS: usize = 64;

/// A key for use.
#[derive(Debug)]
enum SwitchingKey {
    /// One row per digit, over an extended basis.
    Gadget(GadgetForms),
    /// One row over an extended basis, and the number of chain primes that it covers.
    OneRow(GadgetKey, usize),
    /// One row over chain primes, in the evaluation domain.
    SingleDigit([Poly; 2]),
}

/// The forms of a gadget key.
#[derive(Debug)]
struct GadgetForms {
    /// Number of chain primes that the key covers.
    chain: usize,
    /// None if every ciphertext that the key covers uses the short form.
    whole: Option<GadgetKey>,
    short: OnceLock<GadgetKey>,
}

impl GadgetForms {
    fn new(ring: &Ring, chain: usize, whole: GadgetKey) -> Result<Self, RlweError> {
        if !ring.is_always_short(chain) {
            return Ok(GadgetForms { chain, whole: Some(whole), short: OnceLock::new() });
        }
        let short = ring.short_gadget_key(&whole)?;
        Ok(GadgetForms { chain, whole: None, short: OnceLock::from(short) })
    }

    fn short(&self, ring: &Ring) -> Result<Option<&GadgetKey>, RlweError> {
        if let (None, Some(whole)) = (self.short.get(), &self.whole) {
            let made = ring.short_gadget_key(whole)?;
            return Ok(Some(self.short.get_or_init(|| made)));
        }
        Ok(self.short.get())
    }

    fn bytes(&self) -> usize {
        let bytes = |key: Option<&GadgetKey>| key.map_or(0, GadgetKey::bytes);
        bytes(self.whole.as_ref()) + bytes(self.short.get())
    }
}

impl SwitchingKey {
    /// Makes a key for use from its seeded form.
    fn new(ring: &Ring, key: &SeededSwitchingKey, storage: KeyStorage) -> Result<Self, RlweError> {
        let (_, basis) = key.kind.rows(ring, key.chain);
        let mask = |digit: usize| ring.uniform(&key.seed, digit as u32, basis);
        if let (Special::None, [body]) = (basis.special, key.bodies.as_slice()) {
            return Ok(SwitchingKey::SingleDigit([body.clone(), mask(0)]));
        }
        let rows = if key.kind.is_gadget() { KeyRows::EachDigit } else { KeyRows::One };
        let whole = match storage {
            KeyStorage::Expanded => {
                let mut builder = ring.gadget_key_builder(key.chain, rows)?;
                for (digit, body) in key.bodies.iter().enumerate() {
                    builder.push([body, &mask(digit)])?;
                }
                builder.finish()?
            }
            KeyStorage::Seeded => {
                let mut builder = ring.seeded_gadget_key_builder(key.chain, rows, key.seed)?;
                key.bodies.iter().try_for_each(|body| builder.push(body))?;
                builder.finish()?
            }
        };
        match rows {
            KeyRows::EachDigit => Ok(SwitchingKey::Gadget(GadgetForms::new(ring, key.chain, whole)?)),
            KeyRows::One => Ok(SwitchingKey::OneRow(whole, key.chain)),
        }
    }

    fn chain(&self) -> usize {
        match self {
            SwitchingKey::Gadget(key) => key.chain,
            SwitchingKey::OneRow(_, chain) => *chain,
            SwitchingKey::SingleDigit([body, _]) => body.basis().chain,
        }
    }
}

impl EvaluationKeys {
    /// An empty set of keys, to be stored expanded.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty set of keys, to be stored as given.
    pub fn with_storage(storage: KeyStorage) -> Self {
        EvaluationKeys { storage, ..Self::default() }
    }

    /// Generates every key of a plan, with the short forms that the plan uses: for tests, benchmarks and use on a
    /// single machine. The keys are stored expanded.
    ///
    /// # Errors
    /// As for [`SeededSwitchingKey::generate`].
    pub fn generate(secret: &SecretKey, plan: &KeyPlan, rng: &mut SecretRng) -> Result<Self, RlweError> {
        Self::new().filled(secret, plan, rng)
    }

    /// As [`EvaluationKeys::generate`], added to this set.
    ///
    /// # Errors
    /// As for [`SeededSwitchingKey::generate`].
    pub fn filled(mut self, secret: &SecretKey, plan: &KeyPlan, rng: &mut SecretRng) -> Result<Self, RlweError> {
        let ring = secret.parameters().ring();
        generate_keys(secret, plan, rng, &AtomicBool::new(false), |key| self.insert(ring, &key))?;
        self.prepare(ring, plan)?;
        Ok(self)
    }

    /// Adds a key.
    ///
    /// # Errors
    /// If the key belongs to another ring.
    pub fn insert(&mut self, ring: &Ring, key: &SeededSwitchingKey) -> Result<(), RlweError> {
        self.keys.insert(key.kind, SwitchingKey::new(ring, key, self.storage)?);
        self.recordings.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(())
    }

    /// The recording of work with these keys, for [`Ring::repeat`].
    pub fn recording(&self, work: WorkId) -> Arc<Recording> {
        let mut recordings = self.recordings.lock().unwrap_or_else(PoisonError::into_inner);
        match recordings.get(&work) {
            Some(recording) => Arc::clone(recording),
            None if recordings.len() == MAX_RECORDINGS => Arc::default(),
            None => Arc::clone(recordings.entry(work).or_default()),
        }
    }

    /// Makes the short forms that a plan uses, so that the first operations need not. Keys that are missing are left
    /// out.
    ///
    /// # Errors
    /// If the keys belong to another ring.
    pub fn prepare(&self, ring: &Ring, plan: &KeyPlan) -> Result<(), RlweError> {
        for kind in plan.short_keys(ring) {
            if let Some(SwitchingKey::Gadget(forms)) = self.keys.get(&kind) {
                forms.short(ring)?;
            }
        }
        Ok(())
    }

    /// The key of `kind` for a ciphertext over `basis`, in the form for it.
    ///
    /// # Errors
    /// [`RlweError::MissingKeys`] if it is absent or covers fewer primes.
    pub fn get(
        &self,
        operation: &'static str,
        ring: &Ring,
        kind: KeyKind,
        basis: Basis,
    ) -> Result<&GadgetKey, RlweError> {
        let found = match self.keys.get(&kind) {
            Some(SwitchingKey::OneRow(key, chain)) if *chain >= basis.chain => Some(key),
            Some(SwitchingKey::Gadget(forms)) if forms.chain >= basis.chain => {
                match ring.switching_basis(basis).special {
                    Special::Short => forms.short(ring)?,
                    _ => forms.whole.as_ref(),
                }
            }
            _ => None,
        };
        found.ok_or_else(|| RlweError::MissingKeys { operation, missing: vec![(kind, basis.chain)] })
    }

    /// The row of an encapsulation key.
    pub(crate) fn single_digit(
        &self,
        operation: &'static str,
        kind: KeyKind,
        chain: usize,
    ) -> Result<&[Poly; 2], RlweError> {
        match self.keys.get(&kind) {
            Some(SwitchingKey::SingleDigit(row)) if row[0].basis().chain == chain => Ok(row),
            _ => Err(RlweError::MissingKeys { operation, missing: vec![(kind, chain)] }),
        }
    }

    /// Checks that all keys of a plan are present.
    ///
    /// # Errors
    /// [`RlweError::MissingKeys`], which names all missing keys.
    pub fn check(&self, operation: &'static str, plan: &KeyPlan) -> Result<(), RlweError> {
        let there = |(kind, chain): &(KeyKind, usize)| self.keys.get(kind).is_some_and(|key| key.chain() >= *chain);
        let missing: Vec<_> = plan.iter().filter(|key| !there(key)).collect();
        if missing.is_empty() { Ok(()) } else { Err(RlweError::MissingKeys { operation, missing }) }
    }

    /// Bytes in memory, with the short forms that were made so far.
    pub fn bytes(&self) -> u64 {
        let bytes = |key: &SwitchingKey| match key {
            SwitchingKey::Gadget(forms) => forms.bytes(),
            SwitchingKey::OneRow(key, _) => key.bytes(),
            SwitchingKey::SingleDigit([body, mask]) => body.bytes() + mask.bytes(),
        };
        self.keys.values().map(|key| bytes(key) as u64).sum()
    }
}
