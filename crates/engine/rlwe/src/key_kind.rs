//! The kinds of switching keys.

use std::fmt;

use unspoken_ring::{Basis, Ring};

use crate::galois;

/// The kind of a switching key: the secret that it switches from. All kinds switch to the secret key itself, except the
/// kinds that name another secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyKind {
    /// From `s^2`: for products.
    Relinearisation,
    /// From `s` to the sparse secret of a bootstrap, at the lowest level.
    Encapsulation,
    /// From the secret of compact queries ([`CompactQuery`](crate::CompactQuery)) to the sparse secret of a bootstrap.
    QueryEncapsulation,
    /// From the sparse secret of a bootstrap to `s`.
    Decapsulation,
    /// From the sparse secret of subring queries ([`SubringQuery`](crate::SubringQuery)) to `s`.
    SubringQuery,
    /// From `s` to the secret of the ring of half the degree ([`Ciphertext::rounded`](crate::Ciphertext::rounded)).
    HalfRing,
    /// From the image of `s` under `X -> X^element`: for rotations and conjugation.
    Galois {
        /// The exponent.
        element: u64,
    },
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyKind::Relinearisation => f.write_str("relinearisation key"),
            KeyKind::Encapsulation => f.write_str("encapsulation key"),
            KeyKind::QueryEncapsulation => f.write_str("encapsulation key of queries"),
            KeyKind::Decapsulation => f.write_str("decapsulation key"),
            KeyKind::SubringQuery => f.write_str("key of subring queries"),
            KeyKind::HalfRing => f.write_str("key to the ring of half the degree"),
            KeyKind::Galois { element } => write!(f, "Galois key {element}"),
        }
    }
}

impl KeyKind {
    /// The code of the kind in messages: the Galois element, or an even number, because Galois elements are odd.
    pub fn code(self) -> u64 {
        match self {
            KeyKind::Relinearisation => 0,
            KeyKind::Encapsulation => 2,
            KeyKind::QueryEncapsulation => 4,
            KeyKind::Decapsulation => 6,
            KeyKind::HalfRing => 8,
            KeyKind::SubringQuery => 10,
            KeyKind::Galois { element } => element,
        }
    }

    /// The kind with this [`KeyKind::code`], if the ring has one.
    pub fn from_code(ring: &Ring, code: u64) -> Option<Self> {
        match code {
            0 => Some(KeyKind::Relinearisation),
            2 => Some(KeyKind::Encapsulation),
            4 => Some(KeyKind::QueryEncapsulation),
            6 => Some(KeyKind::Decapsulation),
            8 => Some(KeyKind::HalfRing),
            10 => Some(KeyKind::SubringQuery),
            element if element % 2 == 1 && element != 1 && element < galois::order(ring) => {
                Some(KeyKind::Galois { element })
            }
            _ => None,
        }
    }

    /// Whether a key of this kind is a gadget key; the others have one row over chain primes alone.
    pub(crate) fn is_gadget(self) -> bool {
        !matches!(self, KeyKind::Encapsulation | KeyKind::QueryEncapsulation)
    }

    /// Number of rows of a key for ciphertexts of `chain` primes, and their basis. An encapsulation key has one row
    /// over chain primes alone.
    pub(crate) fn rows(self, ring: &Ring, chain: usize) -> (usize, Basis) {
        match self {
            KeyKind::Encapsulation | KeyKind::QueryEncapsulation => (1, Basis::chain(chain)),
            _ => (ring.digit_count(chain), ring.gadget_key_basis(chain)),
        }
    }
}
