//! Parameter sets: the ring of the computation, the keys of the kinds of queries, the ring of responses.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use unspoken_gsw::{BinaryRing, BootstrapLiteral, BootstrapParameters, GadgetLiteral, LweLiteral, Noise};
use unspoken_ring::{Backend, Device, DigitGadget, ERROR_SIGMA, Ring, RingKind, RingLiteral};
use unspoken_rlwe::INSECURE_PREFIX;

use crate::error::SchemeError;

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
pub struct PirParameters(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) literal: PirLiteral,
    fingerprint: [u8; 16],
    bootstrap: BootstrapParameters,
    response: Ring,
    response_gadget: DigitGadget,
    pub(crate) selection: DigitGadget,
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
    /// If a ring or a gadget cannot be built, anything has less than 128 bits of security, or the bits of packed
    /// queries would have more noise than bits that are bootstrapped.
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
        BinaryRing::check_lwe(ring.name(), literal.compact)?;
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
        let parameters = PirParameters(Arc::new(Inner {
            literal,
            fingerprint,
            bootstrap,
            response,
            response_gadget,
            selection,
            host: None,
            placed: Mutex::default(),
        }));
        // The noise of an answer is predicted for bits that were bootstrapped, before the trace as after it.
        let (found, needed) = (parameters.packed_weight_noise(), Noise::bootstrapped_weight(parameters.bootstrap()));
        if found > needed {
            let (name, what) = (parameters.name(), "log2 of the noise of a weight of packed bits");
            let (found, needed) = (found.log2_deviation(), needed.log2_deviation());
            return Err(SchemeError::Parameters { name, what, found, needed });
        }
        Ok(parameters)
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
    pub fn ring(&self) -> &BinaryRing {
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
