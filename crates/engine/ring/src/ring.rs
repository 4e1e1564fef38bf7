//! The ring: its primes and tables, the memory of its polynomials, and checks of operands.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use rayon::prelude::*;
use zeroize::zeroize_stack;

use unspoken_device::Device;

use crate::automorphism::Permutation;
use crate::backend::Backend;
use crate::basis::{Basis, Domain, Special};
use crate::decomposition_table::DecompositionTable;
use crate::device::ring::{DeviceRing, On};
use crate::division_table::DivisionTable;
use crate::error::RingError;
use crate::kernels::Kernels;
use crate::kind::RingKind;
use crate::literal::RingLiteral;
use crate::memory::{Pool, Words};
use crate::modular::{Modulus, primitive_root_of_unity};
use crate::ntt::{NttTable, bit_reverse};
use crate::poly::Poly;

/// Words between the end of a limb and the next limb, so that equal offsets of different limbs do not share cache sets.
const LIMB_PADDING: usize = 64;

/// Least number of words for which several threads are used: below this number threads cost more than they gain.
const PARALLEL_WORDS: usize = 1 << 15;

/// Most memory in idle buffers that a ring keeps for reuse, as a multiple of its largest polynomial.
const POOL_POLYNOMIALS: usize = 96;

/// At least so much memory in idle buffers: small rings compute with more polynomials at a time.
const MIN_POOL_BYTES: usize = 8 << 20;

/// Bytes of stack that are wiped after an operation on a secret limb: kernels spill registers there, AVX-512 transforms
/// below their buffer of 16 KiB.
pub(crate) const SPILLED_BYTES: usize = 20480;

/// Most primes that one division drops, special primes included.
pub const MAX_DROPPED: usize = 18;

/// A residue ring: polynomials of degree below `n` over a chain of primes and the special primes.
///
/// Cheap to clone. All polynomials of one ring share its memory pool and its backend; no other crate sees where their
/// residues are stored.
#[derive(Clone)]
pub struct Ring(Arc<Inner>);

struct Inner {
    literal: RingLiteral,
    backend: Backend,
    kernels: &'static dyn Kernels,
    tables: Arc<Vec<NttTable>>,
    /// The device that polynomials are on, if they are on one.
    device: Option<DeviceRing>,
    pool: Arc<Pool>,
    permutations: RwLock<HashMap<u64, Arc<Permutation>>>,
    caches: Caches,
    root_powers: OnceLock<Vec<Vec<u32>>>,
    orbit_order: OnceLock<Vec<u32>>,
}

/// The tables of divisions and decompositions, made when they are first needed.
#[derive(Default)]
pub(crate) struct Caches {
    pub(crate) divisions: RwLock<HashMap<(Basis, Basis), Arc<DivisionTable>>>,
    pub(crate) decompositions: RwLock<HashMap<Basis, Arc<DecompositionTable>>>,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("literal", &self.0.literal).field("backend", &self.0.backend).finish()
    }
}

impl Ring {
    /// Checks the literal and builds the tables.
    ///
    /// # Errors
    /// If the degree, a prime or a length is unusable, or the backend is not available on this machine.
    pub fn new(literal: RingLiteral, backend: Backend) -> Result<Ring, RingError> {
        literal.check()?;
        let kernels = backend.kernels().ok_or(RingError::Backend { found: backend.name() })?;
        let primes: Vec<u32> = literal.chain.iter().chain(&literal.terminal).chain(&literal.special).copied().collect();
        let (degree, kind) = (literal.degree, literal.kind);
        let table = |&q: &u32| NttTable::new(Modulus::new(q), degree, kind, kernels.lanes());
        let tables = Arc::new(primes.par_iter().map(table).collect::<Vec<_>>());
        Ok(Ring::of_tables(literal, backend, kernels, tables, None))
    }

    fn of_tables(
        literal: RingLiteral,
        backend: Backend,
        kernels: &'static dyn Kernels,
        tables: Arc<Vec<NttTable>>,
        device: Option<DeviceRing>,
    ) -> Ring {
        let polynomials = POOL_POLYNOMIALS * tables.len() * (literal.degree + LIMB_PADDING) * size_of::<u32>();
        let pool = Pool::new(polynomials.max(MIN_POOL_BYTES));
        Ring(Arc::new(Inner {
            literal,
            backend,
            kernels,
            tables,
            device,
            pool,
            permutations: RwLock::default(),
            caches: Caches::default(),
            root_powers: OnceLock::new(),
            orbit_order: OnceLock::new(),
        }))
    }

    /// The same ring with its polynomials on a device.
    pub(crate) fn with_device(&self, device: DeviceRing) -> Ring {
        let Inner { literal, backend, kernels, tables, .. } = &*self.0;
        Ring::of_tables(literal.clone(), *backend, *kernels, Arc::clone(tables), Some(device))
    }

    /// The ring in the memory of a device, for one operation; nothing if operations are done by the processor.
    pub(crate) fn on(&self) -> Option<On<'_>> {
        self.0.device.as_ref().and_then(On::new)
    }

    /// The device that polynomials are on, if they are on one.
    pub fn device(&self) -> Option<&Device> {
        self.0.device.as_ref().map(DeviceRing::device)
    }

    /// How many polynomials were fetched from the device so far, because an operation has no kernel or because they
    /// were written or decoded.
    pub fn fetched_polynomials(&self) -> u64 {
        self.0.device.as_ref().map_or(0, DeviceRing::fetched)
    }

    /// Notes that a polynomial is fetched.
    pub(crate) fn count_fetched(&self) {
        self.0.device.iter().for_each(DeviceRing::count_fetched);
    }

    /// The degree `n`.
    pub fn degree(&self) -> usize {
        self.0.literal.degree
    }

    /// Standard or conjugate-invariant.
    pub fn kind(&self) -> RingKind {
        self.0.literal.kind
    }

    /// The chain of primes.
    pub fn chain(&self) -> &[u32] {
        &self.0.literal.chain
    }

    /// The terminal primes.
    pub fn terminal(&self) -> &[u32] {
        &self.0.literal.terminal
    }

    /// The special primes.
    pub fn special(&self) -> &[u32] {
        &self.0.literal.special
    }

    /// Primes per digit of the gadget decomposition.
    pub fn digit_len(&self) -> usize {
        self.0.literal.digit_len
    }

    /// The instruction set in use.
    pub fn backend(&self) -> Backend {
        self.0.backend
    }

    /// The primes of a basis, in limb order.
    pub fn primes(&self, basis: Basis) -> impl Iterator<Item = u32> + '_ {
        self.prime_indices(basis).map(|i| self.modulus(i).q)
    }

    /// Number of primes of a basis.
    pub fn limb_count(&self, basis: Basis) -> usize {
        basis.chain + basis.terminal + self.special_primes(basis).len()
    }

    /// The special primes of a basis.
    pub fn special_primes(&self, basis: Basis) -> &[u32] {
        let count = match basis.special {
            Special::None => 0,
            Special::Short => short_special(self.special().len()),
            Special::All => self.special().len(),
        };
        &self.special()[..count]
    }

    /// Bytes in memory of one polynomial over `basis`.
    pub fn poly_bytes(&self, basis: Basis) -> usize {
        self.limb_count(basis) * self.stride() * size_of::<u32>()
    }

    /// Most bytes of freed buffers that the ring keeps for reuse.
    pub fn idle_bytes(&self) -> usize {
        self.pool().capacity_bytes()
    }

    /// Takes memory for `count` polynomials over `basis` from the system and keeps it as freed buffers, up to
    /// [`Ring::idle_bytes`], so that the next operations do not wait for the system.
    pub fn reserve(&self, basis: Basis, count: usize) {
        let count = count.min(self.idle_bytes() / self.poly_bytes(basis).max(1));
        let buffers: Vec<Words> =
            (0..count).map(|_| self.pool().take(self.limb_count(basis) * self.stride())).collect();
        drop(buffers);
    }

    /// Gives the freed buffers that the ring keeps back to the allocator. A device keeps its own: others compute there,
    /// too, and it makes room when there is need.
    pub fn release_idle(&self) {
        self.pool().release_idle();
    }

    // ----- helpers within this crate -----

    pub(crate) fn kernels(&self) -> &'static dyn Kernels {
        self.0.kernels
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.0.pool
    }

    pub(crate) fn stride(&self) -> usize {
        self.degree() + LIMB_PADDING
    }

    pub(crate) fn table(&self, prime: usize) -> &NttTable {
        &self.0.tables[prime]
    }

    pub(crate) fn modulus(&self, prime: usize) -> &Modulus {
        &self.0.tables[prime].modulus
    }

    /// Indices into the ring's tables of the primes of `basis`, in limb order.
    pub(crate) fn prime_indices(&self, basis: Basis) -> impl ExactSizeIterator<Item = usize> + use<> {
        let index = self.prime_index(basis);
        (0..self.limb_count(basis)).map(index)
    }

    /// Gives the index into the ring's tables of the prime of each limb of a polynomial over `basis`.
    pub(crate) fn prime_index(&self, basis: Basis) -> impl Fn(usize) -> usize + use<> {
        let (chain, own) = (basis.chain, basis.chain + basis.terminal);
        let (all, special) = (self.chain().len(), self.chain().len() + self.terminal().len());
        move |limb| match limb {
            limb if limb < chain => limb,
            limb if limb < own => all + limb - chain,
            limb => special + limb - own,
        }
    }

    /// The tables that divisions and decompositions make.
    pub(crate) fn caches(&self) -> &Caches {
        &self.0.caches
    }

    /// For each chain prime the powers of its `2n`-th root of unity, in Montgomery form. Standard ring.
    pub(crate) fn root_powers(&self) -> &[Vec<u32>] {
        self.0.root_powers.get_or_init(|| {
            let step = self.kind().prime_step(self.degree());
            let powers = |prime: usize| {
                let modulus = self.modulus(prime);
                let root = primitive_root_of_unity(modulus, step);
                let next = |&power: &u32| Some(modulus.mul(power, root));
                std::iter::successors(Some(modulus.r), next).take(step as usize).collect()
            };
            (0..self.chain().len()).map(powers).collect()
        })
    }

    /// For each place in orbit order, the position in the evaluation domain: first the positions of `psi^(5^t)`, then
    /// the positions of `psi^(-5^t)`. Standard ring.
    pub(crate) fn orbit_order(&self) -> &[u32] {
        self.0.orbit_order.get_or_init(|| {
            let (n, order) = (self.degree(), 2 * self.degree() as u64);
            let position = |exponent: u64| bit_reverse((exponent / 2) as usize, n.trailing_zeros()) as u32;
            let powers = || std::iter::successors(Some(1u64), move |power| Some(power * 5 % order)).take(n / 2);
            powers().map(position).chain(powers().map(|power| position(order - power))).collect()
        })
    }

    pub(crate) fn permutation(&self, galois: u64) -> Result<Arc<Permutation>, RingError> {
        let order = u64::from(self.kind().prime_step(self.degree()));
        let valid = match self.kind() {
            RingKind::Standard => galois % 2 == 1,
            RingKind::ConjugateInvariant => galois % 4 == 1,
        };
        if !valid || galois >= order {
            return Err(RingError::Galois { found: galois });
        }
        cached(&self.0.permutations, galois, || Ok(Permutation::new(self.degree(), self.kind(), galois)))
    }

    /// An uninitialised polynomial; the caller fills every limb.
    pub(crate) fn blank(&self, basis: Basis, domain: Domain) -> Poly {
        self.poly_of(self.pool().take(self.limb_count(basis) * self.stride()), basis, domain)
    }

    /// A polynomial of these words.
    pub(crate) fn poly_of(&self, words: Words, basis: Basis, domain: Domain) -> Poly {
        let (stride, degree, limbs) = (self.stride(), self.degree(), self.limb_count(basis));
        Poly { words, stride, degree, basis, limbs, domain }
    }

    /// An uninitialised polynomial to be computed from `operands`: secret if one of them is secret. The caller fills
    /// every limb.
    pub(crate) fn blank_from(&self, operands: &[&Poly], basis: Basis, domain: Domain) -> Poly {
        let mut poly = self.blank(basis, domain);
        operands.iter().for_each(|operand| poly.words.inherit(operand.is_secret()));
        poly
    }

    /// Uninitialised memory for intermediate results, wiped after use if they are secret.
    pub(crate) fn scratch(&self, words: usize, secret: bool) -> Words {
        let mut scratch = self.pool().take(words);
        scratch.inherit(secret);
        scratch
    }

    /// Runs `work(limb position, prime index, limb)` over all limbs, on several threads if the polynomial is large.
    pub(crate) fn for_each_limb(&self, poly: &mut Poly, work: impl Fn(usize, usize, &mut [u32]) + Sync + Send) {
        self.for_each_limb_with(poly, || (), |(), i, prime, limb| work(i, prime, limb));
    }

    /// As [`Ring::for_each_limb`], with a mutable state that `init` makes and `work` may change. Each thread makes its
    /// own states when it needs them.
    pub(crate) fn for_each_limb_with<T>(
        &self,
        poly: &mut Poly,
        init: impl Fn() -> T + Sync + Send,
        work: impl Fn(&mut T, usize, usize, &mut [u32]) + Sync + Send,
    ) {
        let (degree, stride, limbs, basis) = (poly.degree, poly.stride, poly.limbs, poly.basis);
        let index = self.prime_index(basis);
        let secret = poly.is_secret();
        let words = &mut poly.words[..limbs * stride];
        let run = |state: &mut T, (i, limb): (usize, &mut [u32])| {
            work(state, i, index(i), &mut limb[..degree]);
            if secret {
                zeroize_stack::<SPILLED_BYTES>();
            }
        };
        if limbs * degree >= PARALLEL_WORDS && limbs > 1 {
            words.par_chunks_mut(stride).enumerate().for_each_init(&init, run);
        } else {
            let mut state = init();
            words.chunks_mut(stride).enumerate().for_each(|limb| run(&mut state, limb));
        }
    }

    // ----- checks -----

    /// Checks that a polynomial was made by this ring object. A polynomial of another ring object with the same literal
    /// is refused, too.
    ///
    /// # Errors
    /// [`RingError::ForeignOperand`] if it was not.
    pub fn check_own(&self, operation: &'static str, poly: &Poly) -> Result<(), RingError> {
        self.check_words(operation, &poly.words)
    }

    /// Checks that words belong to this ring and still exist: a device that failed has lost the words that it alone
    /// had.
    pub(crate) fn check_words(&self, operation: &'static str, words: &Words) -> Result<(), RingError> {
        if !words.belongs_to(self.pool()) {
            return Err(RingError::ForeignOperand { operation });
        }
        let device = self.device().filter(|_| !words.is_here());
        Ok(device.map_or(Ok(()), Device::check)?)
    }

    pub(crate) fn check_domain(&self, operation: &'static str, poly: &Poly, needed: Domain) -> Result<(), RingError> {
        self.check_own(operation, poly)?;
        if poly.domain == needed { Ok(()) } else { Err(RingError::Domain { operation, found: poly.domain, needed }) }
    }

    /// Checks that a polynomial is in the evaluation domain and over these primes.
    pub(crate) fn check_values(&self, operation: &'static str, poly: &Poly, needed: Basis) -> Result<(), RingError> {
        self.check_domain(operation, poly, Domain::Evaluation)?;
        let found = poly.basis;
        if found == needed { Ok(()) } else { Err(RingError::Basis { operation, found, needed }) }
    }

    /// Checks that the ring is the standard one.
    pub(crate) fn check_standard(&self, operation: &'static str) -> Result<(), RingError> {
        let needed = RingKind::Standard;
        if self.kind() == needed { Ok(()) } else { Err(RingError::Kind { operation, needed }) }
    }
}

/// Number of primes of [`Special::Short`], for `special` special primes: 0.45 of them, rounded up. With more, the
/// lowest levels gain less; with fewer, fewer levels gain.
const fn short_special(special: usize) -> usize {
    (9 * special).div_ceil(20)
}

/// The entry of a cache, made if there is none.
pub(crate) fn cached<K: std::hash::Hash + Eq + Copy, V, E>(
    cache: &RwLock<HashMap<K, Arc<V>>>,
    key: K,
    make: impl FnOnce() -> Result<V, E>,
) -> Result<Arc<V>, E> {
    if let Some(found) = cache.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return Ok(Arc::clone(found));
    }
    let made = Arc::new(make()?);
    Ok(Arc::clone(cache.write().unwrap_or_else(PoisonError::into_inner).entry(key).or_insert(made)))
}
