//! Compact queries: each index as one torus element (the paper's section 5.1 and appendix A.6).
//!
//! Index `j` is `J_j = (-1)^j (2j + 1) / 4p` in the torus, one coefficient of a ciphertext of half the ring degree
//! modulo the lowest prime. The server's functional bootstrap maps it to `alpha_j = exp(2 pi i J_j)` in a slot, at the
//! level at which a direct query would be encrypted.

use unspoken_ckks::{Bootstrap, Bootstrapper, Ciphertext, Evaluator, SlotValues};
use unspoken_encrypt::ClientKey;
use unspoken_lookup::{index_or, query_scale, torus};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{self as rlwe, CompactQueryParameters, CompactQuerySecret};
use zeroize::Zeroizing;

use crate::error::QueryError;
use crate::shape::QueryShape;

/// Compact queries. A query has one compact ciphertext per subtable: 16 bytes, and for each slot the bits of the lowest
/// prime, which are 30 at a ring of degree 2^16.
///
/// A point of the circle is never zero, so a slot without an index selects the last column. Where padded slots must add
/// nothing, the application sets that column to zero.
#[derive(Clone, Debug)]
pub struct Compact {
    shape: QueryShape,
    parameters: CompactQueryParameters,
}

impl Compact {
    /// Queries of this shape. The shape's level is the level of the lookup, and at most the level after the bootstrap.
    ///
    /// # Errors
    /// If the parameters are not made for bootstrapping or their bootstrap ends below the shape's level.
    pub fn new(shape: QueryShape) -> Result<Self, QueryError> {
        let parameters = CompactQueryParameters::new(shape.parameters.rlwe())?;
        let available = shape.parameters.circuit_level();
        if available < shape.level {
            let (found, needed) = (available.to_string(), format!("level {} or more", shape.level));
            return Err(QueryError::mismatch("the level after the bootstrap", found, needed));
        }
        Ok(Compact { shape, parameters })
    }

    pub(crate) fn shape(&self) -> &QueryShape {
        &self.shape
    }

    /// The functional bootstrap that the queries need.
    pub(crate) fn bootstrap(&self) -> Result<Bootstrap, QueryError> {
        let parameters = &self.shape.parameters;
        Ok(Bootstrap::new(parameters, parameters.slots(), SlotValues::Real)?)
    }

    pub(crate) fn vector_bytes(&self) -> usize {
        self.parameters.byte_len()
    }

    /// The secret of compact queries, derived from a main secret.
    pub(crate) fn secret(&self, key: &ClientKey) -> Result<CompactQuerySecret, QueryError> {
        match key {
            ClientKey::Secret(secret) => Ok(CompactQuerySecret::of(secret, &self.parameters)?),
            ClientKey::Public(_) => {
                let (found, needed) = ("a public one", "the secret, for a compact query");
                Err(QueryError::mismatch("the key", found, needed))
            }
        }
    }

    /// Encrypts the indices of one subtable as one byte string.
    pub(crate) fn encrypt_vector(
        &self,
        secret: &CompactQuerySecret,
        indices: &[Option<usize>],
        rng: &mut SecretRng,
    ) -> Result<Vec<u8>, QueryError> {
        let (columns, slots) = (self.shape.columns, self.shape.parameters.slots());
        let at = |i: usize| {
            let slot = Bootstrap::slot_of_coefficient(slots, self.parameters.coefficient(i));
            element(indices.get(slot).copied().unwrap_or(None), columns)
        };
        let elements = Zeroizing::new((0..self.parameters.len()).map(at).collect::<Vec<f64>>());
        Ok(secret.encrypt(&elements, rng)?.to_bytes(&self.parameters))
    }

    pub(crate) fn read_vector(&self, bytes: &[u8]) -> Result<rlwe::CompactQuery, QueryError> {
        Ok(rlwe::CompactQuery::from_bytes(&self.parameters, bytes)?)
    }

    pub(crate) fn open(
        &self,
        evaluator: &Evaluator<'_>,
        bootstrapper: &Bootstrapper,
        queries: &[rlwe::CompactQuery],
    ) -> Result<Vec<Ciphertext>, QueryError> {
        let scale = query_scale(&self.shape.parameters, self.shape.level);
        Ok(bootstrapper.exponentials_of_queries(evaluator, &self.parameters, queries, (self.shape.level, scale))?)
    }
}

/// The element of an index; the element of the last column for `None`. In constant time: padding is selected with a
/// mask.
pub(crate) fn element(index: Option<usize>, columns: usize) -> f64 {
    torus(index_or(index, columns - 1), columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_the_last_column() {
        for p in [4, 256, 4096] {
            assert_eq!(element(None, p).to_bits(), element(Some(p - 1), p).to_bits(), "padding of {p}");
        }
    }
}
