//! Sealed bytes: XChaCha20-Poly1305 under a key that the caller keeps.

use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{KeyInit, Tag, XChaCha20Poly1305, XNonce};
use unspoken_ring::RingError;
use zeroize::zeroize_stack;

use crate::error::EncryptError;

/// Bytes of a nonce: random ones never meet.
pub(crate) const NONCE_BYTES: usize = 24;
/// Bytes of a tag.
pub(crate) const TAG_BYTES: usize = 16;

/// A key that seals and opens. Wiped when dropped. On the heap: moving it leaves no copy behind.
pub(crate) struct SealingKey(Box<XChaCha20Poly1305>);

/// Stack that is wiped after a key was made: more than the cipher takes.
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

    /// Encrypts in place, bound to `context`; the nonce and the tag.
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

    /// Decrypts in place; whether the bytes are what was sealed for `context`.
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
