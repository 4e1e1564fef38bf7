//! Subring queries: few torus elements in a ring of small degree, under a sparse secret.
//!
//! A [`CompactQuery`](crate::CompactQuery) fills the ring of a bootstrap and reaches its sparse secret by a key switch.
//! A subring query is under a sparse secret from the start, in a ring of small degree `m` modulo the lowest prime `q`.
//! So the server raises the modulus at once. The raise adds multiples of `q` to the `m` coefficients alone; under `X ->
//! X^(n/m)` they stay in the subring, and one key switch brings the result to the main secret.
//!
//! The table of bounds allows `m = 2^13` for the usual primes of 30 bits. It covers lattice attacks alone. Attacks that
//! meet in the middle over the few non-zero coefficients (May, "How to meet ternary LWE keys", CRYPTO 2021) do not
//! depend on `q`: by a rough count of their lists they cost about 2^129 time and memory at 2^13, and 2^145 at 2^14. So
//! `m` is at least 2^14.

use unspoken_ring::{Basis, Poly, Ring, RingKind, RingLiteral, SecretRng};
use zeroize::Zeroizing;

use crate::ciphertext::{Ciphertext, SeededCiphertext};
use crate::compact_query::{SEED_BYTES, check_elements, mask_seed, torus_message};
use crate::error::RlweError;
use crate::evaluation_keys::EvaluationKeys;
use crate::key_kind::KeyKind;
use crate::keys::SecretKey;
use crate::parameters::{Fingerprint, INSECURE_PREFIX, Parameters, ParametersLiteral};
use crate::secured::{DerivedSecret, query_degree};
use crate::security::{SPARSE_SECRET, SPARSE_WEIGHT};

const SEED_LABEL: &str = "unspoken 2026 mask of a subring query";
const WHAT: &str = "a subring query";

/// Maximum number of elements of a query, and the largest part of its ring that they take. Longer queries need longer
/// maps from coefficients to slots, whose keys are what these queries save.
const MAX_ELEMENTS: usize = 4096;
const MIN_DEGREE_RATIO: usize = 2;

/// The ring of subring queries of a parameter set, and the number of elements of a query.
#[derive(Clone, Debug)]
pub struct SubringQueryParameters {
    ring: Parameters,
    /// The parameters whose secret the queries' secret is derived from.
    main: Fingerprint,
    /// Number of elements, a power of two.
    count: usize,
}

impl SubringQueryParameters {
    /// Builds the ring of queries of `count` elements.
    ///
    /// # Errors
    /// If the parameters are not made for bootstrapping, no ring of smaller degree is secure, or the count is not a
    /// power of two up to [`SubringQueryParameters::most`].
    pub fn new(parameters: &Parameters, count: usize) -> Result<Self, RlweError> {
        let (degree, most) = (query_degree(parameters)?, Self::most(parameters)?);
        if !count.is_power_of_two() || count > most {
            let (found, needed) = (format!("{count} elements"), format!("a power of two up to {most}"));
            return Err(RlweError::Decode { what: WHAT, found, needed });
        }
        let ring = parameters.ring();
        let prefix = if parameters.is_insecure() { INSECURE_PREFIX } else { "" };
        let literal = ParametersLiteral {
            name: format!("{prefix}{}_subring_query", parameters.name().trim_start_matches(INSECURE_PREFIX)),
            ring: RingLiteral {
                degree,
                kind: RingKind::Standard,
                chain: vec![ring.chain()[0]],
                terminal: vec![],
                special: Vec::new(),
                digit_len: 1,
            },
            secret: SPARSE_SECRET,
            encapsulation: None,
        };
        let ring = Parameters::with_backend(literal, ring.backend())?;
        Ok(SubringQueryParameters { ring, main: parameters.fingerprint(), count })
    }

    /// Maximum number of elements of a query: 4096, or half the degree of its ring if that is less.
    ///
    /// # Errors
    /// As for [`SubringQueryParameters::new`].
    pub fn most(parameters: &Parameters) -> Result<usize, RlweError> {
        Ok((query_degree(parameters)? / MIN_DEGREE_RATIO).min(MAX_ELEMENTS))
    }

    /// The parameters of the ring of queries: a chain of one prime, no special primes.
    pub fn parameters(&self) -> &Parameters {
        &self.ring
    }

    /// Number of elements of one query.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Always false: a query has elements.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Bytes of one query: 16 for the seed, and the bits of the prime for each element.
    pub fn byte_len(&self) -> usize {
        SEED_BYTES + self.ring().some_residue_bytes(Basis::chain(1), self.count)
    }

    /// The coefficients of the elements, in the ring of queries: multiples of a stride in the lower half.
    fn places(&self) -> Vec<usize> {
        (0..self.degree() / 2).step_by(self.degree() / 2 / self.count).collect()
    }

    fn degree(&self) -> usize {
        self.ring().degree()
    }

    fn ring(&self) -> &Ring {
        self.ring.ring()
    }
}

/// The secret of subring queries, derived from the main secret, so that only the main secret is stored.
#[derive(Debug)]
pub struct SubringQuerySecret {
    parameters: SubringQueryParameters,
    secret: SecretKey,
}

impl SubringQuerySecret {
    /// Derives the query secret from a main secret.
    ///
    /// # Errors
    /// If secret and query parameters do not belong to each other.
    pub fn of(secret: &SecretKey, parameters: &SubringQueryParameters) -> Result<Self, RlweError> {
        if secret.parameters().fingerprint() != parameters.main {
            let (found, needed) =
                (secret.parameters().name().to_string(), "the secret of the queries' parameters".into());
            return Err(RlweError::Decode { what: WHAT, found, needed });
        }
        let coefficients = secret.subring_query_coefficients()?;
        let inner = SecretKey::from_coefficients(parameters.parameters(), &coefficients)?;
        Ok(SubringQuerySecret { parameters: parameters.clone(), secret: inner })
    }

    /// The ring of queries.
    pub fn parameters(&self) -> &SubringQueryParameters {
        &self.parameters
    }

    /// Encrypts torus elements (reals modulo 1) under a fresh seed. The error of each has standard deviation `3.19 /
    /// q`.
    ///
    /// # Errors
    /// If their number is not [`SubringQueryParameters::len`] or one is not finite.
    pub fn encrypt(&self, torus: &[f64], rng: &mut SecretRng) -> Result<SubringQuery, RlweError> {
        let ring = self.parameters.ring();
        check_elements(torus, self.parameters.len())?;
        let mut whole = Zeroizing::new(vec![0.0; ring.degree()]);
        self.parameters.places().into_iter().zip(torus).for_each(|(place, element)| whole[place] = *element);
        let message = torus_message(ring, &whole)?;
        let mut seed = [0; SEED_BYTES];
        rng.fill(&mut seed);
        let inner = SeededCiphertext::encrypt_with_seed(&self.secret, &message, mask_seed(SEED_LABEL, &seed), rng)?;
        let mut body = inner.body;
        ring.to_coefficients(&mut body)?;
        Ok(SubringQuery { seed, body })
    }
}

impl SecretKey {
    fn subring_query_coefficients(&self) -> Result<Zeroizing<Vec<i32>>, RlweError> {
        let degree = query_degree(self.parameters())?;
        Ok(self.derive(DerivedSecret::SubringQuery)?.sparse_ternary(degree, SPARSE_WEIGHT))
    }

    /// The image of the query secret in the main ring, under `X -> X^(n/m)`.
    pub(crate) fn embedded_subring_query_secret(&self) -> Result<Poly, RlweError> {
        let own = self.subring_query_coefficients()?;
        let degree = self.parameters().ring().degree();
        let mut spread = Zeroizing::new(vec![0; degree]);
        spread.iter_mut().step_by(degree / own.len()).zip(own.iter()).for_each(|(target, value)| *target = *value);
        self.lift_secret(&spread)
    }
}

/// A subring query: a seed and one residue for each element.
#[derive(Clone, Debug)]
pub struct SubringQuery {
    seed: [u8; SEED_BYTES],
    /// In the coefficient domain. Only the coefficients of elements are in use.
    body: Poly,
}

impl SubringQuery {
    /// Largest factor of [`SubringQuery::raise`].
    pub const MAX_FACTOR: i64 = 1 << 30;

    /// The public seed, which no two queries may share.
    pub fn seed(&self) -> &[u8; 16] {
        &self.seed
    }

    /// Serialises: the seed, then the residues of the elements, each with the bits of the prime.
    ///
    /// # Errors
    /// If the query belongs to other parameters.
    pub fn to_bytes(&self, parameters: &SubringQueryParameters) -> Result<Vec<u8>, RlweError> {
        let mut bytes = Vec::with_capacity(parameters.byte_len());
        bytes.extend(self.seed);
        parameters.ring().write_some_residues(&self.body, &parameters.places(), &mut bytes)?;
        Ok(bytes)
    }

    /// Reads the output of [`SubringQuery::to_bytes`]. The other coefficients are torus elements that nobody chose.
    ///
    /// # Errors
    /// [`RlweError::Decode`] if the bytes do not have the length of a query, [`RlweError::Ring`] if a residue is not
    /// below the prime.
    pub fn from_bytes(parameters: &SubringQueryParameters, bytes: &[u8]) -> Result<Self, RlweError> {
        let needed = parameters.byte_len();
        let (Some((seed, rest)), true) = (bytes.split_first_chunk(), bytes.len() == needed) else {
            let (found, needed) = (format!("{} bytes", bytes.len()), format!("{needed} bytes"));
            return Err(RlweError::Decode { what: WHAT, found, needed });
        };
        let body = parameters.ring().read_some_residues(rest, &parameters.places(), Basis::chain(1))?;
        Ok(SubringQuery { seed: *seed, body })
    }

    /// Raises the query to a larger basis of the main ring and switches it to the main secret. The message is a
    /// polynomial in `X^(n/m)`: `factor q (t_k + I_k)` in coefficient `k n/m`, with `I_k` small integers. Its unused
    /// coefficients are torus elements that nobody chose.
    ///
    /// # Errors
    /// If the query belongs to other parameters, the factor is not from 1 to 2^30, or the key
    /// ([`KeyKind::SubringQuery`]) is missing.
    pub fn raise(
        &self,
        parameters: &SubringQueryParameters,
        main: &Parameters,
        (to, factor): (Basis, i64),
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, RlweError> {
        const OPERATION: &str = "raise a subring query";
        let (own, ring) = (parameters.ring(), main.ring());
        if parameters.main != main.fingerprint() || !(1..=Self::MAX_FACTOR).contains(&factor) {
            let found = format!("a query of '{}', factor {factor}", parameters.parameters().name());
            let needed = format!("one of '{}', a factor from 1 to 2^30", main.name());
            return Err(RlweError::Decode { what: WHAT, found, needed });
        }
        let key = keys.get(OPERATION, ring, KeyKind::SubringQuery, to)?;
        let mut mask = own.uniform(&mask_seed(SEED_LABEL, &self.seed), 0, Basis::chain(1));
        own.to_coefficients(&mut mask)?;
        let lift = |poly: &Poly| -> Result<Poly, RlweError> {
            let centred = own.to_f64(poly)?;
            let mut whole = vec![0; ring.degree()];
            let targets = whole.iter_mut().step_by(ring.degree() / own.degree());
            targets.zip(centred.iter()).for_each(|(target, c)| *target = *c as i64 * factor);
            let mut lifted = ring.from_i64(&whole, to)?;
            ring.to_evaluation(&mut lifted)?;
            Ok(lifted)
        };
        let [k0, k1] = ring.gadget_product(&lift(&mask)?, key)?;
        let mut k0 = ring.divide_round(&k0, to)?;
        ring.add_assign(&mut k0, &lift(&self.body)?)?;
        Ciphertext::new(vec![k0, ring.divide_round(&k1, to)?])
    }
}
