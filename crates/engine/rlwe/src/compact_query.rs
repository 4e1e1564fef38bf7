//! Compact queries: many torus elements in one ciphertext of half the ring degree and one prime.
//!
//! The client encrypts `t_0, ..., t_(n/2-1)` of the torus `R/Z` as the coefficients of one polynomial modulo the lowest
//! prime `q` of the chain, in the ring of degree `n/2`, under a secret of that ring. It sends 16 bytes of seed and one
//! residue for each element. The server embeds the ciphertext into the ring of degree `n` by `X -> X^2`, multiplies it
//! by `1 - X^(n/2+1)`, which moves all elements to the lower half of the coefficients, and switches it to the sparse
//! secret of a bootstrap (Jang, Kang, Rhee and Cheon, arXiv 2606.03191, section 5.1 and appendix A.6).

use std::hint::black_box;

use unspoken_ring::{Basis, Domain, Poly, Ring, RingKind, RingLiteral, SecretRng, Seed, round_ties_even};
use zeroize::Zeroizing;

use crate::ciphertext::{Ciphertext, SeededCiphertext};
use crate::error::RlweError;
use crate::keys::SecretKey;
use crate::parameters::{Parameters, ParametersLiteral};
use crate::secured::DerivedSecret;
use crate::security::SecretDistribution;

const SEED_LABEL: &str = "unspoken 2026 mask of a compact query";

/// The ring of compact queries of a parameter set: half its degree, and the first prime of its chain.
#[derive(Clone, Debug)]
pub struct CompactQueryParameters(Parameters);

impl CompactQueryParameters {
    /// Builds the ring of queries.
    ///
    /// # Errors
    /// If the parameters are not made for bootstrapping, or the ring of queries has less than 128 bits and the name
    /// does not begin with `insecure_`.
    pub fn new(parameters: &Parameters) -> Result<Self, RlweError> {
        parameters.encapsulation()?;
        let ring = parameters.ring();
        let literal = ParametersLiteral {
            name: format!("{}_query", parameters.name()),
            ring: RingLiteral {
                degree: ring.degree() / 2,
                kind: RingKind::Standard,
                chain: vec![ring.chain()[0]],
                terminal: vec![],
                special: Vec::new(),
                digit_len: 1,
            },
            secret: SecretDistribution::UniformTernary,
            encapsulation: None,
        };
        Ok(CompactQueryParameters(Parameters::with_backend(literal, ring.backend())?))
    }

    /// The parameters of the ring of queries: a chain of one prime, no special primes.
    pub fn parameters(&self) -> &Parameters {
        &self.0
    }

    /// Number of elements of one query: `n/2`.
    pub fn len(&self) -> usize {
        self.ring().degree()
    }

    /// Always false: a query has elements.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Bytes of one query: 16 for the seed, and the bits of the prime for each element.
    pub fn byte_len(&self) -> usize {
        SEED_BYTES + self.ring().residue_bytes(Basis::chain(1))
    }

    /// Bytes of a query of which `count` elements are sent ([`CompactQuery::few_to_bytes`]).
    pub fn few_byte_len(count: usize) -> usize {
        SEED_BYTES + size_of::<u32>() * count
    }

    /// Distance of the elements of a query of which `count` are sent.
    fn stride(&self, count: usize) -> Result<usize, RlweError> {
        if count.is_power_of_two() && 2 * count <= self.len() {
            return Ok(self.len() / (2 * count));
        }
        let (found, needed) = (format!("{count} elements"), format!("a power of two up to {}", self.len() / 2));
        Err(RlweError::Decode { what: "a compact query", found, needed })
    }

    /// The coefficient of the polynomial of degree below `n` that holds element `index` after [`CompactQuery::expand`]:
    /// the even positions below `n/2` first, then the odd ones.
    pub fn coefficient(&self, index: usize) -> usize {
        let quarter = self.len() / 2;
        if index < quarter { 2 * index } else { 2 * (index - quarter) + 1 }
    }

    fn ring(&self) -> &Ring {
        self.0.ring()
    }
}

/// The secret of compact queries, derived from the main secret, so that only the main secret is stored.
#[derive(Debug)]
pub struct CompactQuerySecret {
    parameters: CompactQueryParameters,
    secret: SecretKey,
}

impl CompactQuerySecret {
    /// Derives the query secret from a main secret.
    ///
    /// # Errors
    /// If secret and query parameters have different degrees.
    pub fn of(secret: &SecretKey, parameters: &CompactQueryParameters) -> Result<Self, RlweError> {
        let inner = SecretKey::from_coefficients(parameters.parameters(), &secret.query_coefficients()?)?;
        Ok(CompactQuerySecret { parameters: parameters.clone(), secret: inner })
    }

    /// The ring of queries.
    pub fn parameters(&self) -> &CompactQueryParameters {
        &self.parameters
    }

    /// Encrypts torus elements (reals modulo 1), `n/2` of them, under a fresh seed. The error of each element has
    /// standard deviation `3.19 / q`; the server adds another error of about `3 / q`.
    ///
    /// # Errors
    /// If their number is not `n/2` or one is not finite.
    pub fn encrypt(&self, torus: &[f64], rng: &mut SecretRng) -> Result<CompactQuery, RlweError> {
        let ring = self.parameters.ring();
        check_elements(torus, ring.degree())?;
        let message = torus_message(ring, torus)?;
        let mut seed = [0; SEED_BYTES];
        rng.fill(&mut seed);
        let inner = SeededCiphertext::encrypt_with_seed(&self.secret, &message, mask_seed(SEED_LABEL, &seed), rng)?;
        let mut body = inner.body;
        ring.to_coefficients(&mut body)?;
        Ok(CompactQuery { seed, body })
    }
}

impl SecretKey {
    fn query_coefficients(&self) -> Result<Zeroizing<Vec<i32>>, RlweError> {
        Ok(self.derive(DerivedSecret::CompactQuery)?.ternary(self.parameters().ring().degree() / 2))
    }

    /// The image of the query secret in the main ring, under `X -> X^2`.
    pub(crate) fn embedded_query_secret(&self) -> Result<Poly, RlweError> {
        let half = self.query_coefficients()?;
        let spread = Zeroizing::new(half.iter().flat_map(|&c| [c, 0]).collect::<Vec<i32>>());
        self.lift_secret(&spread)
    }
}

/// The message of torus elements modulo the first prime, marked as secret. Evaluation domain.
pub(crate) fn torus_message(ring: &Ring, torus: &[f64]) -> Result<Poly, RlweError> {
    let q = f64::from(ring.chain()[0]);
    // No branch and no call of a rounding function, because the elements are a client's message.
    let scaled = |t: &f64| round_ties_even((t - round_ties_even(*t)) * q) as i32;
    let scaled = Zeroizing::new(torus.iter().map(scaled).collect::<Vec<i32>>());
    let mut message = ring.from_i32(&scaled, Basis::chain(1))?;
    message.mark_secret();
    ring.to_evaluation(&mut message)?;
    Ok(message)
}

/// Checks the elements of a query. The branch on whether a value is not finite is the only branch that depends on the
/// values. Not inlined, so that tools can name this function when they find the branch.
#[inline(never)]
pub(crate) fn check_elements(torus: &[f64], count: usize) -> Result<(), RlweError> {
    if torus.len() == count && !any_infinite(torus) {
        return Ok(());
    }
    let bad = torus.iter().position(|t| !t.is_finite());
    let found = bad.map_or(format!("{} elements", torus.len()), |i| format!("element {i} that is not finite"));
    let needed = format!("{count} finite elements");
    Err(RlweError::Decode { what: "the elements of a compact query", found, needed })
}

/// Whether an element is not finite, without a branch on one.
#[inline(never)]
fn any_infinite(torus: &[f64]) -> bool {
    torus.iter().fold(0, |seen, t| seen | black_box(u8::from(!t.is_finite()))) != 0
}

pub(crate) const SEED_BYTES: usize = 16;

/// The seed of a mask. Each kind of query has a label of its own.
pub(crate) fn mask_seed(label: &str, seed: &[u8; SEED_BYTES]) -> Seed {
    Seed(blake3::derive_key(label, seed))
}

/// A compact query: a seed and one residue for each element.
#[derive(Clone, Debug)]
pub struct CompactQuery {
    seed: [u8; SEED_BYTES],
    /// In the coefficient domain.
    body: Poly,
}

impl CompactQuery {
    /// The public seed, which no two queries may share.
    pub fn seed(&self) -> &[u8; 16] {
        &self.seed
    }

    /// Serialises: the seed, then the residues of the coefficients, each with the bits of the prime.
    pub fn to_bytes(&self, parameters: &CompactQueryParameters) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(parameters.byte_len());
        bytes.extend(self.seed);
        parameters.ring().write_residues(&self.body, &mut bytes);
        bytes
    }

    /// Reads the output of [`CompactQuery::to_bytes`].
    ///
    /// # Errors
    /// [`RlweError::Decode`] if the bytes do not have the length of a query, [`RlweError::Ring`] if a residue is not
    /// below the prime.
    pub fn from_bytes(parameters: &CompactQueryParameters, bytes: &[u8]) -> Result<Self, RlweError> {
        if bytes.len() != parameters.byte_len() {
            let (found, needed) = (format!("{} bytes", bytes.len()), format!("{} bytes", parameters.byte_len()));
            return Err(RlweError::Decode { what: "a compact query", found, needed });
        }
        let (head, rest) = bytes.split_at(SEED_BYTES);
        let mut seed = [0; SEED_BYTES];
        seed.copy_from_slice(head);
        let body = parameters.ring().read_residues(rest, Basis::chain(1), Domain::Coefficient)?;
        Ok(CompactQuery { seed, body })
    }

    /// Serialises `count` elements only: the seed, then four bytes for each. These are the elements at coefficients
    /// that are multiples of `n / (2 count)`: a bootstrap moves them to the first `count` slots.
    ///
    /// # Errors
    /// If `count` is not a power of two up to half of the elements, or the query belongs to other parameters.
    pub fn few_to_bytes(&self, parameters: &CompactQueryParameters, count: usize) -> Result<Vec<u8>, RlweError> {
        let stride = parameters.stride(count)?;
        let residues = parameters.ring().residues(&self.body)?;
        let residues = residues.iter().step_by(stride).take(count);
        Ok(self.seed.iter().copied().chain(residues.flat_map(|residue| residue.to_le_bytes())).collect())
    }

    /// Reads the output of [`CompactQuery::few_to_bytes`]. Elements that were not sent are points of the torus that
    /// nobody chose.
    ///
    /// # Errors
    /// [`RlweError::Decode`] if the bytes do not have the length of such a query, or a residue is not below the prime.
    pub fn few_from_bytes(parameters: &CompactQueryParameters, count: usize, bytes: &[u8]) -> Result<Self, RlweError> {
        let (stride, needed) = (parameters.stride(count)?, CompactQueryParameters::few_byte_len(count));
        let refuse = |found: String, needed: String| RlweError::Decode { what: "a compact query", found, needed };
        let (Some((seed, rest)), true) = (bytes.split_first_chunk(), bytes.len() == needed) else {
            return Err(refuse(format!("{} bytes", bytes.len()), format!("{needed} bytes")));
        };
        let q = parameters.ring().chain()[0];
        let mut body = vec![0; parameters.len()];
        for (target, word) in body.iter_mut().step_by(stride).zip(rest.as_chunks().0) {
            let residue = u32::from_le_bytes(*word);
            if residue >= q {
                return Err(refuse(format!("residue {residue}"), format!("residues below {q}")));
            }
            // Primes have 30 bits.
            *target = residue.cast_signed();
        }
        Ok(CompactQuery { seed: *seed, body: parameters.ring().from_i32(&body, Basis::chain(1))? })
    }

    /// The query in the ring of degree `n`, under the image of the query secret: element `i` is at
    /// [`CompactQueryParameters::coefficient`]`(i)`; the upper half of the coefficients is unused.
    ///
    /// # Errors
    /// If the query belongs to other parameters than `ring`.
    pub fn expand(&self, parameters: &CompactQueryParameters, ring: &Ring) -> Result<Ciphertext, RlweError> {
        let mut mask = parameters.ring().uniform(&mask_seed(SEED_LABEL, &self.seed), 0, Basis::chain(1));
        parameters.ring().to_coefficients(&mut mask)?;
        let components = [&self.body, &mask].map(|poly| pack(parameters.ring(), ring, poly));
        let [body, mask] = components;
        Ciphertext::new(vec![body?, mask?])
    }
}

/// `(1 - X^(n/2+1)) poly(X^2)`, in the evaluation domain.
fn pack(half: &Ring, ring: &Ring, poly: &Poly) -> Result<Poly, RlweError> {
    let mut embedded = ring.embed_from(half, poly)?;
    ring.to_evaluation(&mut embedded)?;
    let mut binomial = vec![0; ring.degree()];
    binomial[0] = 1;
    binomial[ring.degree() / 2 + 1] = -1;
    let mut binomial = ring.from_i32(&binomial, Basis::chain(1))?;
    ring.to_evaluation(&mut binomial)?;
    ring.mul_assign(&mut embedded, &binomial)?;
    Ok(embedded)
}
