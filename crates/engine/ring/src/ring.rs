//! The ring: its primes and tables, and the element-wise arithmetic of its polynomials.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use rayon::prelude::*;
use zeroize::zeroize_stack;

use unspoken_device::{Device, kernel};

use crate::automorphism::Permutation;
use crate::device::{DeviceRing, On};
use crate::division::DivisionTable;
use crate::error::RingError;
use crate::gadget::DecompositionTable;
use crate::kernels::{Backend, Kernels};
use crate::memory::{Pool, Words};
use crate::modular::{Modulus, Shoup, is_prime, primitive_root_of_unity};
use crate::ntt::{NttTable, RingKind, bit_reverse};
use crate::poly::{Basis, Domain, Poly, Special, in_blocks};
use crate::sampling::Seed;

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

/// Most special primes.
const MAX_SPECIAL: usize = 16;

/// Most terminal primes.
const MAX_TERMINAL: usize = 8;

/// The numbers that define a [`Ring`]; checked when the ring is built.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RingLiteral {
    /// Degree `n`, a power of two from 2^9 to 2^17.
    pub degree: usize,
    /// Standard or conjugate-invariant.
    pub kind: RingKind,
    /// The chain `q_0, q_1, ...`; polynomials are over prefixes of it.
    pub chain: Vec<u32>,
    /// Smaller primes, at most 8, which are multiplied in and divided out again so that the moduli of successive levels
    /// may have any ratio: a basis has the first few of them. May be empty.
    pub terminal: Vec<u32>,
    /// The special primes of key-switching, at most 16; may be empty.
    pub special: Vec<u32>,
    /// Number of primes that form one digit of the gadget decomposition: first the terminal primes, then the chain
    /// primes.
    pub digit_len: usize,
}

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
    divisions: RwLock<HashMap<(Basis, Basis), Arc<DivisionTable>>>,
    decompositions: RwLock<HashMap<Basis, Arc<DecompositionTable>>>,
    root_powers: OnceLock<Vec<Vec<u32>>>,
    orbit_order: OnceLock<Vec<u32>>,
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
        check(&literal)?;
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
            divisions: RwLock::default(),
            decompositions: RwLock::default(),
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
    fn prime_index(&self, basis: Basis) -> impl Fn(usize) -> usize + use<> {
        let (chain, own) = (basis.chain, basis.chain + basis.terminal);
        let (all, special) = (self.chain().len(), self.chain().len() + self.terminal().len());
        move |limb| match limb {
            limb if limb < chain => limb,
            limb if limb < own => all + limb - chain,
            limb => special + limb - own,
        }
    }

    pub(crate) fn division(&self, from: Basis, to: Basis) -> Arc<DivisionTable> {
        let make = || Ok::<_, Infallible>(DivisionTable::new(self, from, to));
        let Ok(table) = cached(&self.0.divisions, (from, to), make);
        table
    }

    pub(crate) fn decomposition(&self, basis: Basis) -> Arc<DecompositionTable> {
        let make = || Ok::<_, Infallible>(DecompositionTable::new(self, basis));
        let Ok(table) = cached(&self.0.decompositions, basis, make);
        table
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

    /// `b` may be over more primes than `a`: the surplus limbs are ignored.
    fn check_pair(&self, operation: &'static str, a: &Poly, b: &Poly) -> Result<(), RingError> {
        self.check_own(operation, a)?;
        self.check_domain(operation, b, a.domain)?;
        if a.basis == b.basis || (a.basis.special == b.basis.special && b.basis.contains(a.basis)) {
            Ok(())
        } else {
            Err(RingError::Basis { operation, found: b.basis, needed: a.basis })
        }
    }

    // ----- construction of polynomials -----

    /// The zero polynomial.
    pub fn zero(&self, basis: Basis, domain: Domain) -> Poly {
        let mut poly = self.blank(basis, domain);
        self.for_each_limb(&mut poly, |_, _, limb| limb.fill(0));
        poly
    }

    /// A uniform polynomial in the evaluation domain, expanded from stream `stream` of a public seed.
    pub fn uniform(&self, seed: &Seed, stream: u32, basis: Basis) -> Poly {
        let mut poly = self.blank(basis, Domain::Evaluation);
        self.for_each_limb(&mut poly, |_, prime, limb| {
            seed.fill_uniform(self.kernels(), stream, self.modulus(prime).q, limb)
        });
        poly
    }

    /// The same polynomial over fewer primes.
    ///
    /// # Errors
    /// If `basis` is not contained in the polynomial's.
    pub fn restricted(&self, poly: &Poly, basis: Basis) -> Result<Poly, RingError> {
        self.check_own("restrict", poly)?;
        let found = poly.basis;
        if !found.contains(basis) {
            return Err(RingError::Basis { operation: "restrict", found, needed: basis });
        }
        if let Some(on) = self.on() {
            return on.unary(self, kernel::COPY, poly, basis);
        }
        let mut result = self.blank_from(&[poly], basis, poly.domain);
        self.for_each_limb(&mut result, |i, _, limb| limb.copy_from_slice(poly.limb_over(basis, i)));
        Ok(result)
    }

    /// `poly(X^k)` for a polynomial of another ring, whose degree is this ring's degree divided by `k` and whose chain
    /// begins with the same primes. Coefficient domain in and out; chain primes alone.
    ///
    /// # Errors
    /// If the rings do not fit each other, or the polynomial's domain or basis is not as described.
    pub fn embed_from(&self, from: &Ring, poly: &Poly) -> Result<Poly, RingError> {
        const OPERATION: &str = "embed into a larger ring";
        from.check_domain(OPERATION, poly, Domain::Coefficient)?;
        let (found, needed) = (poly.basis(), Basis::chain(poly.basis().chain));
        if found != needed {
            return Err(RingError::Basis { operation: OPERATION, found, needed });
        }
        let same_primes = self.chain().get(..found.chain) == from.chain().get(..found.chain);
        let standard = self.kind() == RingKind::Standard && from.kind() == RingKind::Standard;
        if !same_primes || !standard || !self.degree().is_multiple_of(from.degree()) {
            return Err(RingError::ForeignOperand { operation: OPERATION });
        }
        if let Some(on) = self.on_with(from) {
            return on.embed(self, poly);
        }
        let poly = &*from.here(poly)?;
        let step = self.degree() / from.degree();
        let mut result = self.blank_from(&[poly], found, Domain::Coefficient);
        self.for_each_limb(&mut result, |i, _, limb| {
            limb.fill(0);
            limb.iter_mut().step_by(step).zip(poly.limb(i)).for_each(|(target, source)| *target = *source);
        });
        Ok(result)
    }

    // ----- transforms -----

    /// Transforms to the evaluation domain, in place. No effect on a polynomial that is already in this domain.
    pub fn to_evaluation(&self, poly: &mut Poly) -> Result<(), RingError> {
        self.check_own("to_evaluation", poly)?;
        if poly.domain == Domain::Evaluation {
            return Ok(());
        }
        if let Some(on) = self.on() {
            return on.to_evaluation(self, poly);
        }
        poly.domain = Domain::Evaluation;
        self.for_each_limb(poly, |_, prime, limb| {
            let table = self.table(prime);
            self.kernels().scale_assign(&table.modulus, limb, table.modulus.shoup(table.modulus.r));
            self.forward(prime, &mut [limb]);
        });
        Ok(())
    }

    /// Transforms to the coefficient domain, in place. No effect on a polynomial that is already in this domain.
    pub fn to_coefficients(&self, poly: &mut Poly) -> Result<(), RingError> {
        self.check_own("to_coefficients", poly)?;
        if poly.domain == Domain::Coefficient {
            return Ok(());
        }
        if let Some(on) = self.on() {
            return on.to_coefficients(self, poly);
        }
        poly.domain = Domain::Coefficient;
        self.for_each_limb(poly, |_, prime, limb| {
            let table = self.table(prime);
            let scale = table.modulus.from_montgomery(table.degree_inverse);
            self.kernels().ntt_inverse(table, limb, table.modulus.shoup(scale));
            self.unfold(prime, limb);
        });
        Ok(())
    }

    /// Forward transform of coefficient limbs that are already in Montgomery form.
    pub(crate) fn forward(&self, prime: usize, limbs: &mut [&mut [u32]]) {
        let table = self.table(prime);
        if self.kind() == RingKind::ConjugateInvariant {
            let imaginary = table.modulus.shoup(table.imaginary);
            limbs.iter_mut().for_each(|limb| self.kernels().fold(&table.modulus, imaginary, limb));
        }
        self.kernels().ntt_forward(table, limbs);
    }

    /// Undoes the fold of the conjugate-invariant ring after an inverse transform.
    pub(crate) fn unfold(&self, prime: usize, limb: &mut [u32]) {
        if self.kind() == RingKind::ConjugateInvariant {
            let table = self.table(prime);
            self.kernels().unfold(&table.modulus, table.modulus.shoup(table.imaginary), limb);
        }
    }

    // ----- arithmetic -----

    /// `a + b` over the basis of `a`. `b` may be over more primes than `a`.
    pub fn add(&self, a: &Poly, b: &Poly) -> Result<Poly, RingError> {
        self.check_pair("add", a, b)?;
        if let Some(on) = self.on() {
            return on.binary(self, kernel::SUM, a, b);
        }
        let mut sum = self.blank_from(&[a, b], a.basis, a.domain);
        self.for_each_limb(&mut sum, |i, prime, limb| {
            let (modulus, b) = (self.modulus(prime), b.limb_over(a.basis, i));
            in_blocks(limb, a.limb(i), |limb, block| self.kernels().add_assign(modulus, limb, &b[block]));
        });
        Ok(sum)
    }

    /// `a - b` over the basis of `a`. `b` may be over more primes than `a`.
    pub fn sub(&self, a: &Poly, b: &Poly) -> Result<Poly, RingError> {
        self.check_pair("subtract", a, b)?;
        if let Some(on) = self.on() {
            return on.binary(self, kernel::DIFFERENCE, a, b);
        }
        let mut difference = self.blank_from(&[a, b], a.basis, a.domain);
        self.for_each_limb(&mut difference, |i, prime, limb| {
            let (modulus, b) = (self.modulus(prime), b.limb_over(a.basis, i));
            in_blocks(limb, a.limb(i), |limb, block| self.kernels().sub_assign(modulus, limb, &b[block]));
        });
        Ok(difference)
    }

    /// `a * b` over the basis of `a`, in the evaluation domain. `b` may be over more primes than `a`.
    pub fn mul(&self, a: &Poly, b: &Poly) -> Result<Poly, RingError> {
        self.check_domain("multiply", a, Domain::Evaluation)?;
        self.check_pair("multiply", a, b)?;
        if let Some(on) = self.on() {
            return on.binary(self, kernel::PRODUCT, a, b);
        }
        let mut product = self.blank_from(&[a, b], a.basis, a.domain);
        self.for_each_limb(&mut product, |i, prime, limb| {
            let (modulus, b) = (self.modulus(prime), b.limb_over(a.basis, i));
            in_blocks(limb, a.limb(i), |limb, block| self.kernels().mul_assign(modulus, limb, &b[block]));
        });
        Ok(product)
    }

    /// `a += b`. `b` may be over more primes than `a`.
    pub fn add_assign(&self, a: &mut Poly, b: &Poly) -> Result<(), RingError> {
        self.check_pair("add", a, b)?;
        a.words.inherit(b.is_secret());
        let basis = a.basis;
        if let Some(on) = self.on() {
            return on.binary_assign(self, kernel::SUM, a, b);
        }
        self.for_each_limb(a, |i, prime, limb| {
            self.kernels().add_assign(self.modulus(prime), limb, b.limb_over(basis, i));
        });
        Ok(())
    }

    /// `a -= b`. `b` may be over more primes than `a`.
    pub fn sub_assign(&self, a: &mut Poly, b: &Poly) -> Result<(), RingError> {
        self.check_pair("subtract", a, b)?;
        a.words.inherit(b.is_secret());
        let basis = a.basis;
        if let Some(on) = self.on() {
            return on.binary_assign(self, kernel::DIFFERENCE, a, b);
        }
        self.for_each_limb(a, |i, prime, limb| {
            self.kernels().sub_assign(self.modulus(prime), limb, b.limb_over(basis, i));
        });
        Ok(())
    }

    /// `a = -a`.
    pub fn neg_assign(&self, a: &mut Poly) -> Result<(), RingError> {
        self.check_own("negate", a)?;
        if let Some(on) = self.on() {
            return on.unary_assign(self, kernel::NEGATIVE, a);
        }
        self.for_each_limb(a, |_, prime, limb| self.kernels().neg_assign(self.modulus(prime), limb));
        Ok(())
    }

    /// `a *= b` in the evaluation domain. `b` may be over more primes than `a`.
    pub fn mul_assign(&self, a: &mut Poly, b: &Poly) -> Result<(), RingError> {
        self.check_domain("multiply", a, Domain::Evaluation)?;
        self.check_pair("multiply", a, b)?;
        a.words.inherit(b.is_secret());
        let basis = a.basis;
        if let Some(on) = self.on() {
            return on.binary_assign(self, kernel::PRODUCT, a, b);
        }
        self.for_each_limb(a, |i, prime, limb| {
            self.kernels().mul_assign(self.modulus(prime), limb, b.limb_over(basis, i));
        });
        Ok(())
    }

    /// `acc += a * b` in the evaluation domain. `a` and `b` may have more chain primes than `acc`.
    pub fn mul_add_assign(&self, acc: &mut Poly, a: &Poly, b: &Poly) -> Result<(), RingError> {
        self.check_domain("multiply-add", acc, Domain::Evaluation)?;
        self.check_pair("multiply-add", acc, a)?;
        self.check_pair("multiply-add", acc, b)?;
        acc.words.inherit(a.is_secret() || b.is_secret());
        if let Some(on) = self.on() {
            return on.add_product(self, acc, a, b);
        }
        let basis = acc.basis;
        self.for_each_limb(acc, |i, prime, limb| {
            let (a, b) = (a.limb_over(basis, i), b.limb_over(basis, i));
            self.kernels().mul_add_assign(self.modulus(prime), limb, a, b);
        });
        Ok(())
    }

    /// The tensor product `(a0 b0, a0 b1 + a1 b0, a1 b1)` over `basis`, in the evaluation domain. The operands may be
    /// over more primes.
    pub fn tensor(&self, a: [&Poly; 2], b: [&Poly; 2], basis: Basis) -> Result<[Poly; 3], RingError> {
        for operand in a.into_iter().chain(b) {
            self.check_domain("tensor product", operand, Domain::Evaluation)?;
            if !operand.basis.contains(basis) {
                return Err(RingError::Basis { operation: "tensor product", found: operand.basis, needed: basis });
            }
        }
        if let Some(on) = self.on() {
            return on.tensor(self, a, b, basis);
        }
        let operands = [a[0], a[1], b[0], b[1]];
        let mut out: [Poly; 3] = std::array::from_fn(|_| self.blank_from(&operands, basis, Domain::Evaluation));
        let [d0, d1, d2] = &mut out;
        let stride = self.stride();
        let limbs =
            d0.words.par_chunks_mut(stride).zip(d1.words.par_chunks_mut(stride)).zip(d2.words.par_chunks_mut(stride));
        let (n, index) = (self.degree(), self.prime_index(basis));
        limbs.enumerate().for_each(|(i, ((d0, d1), d2))| {
            self.kernels().tensor(
                self.modulus(index(i)),
                a.map(|p| p.limb_over(basis, i)),
                b.map(|p| p.limb_over(basis, i)),
                [&mut d0[..n], &mut d1[..n], &mut d2[..n]],
            );
        });
        Ok(out)
    }

    /// `a *= factor` for an integer factor.
    pub fn scale_assign(&self, a: &mut Poly, factor: i128) -> Result<(), RingError> {
        self.check_own("scale", a)?;
        if let Some(on) = self.on() {
            return on.scale_assign(self, a, factor);
        }
        self.for_each_limb(a, |_, prime, limb| {
            let modulus = self.modulus(prime);
            self.kernels().scale_assign(modulus, limb, modulus.shoup(modulus.from_i128(factor)));
        });
        Ok(())
    }

    /// `sum_i factor_i * poly_i` over `basis`, for integer factors. The polynomials may be over more primes.
    ///
    /// # Errors
    /// If there are no terms, or a polynomial is of another ring, in another domain than the first or lacks primes.
    pub fn sum_of_multiples(&self, terms: &[(&Poly, i128)], basis: Basis) -> Result<Poly, RingError> {
        const OPERATION: &str = "sum of multiples";
        let Some(((first, factor), others)) = terms.split_first() else {
            return Err(RingError::Length { what: "the terms of a sum", found: 0, needed: "at least one" });
        };
        for (poly, _) in terms {
            self.check_domain(OPERATION, poly, first.domain)?;
            if !poly.basis.contains(basis) {
                return Err(RingError::Basis { operation: OPERATION, found: poly.basis, needed: basis });
            }
        }
        if let Some(on) = self.on() {
            return on.sum_of_multiples(self, terms, basis);
        }
        let mut sum = self.blank(basis, first.domain);
        sum.words.inherit(terms.iter().any(|(poly, _)| poly.is_secret()));
        self.for_each_limb(&mut sum, |i, prime, limb| {
            let (kernels, modulus) = (self.kernels(), self.modulus(prime));
            let word = |factor: i128| modulus.shoup(modulus.from_i128(factor));
            let others: Vec<(&[u32], Shoup)> = others.iter().map(|(p, f)| (p.limb_over(basis, i), word(*f))).collect();
            in_blocks(limb, first.limb_over(basis, i), |limb, block| {
                kernels.scale_assign(modulus, limb, word(*factor));
                for (poly, factor) in &others {
                    kernels.add_scaled_assign(modulus, limb, &poly[block.clone()], *factor);
                }
            });
        });
        Ok(sum)
    }

    /// `a *= X^(n/2)`, which multiplies every complex slot by `i`. Standard ring, evaluation domain.
    pub fn mul_imaginary_assign(&self, a: &mut Poly) -> Result<(), RingError> {
        self.check_domain("multiply by i", a, Domain::Evaluation)?;
        if self.kind() != RingKind::Standard {
            return Err(RingError::Galois { found: self.degree() as u64 / 2 });
        }
        if let Some(on) = self.on() {
            return on.unary_assign(self, kernel::TIMES_IMAGINARY, a);
        }
        self.for_each_limb(a, |_, prime, limb| {
            let table = self.table(prime);
            let (low, high) = limb.split_at_mut(limb.len() / 2);
            let modulus = &table.modulus;
            self.kernels().scale_assign(modulus, low, modulus.shoup(table.imaginary));
            self.kernels().scale_assign(modulus, high, modulus.shoup(modulus.neg(table.imaginary)));
        });
        Ok(())
    }

    /// Adds the constant polynomial `constant` (an integer). Evaluation domain.
    pub fn add_constant_assign(&self, a: &mut Poly, constant: i128) -> Result<(), RingError> {
        self.check_domain("add a constant", a, Domain::Evaluation)?;
        if let Some(on) = self.on() {
            return on.add_constant(self, a, constant);
        }
        self.for_each_limb(a, |_, prime, limb| {
            let modulus = self.modulus(prime);
            let residue = modulus.to_montgomery(modulus.from_i128(constant));
            self.kernels().add_word_assign(modulus, limb, residue);
        });
        Ok(())
    }

    /// The image under `X -> X^galois`, in the polynomial's domain.
    ///
    /// # Errors
    /// If the map is no automorphism: `galois` must be odd (1 modulo 4 in the conjugate-invariant ring) and below the
    /// order of the ring's root of unity.
    pub fn automorphism(&self, poly: &Poly, galois: u64) -> Result<Poly, RingError> {
        self.check_own("automorphism", poly)?;
        if poly.domain == Domain::Coefficient {
            return self.coefficient_automorphism(poly, galois);
        }
        let permutation = self.permutation(galois)?;
        if let Some(on) = self.on() {
            return on.automorphisms(self, poly, &[galois]);
        }
        let mut result = self.blank_from(&[poly], poly.basis, Domain::Evaluation);
        self.for_each_limb(&mut result, |i, _, limb| self.kernels().permute(&permutation, poly.limb(i), limb));
        Ok(result)
    }
}

impl Ring {
    /// Coefficient `i` moves to `i * galois`, with the sign of `X^n = -1`; in the conjugate-invariant ring `X^i + X^-i`
    /// moves to `X^(i galois) + X^(-i galois)`.
    fn coefficient_automorphism(&self, poly: &Poly, galois: u64) -> Result<Poly, RingError> {
        self.permutation(galois)?;
        if let Some(on) = self.on() {
            return on.coefficient_map(self, poly, galois as u32, 0);
        }
        let n = self.degree() as u64;
        let half = u64::from(self.kind().prime_step(self.degree())) / 2;
        let mut result = self.blank_from(&[poly], poly.basis, Domain::Coefficient);
        self.for_each_limb(&mut result, |i, prime, limb| {
            let modulus = self.modulus(prime);
            for (k, &coefficient) in poly.limb(i).iter().enumerate() {
                // X^half = -1; in the conjugate-invariant ring, where half = 2n, X^e = -X^-(2n - e).
                let exponent = k as u64 * galois % (2 * half);
                let (mut exponent, mut negative) = (exponent % half, exponent >= half);
                if exponent > n {
                    (exponent, negative) = (half - exponent, !negative);
                }
                limb[exponent as usize] = if negative { modulus.neg(coefficient) } else { coefficient };
            }
        });
        Ok(result)
    }
}

/// Number of primes of [`Special::Short`], for `special` special primes: 0.45 of them, rounded up. With more, the
/// lowest levels gain less; with fewer, fewer levels gain.
const fn short_special(special: usize) -> usize {
    (9 * special).div_ceil(20)
}

fn check(literal: &RingLiteral) -> Result<(), RingError> {
    let RingLiteral { degree, kind, chain, terminal, special, digit_len } = literal;
    if !degree.is_power_of_two() || !(1 << 9..=1 << 17).contains(degree) {
        return Err(RingError::Degree { found: *degree });
    }
    let step = kind.prime_step(*degree);
    let mut seen = std::collections::HashSet::new();
    for &q in chain.iter().chain(terminal).chain(special) {
        if q >= crate::modular::PRIME_LIMIT || q % step != 1 || !is_prime(q) || !seen.insert(q) {
            return Err(RingError::Prime { found: q, step });
        }
    }
    let lengths = [
        ("the chain", chain.len(), 1..=1024, "1 to 1024"),
        (
            "the list of terminal primes",
            terminal.len(),
            0..=MAX_TERMINAL.min(digit_len.saturating_sub(1)),
            "0 to 8, fewer than a digit",
        ),
        ("the list of special primes", special.len(), 0..=MAX_SPECIAL, "0 to 16"),
        ("a digit", *digit_len, 1..=chain.len().max(1), "1 to the chain's length"),
    ];
    for (what, found, range, needed) in lengths {
        if !range.contains(&found) {
            return Err(RingError::Length { what, found, needed });
        }
    }
    Ok(())
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
