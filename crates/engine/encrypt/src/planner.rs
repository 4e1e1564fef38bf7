//! Which way to encrypt.

use unspoken_ckks::CkksParameters;
use unspoken_rlwe::ZeroEncryption;

/// What a client has to give and what it asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Vectors that come at once and must not wait for more than an addition; 0 if none must.
    pub burst: usize,
    /// Memory to keep encryptions of zero in, in bytes.
    pub memory_bytes: usize,
}

/// A way to encrypt, and what it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Encryptions of zero to keep ready; 0 for none, which is encryption on the spot.
    pub zeros: usize,
    /// Whether one half of what is sent is a seed.
    pub seeded: bool,
    /// Bytes the zeros take in memory.
    pub memory_bytes: usize,
    /// Bytes of an encrypted vector without its header.
    pub sent_bytes: usize,
}

impl Plan {
    /// Chooses for vectors of at most `level`, for a client that holds the secret or a public key.
    ///
    /// With the secret everything is seeded. Where a burst is expected and memory allows at least one entry, that many
    /// zeros are kept as the burst or the memory asks, whichever is less; otherwise none.
    pub fn choose(parameters: &CkksParameters, level: usize, holds_secret: bool, needs: Needs) -> Plan {
        let chain = parameters.chain(level);
        let entry = ZeroEncryption::memory_bytes(parameters.rlwe(), chain, holds_secret);
        let zeros = needs.burst.min(needs.memory_bytes / entry);
        Plan {
            zeros,
            seeded: holds_secret,
            memory_bytes: zeros * entry,
            sent_bytes: ZeroEncryption::byte_len(parameters.rlwe(), chain, holds_secret),
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
        let entry = ZeroEncryption::memory_bytes(parameters.rlwe(), parameters.chain(4), true);
        let choose = |secret, burst, memory_bytes| Plan::choose(&parameters, 4, secret, Needs { burst, memory_bytes });
        assert_eq!(choose(true, 0, 100 * entry).zeros, 0);
        assert_eq!(choose(true, 5, entry - 1).zeros, 0);
        assert_eq!(choose(true, 5, 3 * entry + 1).zeros, 3);
        assert_eq!(choose(true, 5, 100 * entry), Plan { zeros: 5, memory_bytes: 5 * entry, ..choose(true, 0, 0) });
        // Without the secret an entry is twice as large.
        let public = choose(false, 5, 3 * entry + 1);
        assert_eq!((public.zeros, public.seeded), (1, false));
        assert!(public.sent_bytes > 19 * choose(true, 0, 0).sent_bytes / 10);
    }
}
