//! Authenticated encryption of entries: XChaCha20-Poly1305 under a key that the caller keeps.

use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{KeyInit, Tag, XChaCha20Poly1305, XNonce};
use unspoken_ring::RingError;
use zeroize::zeroize_stack;

use crate::error::EncryptError;

/// Bytes of a nonce. Random nonces of this length do not collide in practice.
pub(crate) const NONCE_BYTES: usize = 24;
/// Bytes of a tag.
pub(crate) const TAG_BYTES: usize = 16;

/// A key that seals and opens. It is wiped when dropped. It is on the heap, so moving it leaves no copy.
pub(crate) struct SealingKey(Box<XChaCha20Poly1305>);

/// Bytes of stack that are wiped after a key is made, more than the cipher uses.
const KEY_STACK_BYTES: usize = 4096;

impl SealingKey {
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        #[inline(never)]
        fn boxed(key: &[u8; 32]) -> Box<XChaCha20Poly1305> {
            Box::new(XChaCha20Poly1305::new(key.into()))
        }
        let cipher = boxed(key);
        zeroize_stack::<KEY_STACK_BYTES>();
        SealingKey(cipher)
    }

    /// Encrypts in place, bound to `context`. Returns the nonce and the tag.
    pub(crate) fn seal(
        &self,
        context: &[u8],
        bytes: &mut [u8],
    ) -> Result<([u8; NONCE_BYTES], [u8; TAG_BYTES]), EncryptError> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(RingError::from)?;
        let tag = self.0.encrypt_inout_detached(&XNonce::from(nonce), context, bytes.into());
        let tag = tag.map_err(|_| std::io::Error::other("an entry is too long to be sealed"))?;
        Ok((nonce, tag.into()))
    }

    /// Decrypts in place. Returns whether the bytes were sealed for `context`.
    pub(crate) fn open(
        &self,
        context: &[u8],
        nonce: [u8; NONCE_BYTES],
        tag: [u8; TAG_BYTES],
        bytes: &mut [u8],
    ) -> bool {
        self.0.decrypt_inout_detached(&XNonce::from(nonce), context, bytes.into(), &Tag::from(tag)).is_ok()
    }
}
