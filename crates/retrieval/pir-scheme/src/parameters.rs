//! Parameter sets: the ring of the computation, the keys of the kinds of queries, the ring of responses.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use unspoken_gsw::{
    BootstrapLiteral, BootstrapParameters, GadgetLiteral, LweLiteral, LweSwitchKey, Noise, SmallRing, digit_square,
    log2_failure, log2_failure_of_shared,
};
use unspoken_ring::{Backend, Basis, Device, DigitGadget, ERROR_SIGMA, Ring, RingKind, RingLiteral};
use unspoken_rlwe::INSECURE_PREFIX;

use crate::error::SchemeError;
use crate::mode::Mode;
use crate::shape::{DatabaseShape, MAX_INDEX_BITS};

/// Largest `log2` of the probability that a query fails.
pub const MAX_LOG2_FAILURE: f64 = -40.0;

/// The ring of responses. Its degree divides the degree of the computation's ring; its secrets and errors are Gaussian
/// with the same deviation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseLiteral {
    /// Degree of the ring.
    pub degree: usize,
    /// Modulus, a prime.
    pub prime: u32,
    /// Gadget of the switch to this ring.
    pub gadget: GadgetLiteral,
    /// Bits that the first component is rounded to.
    pub body_bits: u32,
}

/// The numbers that define a parameter set. [`PirParameters::new`] checks them.
#[derive(Clone, Debug, PartialEq)]
pub struct PirLiteral {
    /// Parameters of circuit bootstrapping, from an encrypted bit to an RGSW ciphertext. Its ring is the ring of the
    /// whole computation.
    pub bootstrap: BootstrapLiteral,
    /// The LWE secret of compact queries: its words are the coefficients of a secret of the same ring.
    pub compact: LweLiteral,
    /// Gadget of the switch from compact queries to the secret of the bootstrap.
    pub compact_switch: GadgetLiteral,
    /// The ring of responses.
    pub response: ResponseLiteral,
    /// Gadget of the bits of an index that select a column and a place. The errors of these bits add to the errors of a
    /// sum over rows. The bits that select a row have the gadget of results of the bootstrap: a sum over rows
    /// multiplies their errors.
    pub selection: GadgetLiteral,
    /// Bits of a record in each coefficient.
    pub plaintext_bits: u32,
    /// Maximum bits of an index that select a row of the table.
    pub row_bits: u32,
    /// Bits that the bodies of queries with a word for each bit are rounded to.
    pub bit_body_bits: u32,
}

/// Checked parameters. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PirParameters(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    literal: PirLiteral,
    fingerprint: [u8; 16],
    bootstrap: BootstrapParameters,
    response: Ring,
    response_gadget: DigitGadget,
    selection: DigitGadget,
    /// The same on the processor, if these are on a device.
    host: Option<PirParameters>,
    /// The same on devices, as long as they are in use.
    placed: Mutex<Vec<(Device, Weak<Inner>)>>,
}

/// Errors and secrets in the ring of responses are sums of Gaussians of deviation [`ERROR_SIGMA`] with these weights.
pub(crate) const RESPONSE_WEIGHTS: [i32; 10] = [1, 2, 4, 8, 16, 32, 64, 29, 4, 2];

/// The parameters that were checked with the lattice estimator: degree, `log2` of the modulus over the deviation of
/// errors, bits of security.
pub(crate) const RESPONSE_CHECKED: (usize, f64, f64) = (512, 16.0122, 149.7);

impl PirParameters {
    /// Checks the literal.
    ///
    /// # Errors
    /// If a ring or a gadget cannot be built, or anything has less than 128 bits of security.
    pub fn new(literal: PirLiteral) -> Result<Self, SchemeError> {
        Self::with_backend(literal, Backend::detect())
    }

    /// As [`PirParameters::new`], with a given backend.
    ///
    /// # Errors
    /// As for [`PirParameters::new`].
    pub fn with_backend(literal: PirLiteral, backend: Backend) -> Result<Self, SchemeError> {
        let bootstrap = BootstrapParameters::with_backend(literal.bootstrap.clone(), backend)?;
        let ring = bootstrap.ring();
        let selection = ring.gadget(literal.selection)?;
        if selection.log2_weight(0) == 0 {
            let (name, what) = (ring.name(), "lowest bit of the gadget of selections");
            return Err(SchemeError::Parameters { name, what, found: 0.0, needed: 1.0 });
        }
        // Half a unit of a rounded body must be less than a bootstrap tolerates.
        let blocks = [bootstrap.output(), selection].map(BootstrapParameters::blocks);
        let least = (2 * blocks[0].max(blocks[1])).ilog2() + 1;
        if !(least..u32::BITS).contains(&literal.bit_body_bits) {
            let (name, what) = (ring.name(), "bits of a body of bits queries");
            let (found, needed) = (f64::from(literal.bit_body_bits), f64::from(least));
            return Err(SchemeError::Parameters { name, what, found, needed });
        }
        SmallRing::check_lwe(ring.name(), literal.compact)?;
        let ResponseLiteral { degree, prime, gadget, .. } = literal.response;
        let kind = RingKind::Standard;
        let response =
            RingLiteral { degree, kind, chain: vec![prime], terminal: vec![], special: vec![], digit_len: 1 };
        let response = Ring::new(response, backend)?;
        let ratio = f64::from(prime).log2() - response_sigma().log2();
        let (checked, most, _) = RESPONSE_CHECKED;
        let name = ring.name();
        if degree < checked || ratio > most {
            return Err(SchemeError::Parameters {
                name,
                what: "log2 q/sigma of responses",
                found: ratio,
                needed: most,
            });
        }
        let response_gadget = response.digit_gadget(1, gadget.log2_base, gadget.levels)?;
        let fingerprint = fingerprint(&literal);
        Ok(PirParameters(Arc::new(Inner {
            literal,
            fingerprint,
            bootstrap,
            response,
            response_gadget,
            selection,
            host: None,
            placed: Mutex::default(),
        })))
    }

    /// The same parameters with the ring of the computation on a device: for services, which have no secrets. The ring
    /// of responses stays on the processor. All calls for one device return the same object, as long as it is in use:
    /// keys and tables of one object cannot be used with another.
    ///
    /// # Errors
    /// If the device has too little memory or failed.
    pub fn on_device(&self, device: &Device) -> Result<Self, SchemeError> {
        let Inner { literal, fingerprint, response, response_gadget, selection, placed, .. } = &*self.host().0;
        // What is there is whole even if a thread panicked.
        let mut placed = placed.lock().unwrap_or_else(PoisonError::into_inner);
        placed.retain(|(_, there)| there.strong_count() > 0);
        let found = placed.iter().find(|(known, _)| known.is_same(device)).and_then(|(_, there)| there.upgrade());
        if let Some(there) = found {
            return Ok(PirParameters(there));
        }
        let there = Arc::new(Inner {
            literal: literal.clone(),
            fingerprint: *fingerprint,
            bootstrap: self.host().bootstrap().on_device(device)?,
            response: response.clone(),
            response_gadget: *response_gadget,
            selection: *selection,
            host: Some(self.host().clone()),
            placed: Mutex::default(),
        });
        placed.push((device.clone(), Arc::downgrade(&there)));
        Ok(PirParameters(there))
    }

    /// The same parameters on the processor.
    pub(crate) fn host(&self) -> &PirParameters {
        self.0.host.as_ref().unwrap_or(self)
    }

    /// Name of the parameter set.
    pub fn name(&self) -> &'static str {
        self.ring().name()
    }

    /// Whether the set may have less than 128 bits of security. Only tests and benchmarks accept such sets.
    pub fn is_insecure(&self) -> bool {
        self.name().starts_with(INSECURE_PREFIX)
    }

    /// Hash of all numbers that client and server must share.
    pub fn fingerprint(&self) -> [u8; 16] {
        self.0.fingerprint
    }

    /// The numbers of the parameter set.
    pub fn literal(&self) -> &PirLiteral {
        &self.0.literal
    }

    /// Parameters of circuit bootstrapping, from an encrypted bit to an RGSW ciphertext.
    pub fn bootstrap(&self) -> &BootstrapParameters {
        &self.0.bootstrap
    }

    /// The ring of the computation.
    pub fn ring(&self) -> &SmallRing {
        self.0.bootstrap.ring()
    }

    /// Gives memory that computations keep for later ones back to the allocator.
    pub fn release_idle(&self) {
        self.ring().release_idle();
        self.response().release_idle();
    }

    /// The ring of responses.
    pub fn response(&self) -> &Ring {
        &self.0.response
    }

    pub(crate) fn response_gadget(&self) -> DigitGadget {
        self.0.response_gadget
    }

    /// The gadget of each bit of an index, the lowest first.
    pub(crate) fn gadgets(&self, shape: DatabaseShape) -> Vec<DigitGadget> {
        let bits = shape.index_bits();
        let of_rows = |&bit: &u32| bit >= bits - shape.row_bits;
        (0..bits).map(|bit| if of_rows(&bit) { self.bootstrap().output() } else { self.0.selection }).collect()
    }

    pub(crate) fn response_basis(&self) -> Basis {
        Basis::chain(1)
    }

    /// Pieces of records in an entry of the table: the degree of the computation's ring divided by the degree of the
    /// ring of responses.
    pub fn pieces(&self) -> usize {
        self.ring().degree() / self.response().degree()
    }

    /// Bytes of a piece.
    pub fn piece_bytes(&self) -> usize {
        self.response().degree() * self.0.literal.plaintext_bits as usize / 8
    }

    /// Scale of a unit of a record in the computation: `Q` divided by the plaintext modulus, rounded.
    pub(crate) fn delta(&self) -> i128 {
        self.scale(self.0.literal.plaintext_bits)
    }

    /// Scale of a unit of data of `plaintext_bits` bits: `Q` divided by the plaintext modulus, rounded.
    pub(crate) fn scale(&self, plaintext_bits: u32) -> i128 {
        let product: i128 = self.ring().chain().iter().map(|&q| i128::from(q)).product();
        let modulus = 1i128 << plaintext_bits;
        (product + modulus / 2) / modulus
    }

    /// Predicted noise of the phase of a response, as a fraction of the modulus, for a table of a shape.
    pub fn response_noise(&self, shape: DatabaseShape) -> Noise {
        self.selection_noise(shape).plus(self.switch_noise())
    }

    /// Noise of a row's selector. The noise of a product is added to one child and subtracted from the other, and
    /// passes from each to one child on average: a selector has the noise of two products on average.
    pub(crate) fn selector_noise(&self) -> Noise {
        Noise::bootstrapped_product(self.bootstrap()).times(2.0)
    }

    /// Noise of a sum over rows: the coefficients of selectors multiply the coefficients of the rows' entries. The
    /// errors of selectors are proportional to the secret. Half of the secret's second moment comes from its mean, and
    /// balanced entries have little weight at the frequencies of the mean.
    pub(crate) fn rows_noise(&self, shape: DatabaseShape) -> Noise {
        /// Effective second moment of the secret. It is more than half because entries have some weight at the mean,
        /// and because some products affect one row only.
        const SECRET: f64 = 0.57;
        let units = (shape.rows * self.ring().degree()) as f64 * digit_square(self.0.literal.plaintext_bits);
        self.selector_noise().times(units * SECRET)
    }

    /// Noise above which a response is rejected: one and a half times the largest standard deviation for any table.
    pub(crate) fn unreadable(&self) -> Noise {
        let literal = self.literal();
        let (row_bits, rows) = (literal.row_bits, 1 << literal.row_bits);
        let column_bits = MAX_INDEX_BITS - row_bits;
        self.response_noise(DatabaseShape { pieces: 0, row_bits, column_bits, piece_bits: 0, rows }).times(2.25)
    }

    /// Noise of a selected piece: of the sums over rows, and of selecting the column and the place.
    pub(crate) fn selection_noise(&self, shape: DatabaseShape) -> Noise {
        self.rows_noise(shape).plus(self.choice_noise().times(f64::from(shape.column_bits + shape.piece_bits)))
    }

    /// Noise that the choice between two halves of the columns or of the places adds.
    pub(crate) fn choice_noise(&self) -> Noise {
        Noise::rgsw_product(self.bootstrap(), self.0.selection)
    }

    /// Noise that switching to the ring of responses and rounding add.
    fn switch_noise(&self) -> Noise {
        let ResponseLiteral { degree, prime, gadget, body_bits } = self.0.literal.response;
        let log2_modulus = f64::from(prime).log2();
        let row = (response_sigma().log2() - log2_modulus).exp2().powi(2);
        // The digits contain all bits of a coefficient, so the highest digit may have its maximum size.
        let digits = digit_square(gadget.log2_base) * (gadget.levels - 1) as f64 + top_digit_square(gadget.log2_base);
        let key = Noise(row * digits * (self.pieces() * degree) as f64);
        let body = Noise((-2.0 * f64::from(body_bits)).exp2() / 12.0);
        key.plus(Noise::switching(self.ring().degree(), log2_modulus)).plus(body)
    }

    /// Noise of the phase that a bit of a query with a word for each bit is bootstrapped from, without the error of
    /// rounding its body.
    pub fn bit_noise(&self) -> Noise {
        let lwe = self.0.literal.bootstrap.lwe;
        Noise((lwe.sigma().log2() - 32.0).exp2().powi(2)).plus(self.order_noise())
    }

    /// Noise of the phase of a bit that is extracted from a compact query whose index has `index_bits` bits: the noise
    /// of the query and of the rotations for the bits below, which the shift multiplies, and the noise of the switch to
    /// the bootstrap's secret.
    pub fn extracted_bit_noise(&self, index_bits: u32, bit: u32) -> Noise {
        let fresh = Noise((ERROR_SIGMA.log2() - 32.0).exp2().powi(2));
        let below = self.compact_rotation_noise().times(f64::from(bit));
        fresh.plus(below).times((2.0 * f64::from(index_bits - 1 - bit)).exp2()).plus(self.compact_switch_noise())
    }

    /// Number of the lowest bits of a compact index that are refreshed before they are bootstrapped: the bits that
    /// would otherwise fail once in 2^64 or more often. A refresh costs a blind rotation. If a bootstrap has `k`
    /// blocks, a refresh tolerates `k` times more noise.
    pub fn refreshed_bits(&self, shape: DatabaseShape) -> u32 {
        const MOST: f64 = -64.0;
        let noise = |bit| self.extracted_bit_noise(shape.index_bits(), bit);
        let fails = |&(bit, gadget): &(u32, DigitGadget)| extraction_log2_failure(noise(bit), gadget) > MOST;
        let highest = (0..).zip(self.gadgets(shape)).filter(fails).last();
        highest.map_or(0, |(highest, _)| highest + 1)
    }

    /// `log2` of the probability that one of the bits of a compact query is wrong.
    fn compact_log2_failure(&self, shape: DatabaseShape) -> f64 {
        let refreshed = self.refreshed_bits(shape);
        let after_refresh = self.compact_rotation_noise().plus(self.compact_switch_noise());
        let bit = |(bit, gadget): (u32, DigitGadget)| {
            let noise = self.extracted_bit_noise(shape.index_bits(), bit);
            match bit < refreshed {
                true => log2_failure(noise, 0.25, 1.0).exp2() + extraction_log2_failure(after_refresh, gadget).exp2(),
                false => extraction_log2_failure(noise, gadget).exp2(),
            }
        };
        (0..).zip(self.gadgets(shape)).map(bit).sum::<f64>().log2().min(0.0)
    }

    /// Noise of the switch of a compact query to the bootstrap's secret, and of the rounding to exponents.
    fn compact_switch_noise(&self) -> Noise {
        let literal = &self.0.literal;
        let (source, target) = (literal.compact.dimension, literal.bootstrap.lwe);
        LweSwitchKey::noise(source, target, literal.compact_switch).plus(self.order_noise())
    }

    /// Noise of rounding an LWE ciphertext to exponents of a blind rotation.
    fn order_noise(&self) -> Noise {
        let log2_order = (self.ring().degree() as f64).log2() + 1.0;
        Noise::switching(self.0.literal.bootstrap.lwe.dimension, log2_order)
    }

    /// Noise that extracting one bit adds to a compact query, as a fraction of 2^32.
    fn compact_rotation_noise(&self) -> Noise {
        let rotation = Noise::rotation(self.ring(), self.bootstrap().rotation(), self.bootstrap().lwe().dimension);
        rotation.plus(Noise::switching(self.ring().degree(), 32.0))
    }

    /// Checks that queries of a mode to a table of this shape fail at most once in 2^40.
    ///
    /// # Errors
    /// If they fail more often.
    pub fn check_failure(&self, shape: DatabaseShape, mode: Mode) -> Result<(), SchemeError> {
        let found = self.log2_failure(shape, mode);
        if found <= MAX_LOG2_FAILURE {
            return Ok(());
        }
        Err(SchemeError::Failure { name: self.name(), mode, bits: shape.index_bits(), found, needed: MAX_LOG2_FAILURE })
    }

    /// `log2` of the probability that the response to a query of a mode to a table of this shape is wrong.
    pub fn log2_failure(&self, shape: DatabaseShape, mode: Mode) -> f64 {
        // Half of the rows' noise comes from the products with the last row bit. Rows share the errors of these
        // products.
        let response = log2_failure_of_shared(
            self.switch_noise(),
            self.selection_noise(shape),
            0.5 / f64::from(1 << self.0.literal.plaintext_bits),
            self.response().degree() as f64,
            self.bootstrap().output().levels(),
        );
        let expansion = match mode {
            Mode::Packed => return response,
            Mode::Bits => {
                // The error of rounding a body is not Gaussian: it counts with its largest value.
                let rounding = (-f64::from(self.0.literal.bit_body_bits + 1)).exp2();
                let bit = |gadget| log2_failure(self.bit_noise(), bootstrap_bound(gadget) - rounding, 1.0).exp2();
                self.gadgets(shape).into_iter().map(bit).sum::<f64>().log2().min(0.0)
            }
            Mode::Compact | Mode::Session => self.compact_log2_failure(shape),
        };
        (response.exp2() + expansion.exp2()).log2()
    }
}

/// `log2` of the probability that a bit of a query with this noise is bootstrapped to another one, for a gadget.
fn extraction_log2_failure(noise: Noise, gadget: DigitGadget) -> f64 {
    log2_failure(noise, bootstrap_bound(gadget), 1.0)
}

/// The largest error of a phase, as a fraction of the modulus, that a bootstrap of a bit for a gadget tolerates.
fn bootstrap_bound(gadget: DigitGadget) -> f64 {
    0.25 / BootstrapParameters::blocks(gadget) as f64
}

/// Bound on the mean square of the highest signed digit.
fn top_digit_square(log2_base: u32) -> f64 {
    f64::from(1u32 << (2 * (log2_base - 1)))
}

/// BLAKE3 of all numbers, in the order of their fields.
fn fingerprint(literal: &PirLiteral) -> [u8; 16] {
    let PirLiteral { bootstrap, compact, compact_switch, response, selection, .. } = literal;
    let PirLiteral { plaintext_bits, row_bits, bit_body_bits, .. } = literal;
    let BootstrapLiteral { ring, lwe, rotation, trace, output } = bootstrap;
    let mut numbers = vec![ring.degree as u64, ring.primes.len() as u64];
    numbers.extend(ring.primes.iter().map(|&q| u64::from(q)));
    for LweLiteral { dimension, error_terms } in [lwe, compact] {
        numbers.extend([*dimension as u64, u64::from(*error_terms)]);
    }
    for GadgetLiteral { log2_base, levels } in [rotation, trace, output, compact_switch, &response.gadget, selection] {
        numbers.extend([u64::from(*log2_base), *levels as u64]);
    }
    numbers.extend([response.degree as u64, response.prime.into(), response.body_bits.into()]);
    numbers.extend([*plaintext_bits, *row_bits, *bit_body_bits].map(u64::from));
    let mut hasher = blake3::Hasher::new_derive_key("unspoken 2026 parameters of private retrieval");
    numbers.iter().for_each(|number| {
        hasher.update(&number.to_le_bytes());
    });
    let mut fingerprint = [0; 16];
    hasher.finalize_xof().fill(&mut fingerprint);
    fingerprint
}

/// Standard deviation of errors and secrets in the ring of responses.
pub(crate) fn response_sigma() -> f64 {
    let squares: i32 = RESPONSE_WEIGHTS.iter().map(|weight| weight * weight).sum();
    ERROR_SIGMA * f64::from(squares).sqrt()
}
