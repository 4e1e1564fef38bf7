//! Compact queries: each index as one torus element of 30 bits (the paper's section 5.1 and appendix A.6).
//!
//! Index `j` is `J_j = (-1)^j (2j + 1) / 4p` in the torus, one coefficient of a ciphertext of half the ring degree modulo the
//! lowest prime. The server's functional bootstrap takes it to `alpha_j = exp(2 pi i J_j)` in a slot, at the level a direct
//! query would have been sent at.

use unspoken_ckks::{Arithmetic, Bootstrap, Bootstrapper, Ciphertext, CkksParameters, Evaluator, SlotValues};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{self as rlwe, KeyPlan, QueryParameters, QuerySecret, SecretKey};

use crate::error::LookupError;
use crate::query::Frame;

/// One compact ciphertext per subtable: 16 bytes, and the bits of one prime for each slot.
///
/// A point of the circle is never zero, so a slot without an index asks for the last column: where padded slots must add
/// nothing, the application leaves that column zero.
#[derive(Clone, Debug)]
pub struct Compact {
    frame: Frame,
    parameters: QueryParameters,
    bootstrap: Bootstrap,
}

impl Compact {
    /// Queries of this shape; the frame's level is that of the lookup, at most the bootstrap's output.
    ///
    /// # Errors
    /// If the parameters are not made for bootstrapping or their bootstrap ends below the frame's level.
    pub fn new(frame: Frame) -> Result<Self, LookupError> {
        let bootstrap = plan(&frame.parameters)?;
        let parameters = QueryParameters::new(frame.parameters.rlwe())?;
        if bootstrap.output_level() < frame.level {
            let (found, needed) = (bootstrap.output_level().to_string(), format!("level {} or more", frame.level));
            return Err(LookupError::Query { what: "the level after the bootstrap", found, needed });
        }
        Ok(Compact { frame, parameters, bootstrap })
    }

    pub(super) fn frame(&self) -> &Frame {
        &self.frame
    }

    /// The functional bootstrap it takes.
    pub fn bootstrap(&self) -> &Bootstrap {
        &self.bootstrap
    }

    pub(super) fn vector_bytes(&self) -> usize {
        self.parameters.byte_len()
    }

    pub(super) fn key_plan(&self) -> KeyPlan {
        self.bootstrap.query_key_plan()
    }

    /// One string for the indices of one subtable.
    pub(super) fn encrypt_vector(
        &self,
        secret: &SecretKey,
        indices: &[Option<usize>],
        rng: &mut SecretRng,
    ) -> Result<Vec<u8>, LookupError> {
        let columns = self.frame.columns;
        let element = |i: usize| {
            let slot = self.bootstrap.slot_of(self.parameters.coefficient(i));
            torus(indices.get(slot).copied().flatten().unwrap_or(columns - 1), columns)
        };
        let elements: Vec<f64> = (0..self.parameters.len()).map(element).collect();
        let query = QuerySecret::of(secret, &self.parameters)?.encrypt(&elements, rng)?;
        Ok(query.to_bytes(&self.parameters))
    }

    pub(super) fn read_vector(&self, bytes: &[u8]) -> Result<rlwe::Query, LookupError> {
        Ok(rlwe::Query::from_bytes(&self.parameters, bytes)?)
    }

    pub(super) fn open(
        &self,
        evaluator: &Evaluator<'_>,
        bootstrapper: &Bootstrapper,
        query: &rlwe::Query,
    ) -> Result<Ciphertext, LookupError> {
        let exponentials = bootstrapper.exponential_of_query(evaluator, &self.parameters, query)?;
        Ok(evaluator.drop_to(&exponentials, self.frame.level)?)
    }
}

fn plan(parameters: &CkksParameters) -> Result<Bootstrap, LookupError> {
    Ok(Bootstrap::new(parameters, parameters.slots(), SlotValues::Real)?)
}

/// `J_j`, whose exponential is [`alpha`](crate::alpha)`(j, p)`.
fn torus(index: usize, columns: usize) -> f64 {
    let sign = if index.is_multiple_of(2) { 1.0 } else { -1.0 };
    sign * (2 * index + 1) as f64 / (4 * columns) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alpha;
    use unspoken_ckks::Complex64;

    #[test]
    fn exponentials_of_the_torus_elements_are_the_alphas() {
        for (j, p) in [(0, 4), (3, 8), (254, 256), (511, 1024), (1023, 1024)] {
            let found = Complex64::cis(2.0 * std::f64::consts::PI * torus(j, p));
            assert!((found - alpha(j, p)).norm() < 1e-12, "{j} of {p}");
        }
    }
}
