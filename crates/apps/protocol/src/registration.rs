//! The bundle of an application that needs no evaluation keys: it registers a client with a service. It has a random
//! number, so that clients without tokens have bundles of their own.

use std::io::{Read, Write};
use std::sync::atomic::AtomicBool;

use unspoken_ring::SecretRng;
use unspoken_rlwe::RlweError;
use zeroize::Zeroizing;

use crate::client_half::KeyGenerator;
use crate::error::ProtocolError;
use crate::key_set::KeySetId;
use crate::server_half::KeyLimits;

/// What a client of an application without evaluation keys uploads instead of keys, and stores instead of a secret: 8
/// fixed bytes and a random number. Applications of a service share it.
#[derive(Clone, PartialEq, Eq)]
pub struct Registration([u8; Registration::BYTES]);

/// The name of the first application that had these bundles: stored ones stay valid.
const MAGIC: [u8; 8] = *b"UNSEAL\0\x01";

impl Registration {
    /// Bytes of a bundle.
    pub const BYTES: usize = 24;

    /// Limits on bundles: registrations take no memory.
    pub const KEY_LIMITS: KeyLimits =
        KeyLimits { format: 1, front_bytes: Self::BYTES, max_bytes: Self::BYTES as u64, memory_bytes: 0 };

    /// The key set of applications without evaluation keys.
    pub fn key_set() -> KeySetId {
        KeySetId::new("no evaluation keys", &[0; 16])
    }

    /// A new one.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn generate() -> Result<Self, ProtocolError> {
        let mut bundle = [0; Self::BYTES];
        let (magic, number) = bundle.split_at_mut(MAGIC.len());
        magic.copy_from_slice(&MAGIC);
        SecretRng::from_os().map_err(RlweError::from)?.fill(number);
        Ok(Registration(bundle))
    }

    /// Reads one of untrusted bytes. `what` names them.
    ///
    /// # Errors
    /// If they are not exactly one.
    pub fn from_bytes(what: &'static str, bytes: &[u8]) -> Result<Self, ProtocolError> {
        match bytes.try_into() {
            Ok(bundle) if bytes.starts_with(&MAGIC) => Ok(Registration(bundle)),
            _ => Err(ProtocolError::mismatch(what, "other bytes", "the 24 bytes of a client without keys")),
        }
    }

    /// The stored one, or a new one.
    ///
    /// # Errors
    /// If the stored bytes are not one, or the system has no randomness.
    pub fn stored_or_new(stored: Option<&[u8]>) -> Result<Self, ProtocolError> {
        match stored {
            Some(stored) => Self::from_bytes("stored secret key", stored),
            None => Self::generate(),
        }
    }

    /// Reads a whole bundle of untrusted bytes.
    ///
    /// # Errors
    /// If reading fails, or the bytes are not exactly one.
    pub fn read(bundle: &mut impl Read) -> Result<Self, ProtocolError> {
        let mut bytes = Vec::new();
        let taken = bundle.take(Self::BYTES as u64 + 1).read_to_end(&mut bytes);
        taken.map_err(RlweError::Io)?;
        Self::from_bytes("keys", &bytes)
    }
}

/// There is no secret key and there are no evaluation keys; the bundle registers the client.
impl KeyGenerator for Registration {
    type KeyError = ProtocolError;

    fn secret_bytes(&self) -> Result<Zeroizing<Vec<u8>>, ProtocolError> {
        Ok(Zeroizing::new(self.0.to_vec()))
    }

    fn bundle_contents(&self) -> Vec<u8> {
        self.0.to_vec()
    }

    fn key_bytes(&self) -> u64 {
        Self::BYTES as u64
    }

    fn write_keys(
        &self,
        out: &mut impl Write,
        mut progress: impl FnMut(usize, usize),
        _cancel: &AtomicBool,
    ) -> Result<(), ProtocolError> {
        out.write_all(&self.0).map_err(RlweError::Io)?;
        progress(1, 1);
        Ok(())
    }
}

/// Implements [`KeyGenerator`] for a client half whose field `registration` is a [`Registration`]: it has no secret key
/// and no evaluation keys. A macro, because a blanket implementation would overlap with the one for
/// [`CkksClientHalf`](crate::CkksClientHalf).
#[macro_export]
macro_rules! impl_registered_client {
    ($client:ty) => {
        impl $crate::KeyGenerator for $client {
            type KeyError = $crate::ProtocolError;

            fn secret_bytes(&self) -> ::std::result::Result<$crate::Zeroizing<::std::vec::Vec<u8>>, Self::KeyError> {
                self.registration.secret_bytes()
            }

            fn bundle_contents(&self) -> ::std::vec::Vec<u8> {
                self.registration.bundle_contents()
            }

            fn key_bytes(&self) -> u64 {
                self.registration.key_bytes()
            }

            fn write_keys(
                &self,
                out: &mut impl ::std::io::Write,
                progress: impl FnMut(usize, usize),
                cancel: &::std::sync::atomic::AtomicBool,
            ) -> ::std::result::Result<(), Self::KeyError> {
                self.registration.write_keys(out, progress, cancel)
            }
        }
    };
}

/// Implements [`KeyLoader`](crate::KeyLoader) for a server half that needs no evaluation keys: a client uploads a
/// [`Registration`]. A macro, because a blanket implementation would overlap with the one for
/// [`CkksServerHalf`](crate::CkksServerHalf).
#[macro_export]
macro_rules! impl_registering_server {
    ($server:ty $(where $generic:ident: $bound:path)?) => {
        impl$(<$generic: $bound>)? $crate::KeyLoader for $server {
            type Keys = ();
            type KeyError = $crate::ProtocolError;

            fn key_set(&self) -> $crate::KeySetId {
                $crate::Registration::key_set()
            }

            fn key_limits(&self) -> $crate::KeyLimits {
                $crate::Registration::KEY_LIMITS
            }

            fn loaded_key_bytes(&self, front: &[u8]) -> ::std::result::Result<u64, Self::KeyError> {
                $crate::Registration::from_bytes("start of the keys", front).map(|_| 0)
            }

            fn load_keys(&self, mut bundle: &mut dyn ::std::io::Read) -> ::std::result::Result<(), Self::KeyError> {
                $crate::Registration::read(&mut bundle).map(drop)
            }

            fn check_keys(&self, (): &()) -> ::std::result::Result<(), Self::KeyError> {
                Ok(())
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_is_read_exactly() {
        let (one, other) = (Registration::generate().unwrap(), Registration::generate().unwrap());
        assert!(one != other);
        let mut bytes = Vec::new();
        one.write_keys(&mut bytes, |_, _| {}, &AtomicBool::new(false)).unwrap();
        assert!(Registration::read(&mut bytes.as_slice()).unwrap() == one);
        assert!(Registration::stored_or_new(Some(&one.secret_bytes().unwrap())).unwrap() == one);
        let mut wrong = bytes.clone();
        wrong[0] ^= 1;
        for bytes in [&bytes[1..], &[&bytes[..], &[0]].concat(), &wrong, &[]] {
            let error = Registration::read(&mut &bytes[..]).err().unwrap().to_string();
            assert_eq!(error, "keys: found other bytes, needed the 24 bytes of a client without keys");
        }
    }
}
