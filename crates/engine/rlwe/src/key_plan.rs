//! Plans of the switching keys that a circuit needs, and the generation of all keys of a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use unspoken_ring::{Basis, Ring, SecretRng, Special};

use crate::error::RlweError;
use crate::key_kind::KeyKind;
use crate::keys::SecretKey;
use crate::switching_key::SeededSwitchingKey;

/// The switching keys that a circuit needs, each with the number of chain primes that it must cover.
///
/// A key that is used only on ciphertexts of low level need not cover the primes above that level, which saves memory
/// and traffic. Plans of several circuits are merged with [`KeyPlan::extend`]. Two plans are equal if their keys cover
/// the same primes.
#[derive(Clone, Debug, Default)]
pub struct KeyPlan(BTreeMap<KeyKind, Use>);

/// The use of a key.
#[derive(Clone, Debug, Default)]
struct Use {
    /// Number of chain primes that the key must cover.
    chain: usize,
    /// Numbers of chain and terminal primes of ciphertexts that are known to be switched.
    bases: BTreeSet<(usize, usize)>,
}

/// How a server stores the switching keys of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KeyStorage {
    /// Both halves of every row: the fastest.
    #[default]
    Expanded,
    /// One half and a seed, from which every key switch expands the other: half of the memory, and slower.
    Seeded,
}

/// The identity automorphism needs no key.
const IDENTITY: KeyKind = KeyKind::Galois { element: 1 };

impl KeyPlan {
    /// The empty plan.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `kind` for ciphertexts of at most `chain` primes, without a statement about their bases: memory for the
    /// short form of the key is not counted beside that for the whole one. The identity automorphism needs no key.
    pub fn require(&mut self, kind: KeyKind, chain: usize) {
        if kind != IDENTITY {
            let covered = &mut self.0.entry(kind).or_default().chain;
            *covered = (*covered).max(chain);
        }
    }

    /// Adds `kind` for ciphertexts over `basis`. The identity automorphism needs no key.
    pub fn require_over(&mut self, kind: KeyKind, basis: Basis) {
        self.require(kind, basis.chain);
        if let Some(used) = self.0.get_mut(&kind) {
            used.bases.insert((basis.chain, basis.terminal));
        }
    }

    /// Adds all keys of `other`.
    pub fn extend(&mut self, other: &KeyPlan) {
        for (&kind, used) in &other.0 {
            self.require(kind, used.chain);
            self.0.entry(kind).or_default().bases.extend(&used.bases);
        }
    }

    /// The part of the plan with these kinds of keys.
    pub fn only(&self, wanted: impl Fn(KeyKind) -> bool) -> Self {
        KeyPlan(self.0.iter().filter(|(kind, _)| wanted(**kind)).map(|(&kind, used)| (kind, used.clone())).collect())
    }

    /// Whether the plan has this key for ciphertexts of `chain` primes.
    pub fn covers_key(&self, kind: KeyKind, chain: usize) -> bool {
        self.0.get(&kind).is_some_and(|used| used.chain >= chain)
    }

    /// Whether keys of this plan can be used wherever keys of `other` can be used.
    pub fn covers(&self, other: &KeyPlan) -> bool {
        other.iter().all(|(kind, chain)| self.covers_key(kind, chain))
    }

    /// The keys, each with the number of chain primes that it covers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (KeyKind, usize)> + '_ {
        self.0.iter().map(|(&kind, used)| (kind, used.chain))
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the plan has no keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys whose short form is used on ciphertexts with known bases.
    pub(crate) fn short_keys(&self, ring: &Ring) -> impl Iterator<Item = KeyKind> {
        let is_short = |&(chain, terminal): &(usize, usize)| {
            ring.switching_basis(Basis::chain(chain).with_terminal(terminal)).special == Special::Short
        };
        self.0.iter().filter(move |(kind, used)| kind.is_gadget() && used.bases.iter().any(is_short)).map(|(&k, _)| k)
    }

    /// Bytes of the expanded keys in memory, with the short forms that are used.
    pub fn memory_bytes(&self, ring: &Ring) -> u64 {
        self.stored_bytes(ring, KeyStorage::Expanded)
    }

    /// Bytes of the keys in memory, with the short forms that are used, which are always expanded.
    pub fn stored_bytes(&self, ring: &Ring, storage: KeyStorage) -> u64 {
        let whole: u64 = self.iter().map(|(kind, chain)| kind.stored_bytes(ring, chain, storage) as u64).sum();
        let short = |kind: KeyKind| {
            let chain = self.0[&kind].chain;
            let beside = ring.short_key_basis(chain).filter(|_| !ring.is_always_short(chain));
            beside.map_or(0, |basis| ring.gadget_key_bytes(basis) as u64)
        };
        whole + self.short_keys(ring).map(short).sum::<u64>()
    }

    /// Bytes of the seeded keys, without the few bytes of headers.
    pub fn wire_bytes(&self, ring: &Ring) -> u64 {
        let one = |(kind, chain): (KeyKind, usize)| {
            let (rows, basis) = kind.rows(ring, chain);
            rows * ring.residue_bytes(basis)
        };
        self.iter().map(|key| one(key) as u64).sum()
    }
}

impl PartialEq for KeyPlan {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for KeyPlan {}

impl KeyKind {
    /// Bytes in memory of the key for ciphertexts of at most `chain` primes: its whole form, or its short form
    /// if the whole one has no use.
    fn stored_bytes(self, ring: &Ring, chain: usize, storage: KeyStorage) -> usize {
        // A ring on a device expands all keys.
        let halves = |expanded: usize| {
            let seeded = storage == KeyStorage::Seeded && ring.device().is_none();
            if seeded { expanded / 2 } else { expanded }
        };
        match self {
            KeyKind::Encapsulation | KeyKind::QueryEncapsulation => return 2 * ring.poly_bytes(Basis::chain(chain)),
            KeyKind::Decapsulation { .. } => return halves(ring.one_row_key_bytes(ring.gadget_key_basis(chain))),
            _ => {}
        }
        match ring.short_key_basis(chain) {
            Some(short) if ring.is_always_short(chain) => ring.gadget_key_bytes(short),
            _ => halves(ring.gadget_key_bytes(ring.gadget_key_basis(chain))),
        }
    }
}

/// Generates every key of a plan, one after the other, and passes each to `sink`. Stops early if `cancel` is set.
///
/// # Errors
/// [`RlweError::Interrupted`] if cancelled, the errors of `sink`, or as for [`SeededSwitchingKey::generate`].
pub fn generate_keys(
    secret: &SecretKey,
    plan: &KeyPlan,
    rng: &mut SecretRng,
    cancel: &AtomicBool,
    mut sink: impl FnMut(SeededSwitchingKey) -> Result<(), RlweError>,
) -> Result<(), RlweError> {
    for (kind, chain) in plan.iter() {
        if cancel.load(Ordering::Relaxed) {
            return Err(RlweError::Interrupted);
        }
        sink(SeededSwitchingKey::generate(secret, kind, chain, rng)?)?;
    }
    Ok(())
}
