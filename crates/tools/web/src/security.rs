//! The security of what a client sends.

use serde::Serialize;

/// A parameter set, and the security of what the client sends under it.
pub(crate) struct Security {
    /// Name of the parameter set.
    pub(crate) preset: String,
    /// What the client sends to the service.
    pub(crate) objects: Vec<SecuredObject>,
}

/// One kind of ciphertext or key that the service sees.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SecuredObject {
    /// Name of the object.
    what: String,
    /// Ring degree, or LWE dimension.
    dimension: usize,
    /// Bits of its modulus.
    log2_modulus: f64,
    /// Distribution of its secret.
    secret: String,
    /// Standard deviation of its errors.
    sigma: f64,
    /// Its security in bits, at most 128 for ternary and binary secrets.
    security_bits: f64,
}

impl From<unspoken_rlwe::SecuredObject> for SecuredObject {
    fn from(object: unspoken_rlwe::SecuredObject) -> Self {
        SecuredObject {
            what: object.what.into(),
            dimension: object.degree,
            log2_modulus: object.log2_modulus,
            secret: object.secret.to_string(),
            sigma: object.sigma,
            security_bits: object.security_bits,
        }
    }
}

impl From<unspoken_pir_scheme::SecuredObject> for SecuredObject {
    fn from(object: unspoken_pir_scheme::SecuredObject) -> Self {
        SecuredObject {
            what: object.what.into(),
            dimension: object.dimension,
            log2_modulus: object.log2_modulus,
            secret: object.secret.into(),
            sigma: object.sigma,
            security_bits: object.security_bits,
        }
    }
}
