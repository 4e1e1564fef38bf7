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
    /// From the image of the sparse secret of a bootstrap under `X -> X^element` to `s`, for raised ciphertexts alone
    /// ([`Ciphertext::raise`](crate::Ciphertext::raise)).
    Decapsulation {
        /// The exponent; 1 for the secret itself.
        element: u64,
    },
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

/// The code of a decapsulation key, without its element, which comes after so many bits.
const DECAPSULATION: u64 = 6;
const ELEMENT_BITS: u32 = 8;

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyKind::Relinearisation => f.write_str("relinearisation key"),
            KeyKind::Encapsulation => f.write_str("encapsulation key"),
            KeyKind::QueryEncapsulation => f.write_str("encapsulation key of queries"),
            KeyKind::Decapsulation { element } => write!(f, "decapsulation key {element}"),
            KeyKind::SubringQuery => f.write_str("key of subring queries"),
            KeyKind::HalfRing => f.write_str("key to the ring of half the degree"),
            KeyKind::Galois { element } => write!(f, "Galois key {element}"),
        }
    }
}

impl KeyKind {
    /// The code of the kind in messages: the Galois element, or an even number, because Galois elements are odd. The
    /// code of a decapsulation key is 6 plus 256 times its element.
    pub fn code(self) -> u64 {
        match self {
            KeyKind::Relinearisation => 0,
            KeyKind::Encapsulation => 2,
            KeyKind::QueryEncapsulation => 4,
            KeyKind::Decapsulation { element } => DECAPSULATION | element << ELEMENT_BITS,
            KeyKind::HalfRing => 8,
            KeyKind::SubringQuery => 10,
            KeyKind::Galois { element } => element,
        }
    }

    /// The kind with this [`KeyKind::code`], if the ring has one.
    pub fn from_code(ring: &Ring, code: u64) -> Option<Self> {
        let is_element = |element: u64| element % 2 == 1 && element < galois::order(ring);
        match code {
            0 => Some(KeyKind::Relinearisation),
            2 => Some(KeyKind::Encapsulation),
            4 => Some(KeyKind::QueryEncapsulation),
            8 => Some(KeyKind::HalfRing),
            10 => Some(KeyKind::SubringQuery),
            element if element != 1 && is_element(element) => Some(KeyKind::Galois { element }),
            _ => {
                let (element, kind) = (code >> ELEMENT_BITS, code & ((1 << ELEMENT_BITS) - 1));
                (kind == DECAPSULATION && is_element(element)).then_some(KeyKind::Decapsulation { element })
            }
        }
    }

    /// Whether a key of this kind has a row for each digit; the others have one row.
    pub(crate) fn is_gadget(self) -> bool {
        !matches!(self, KeyKind::Encapsulation | KeyKind::QueryEncapsulation | KeyKind::Decapsulation { .. })
    }

    /// Number of rows of a key for ciphertexts of `chain` primes, and their basis. An encapsulation key has one row
    /// over chain primes alone, a decapsulation key one row over all primes.
    pub(crate) fn rows(self, ring: &Ring, chain: usize) -> (usize, Basis) {
        match self {
            KeyKind::Encapsulation | KeyKind::QueryEncapsulation => (1, Basis::chain(chain)),
            KeyKind::Decapsulation { .. } => (1, ring.gadget_key_basis(chain)),
            _ => (ring.digit_count(chain), ring.gadget_key_basis(chain)),
        }
    }
}
