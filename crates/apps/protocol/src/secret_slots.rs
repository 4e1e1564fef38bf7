//! Slots that are secret.

use std::fmt;
use std::ops::{Deref, DerefMut};

use unspoken_ckks::Complex64;
use zeroize::Zeroize;

/// Slots of a query or of a decrypted answer, wiped when dropped. They do not print.
pub struct SecretSlots(Vec<Complex64>);

impl SecretSlots {
    /// Takes slots, which must not have copies elsewhere.
    pub fn new(slots: Vec<Complex64>) -> Self {
        SecretSlots(slots)
    }

    /// Keeps the first slots and wipes the others.
    pub fn truncate(&mut self, slots: usize) {
        wipe(self.0.get_mut(slots..).unwrap_or_default());
        self.0.truncate(slots);
    }
}

impl Deref for SecretSlots {
    type Target = [Complex64];

    fn deref(&self) -> &[Complex64] {
        &self.0
    }
}

impl DerefMut for SecretSlots {
    fn deref_mut(&mut self) -> &mut [Complex64] {
        &mut self.0
    }
}

impl fmt::Debug for SecretSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretSlots").finish_non_exhaustive()
    }
}

impl Drop for SecretSlots {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

fn wipe(slots: &mut [Complex64]) {
    slots.iter_mut().for_each(|slot| {
        slot.re.zeroize();
        slot.im.zeroize();
    });
}
