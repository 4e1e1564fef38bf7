//! The public masks of dense tables: which ones a table has.

use serde::{Deserialize, Serialize};
use unspoken_ring::{Seed, derive_bytes};

use crate::parameters::PirParameters;

/// Seed of the public masks of one database. It is drawn when the database is built, and stays when records change.
///
/// All clients of a database have the same masks, because the packings of its tables are made for them. An attacker can
/// reduce the lattice of these masks once and use the result for every query, so databases do not share them.
///
/// A client takes the seed from the service and need not trust it. The masks are the output of a stream cipher whose
/// key is a BLAKE3 hash of the seed in a domain of its own, so a service that wants masks with some property can only
/// try seeds: at most 2^128, and each trial gives masks that look uniform. A lattice of `d` dimensions whose shortest
/// vector is `c` times shorter than expected occurs once in about `c^d` uniform ones. The lattices to attack here have
/// more than 2,048 dimensions, so even all 2^128 trials gain `c = 2^(1/16)`: a fraction of a bit of security. A service
/// that gives two databases one seed, or hands out the seed of another service, only loses what the seed is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MaskSeed(pub [u8; 16]);

/// Streams of the public seed: the mask of the key for `X -> X^5`, the mask of the key for `X -> X^-1`, and from here
/// on the masks of blocks of rows.
pub(crate) const ROTATION_STREAM: u32 = 0;
pub(crate) const CONJUGATION_STREAM: u32 = 1;
pub(crate) const FIRST_ROW_STREAM: u32 = 2;

/// The seed that the masks of all queries to a table are expanded from. Without a seed of their own, tables have the
/// masks that all databases of earlier releases share.
pub(crate) fn public_seed(parameters: &PirParameters, masks: Option<MaskSeed>) -> Seed {
    let (mut seed, fingerprint) = (Seed([0; 32]), parameters.fingerprint());
    match masks {
        None => derive_bytes("unspoken 2026 masks of dense retrieval tables", &[&fingerprint], &mut seed.0),
        // Both parts have a fixed length.
        Some(MaskSeed(own)) => {
            derive_bytes("unspoken 2026 masks of one dense retrieval database", &[&fingerprint, &own], &mut seed.0);
        }
    }
    seed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Preset;

    /// Known answers: clients and services of all releases must expand the same masks.
    #[test]
    fn seeds_of_masks_are_those_of_other_releases() {
        let parameters = Preset::InsecureN11.build().unwrap();
        let hex = |masks| -> String { public_seed(&parameters, masks).0.iter().map(|b| format!("{b:02x}")).collect() };
        let found = [None, Some(MaskSeed([0; 16])), Some(MaskSeed([1; 16]))].map(hex);
        let known = [
            "b5117f2404ce5b385e06db74dbe269b9ff3a133fdb1415093fc379861e0b2cd5",
            "93783f0231decc6935c1d5ee14e3527e992490b5bff47689ce052d547f4d4151",
            "2cd59d86ae897019ffa7ce6281ba47d1c7d3463e057d603c5b5ac06737b24a3f",
        ];
        assert_eq!(found, known);
    }
}
