//! The planner, which chooses how to encrypt.

use unspoken_ckks::CkksParameters;
use unspoken_rlwe::ZeroEncryption;

/// Requirements and resources of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Number of vectors that arrive at once and must be encrypted with one addition each; 0 if there is no such burst.
    pub burst: usize,
    /// Bytes of memory for precomputed encryptions of zero.
    pub memory_bytes: usize,
}

/// A way to encrypt, and the memory and bytes it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncryptionPlan {
    /// Number of encryptions of zero to precompute; 0 for encryption without a pool.
    pub zeros: usize,
    /// Whether ciphertexts store one component as a seed.
    pub seeded: bool,
    /// Bytes of memory of the zeros.
    pub memory_bytes: usize,
    /// Bytes of an encrypted vector without its header.
    pub sent_bytes: usize,
}

impl EncryptionPlan {
    /// Chooses for vectors of at most `level`, for a client that holds the secret or a public key.
    ///
    /// With the secret, ciphertexts are seeded. The number of zeros is the smaller of the burst and the number of
    /// entries that fit into the memory, which may be 0.
    pub fn choose(parameters: &CkksParameters, level: usize, holds_secret: bool, needs: Needs) -> EncryptionPlan {
        let entry = ZeroEncryption::memory_bytes(parameters.rlwe(), parameters.basis_up_to(level), holds_secret);
        let zeros = needs.burst.min(needs.memory_bytes / entry);
        EncryptionPlan {
            zeros,
            seeded: holds_secret,
            memory_bytes: zeros * entry,
            sent_bytes: ZeroEncryption::byte_len(parameters.rlwe(), parameters.basis(level), holds_secret),
        }
    }
}

#[cfg(test)]
mod tests {
    use unspoken_ckks::Preset;

    use super::*;

    #[test]
    fn bursts_get_as_many_zeros_as_memory_allows() {
        let parameters = Preset::find("insecure_n11_linear_depth4_scale30").unwrap().build().unwrap();
        let entry = ZeroEncryption::memory_bytes(parameters.rlwe(), parameters.basis(4), true);
        let choose =
            |secret, burst, memory_bytes| EncryptionPlan::choose(&parameters, 4, secret, Needs { burst, memory_bytes });
        assert_eq!(choose(true, 0, 100 * entry).zeros, 0);
        assert_eq!(choose(true, 5, entry - 1).zeros, 0);
        assert_eq!(choose(true, 5, 3 * entry + 1).zeros, 3);
        assert_eq!(
            choose(true, 5, 100 * entry),
            EncryptionPlan { zeros: 5, memory_bytes: 5 * entry, ..choose(true, 0, 0) }
        );
        // Without the secret an entry is twice as large.
        let public = choose(false, 5, 3 * entry + 1);
        assert_eq!((public.zeros, public.seeded), (1, false));
        assert!(public.sent_bytes > 19 * choose(true, 0, 0).sent_bytes / 10);
    }
}
