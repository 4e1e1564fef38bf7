//! Making a collection, and its private half.

use std::fmt;

use unspoken_exact::{ExactParameters, PRESETS, Preset, Scheme};
use unspoken_protocol::{append_checksum, checked};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{PublicKey, SecretKey};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::columns::{self, Column};
use crate::description::{Description, Fields, Fingerprint, check_counts, check_room, token_hash};
use crate::error::SumsError;

/// What a collection collects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionOptions {
    /// The columns, in the order of a contribution's values.
    pub columns: Vec<Column>,
    /// Most contributions that are added: 2 to 2^22.
    pub most_contributions: u32,
    /// Contributions below which the service does not release the sum: 2 to the most contributions.
    pub least_contributions: u32,
}

/// Makes a collection: its public half for the service and the contributors, and its private half for the collector.
/// The parameters are those with the smallest contributions with which no sum can wrap around and the noise of that
/// many sums fits. They are secure.
///
/// # Errors
/// If an option is out of range, no parameters hold the sums, or the system has no randomness.
pub fn create(options: &CollectionOptions) -> Result<(Description, CollectorKey), SumsError> {
    generate(&choose(options)?, options)
}

/// Like [`create`], with a named parameter set, which may be an insecure one: for tests.
///
/// # Errors
/// As for [`create`], or if there is no such parameter set.
pub fn create_with_preset(
    preset: &str,
    options: &CollectionOptions,
) -> Result<(Description, CollectorKey), SumsError> {
    generate(&Preset::find(preset)?.build(Scheme::Bgv)?, options)
}

/// The secure parameters with the smallest contributions that hold the sums.
fn choose(options: &CollectionOptions) -> Result<ExactParameters, SumsError> {
    let CollectionOptions { columns, most_contributions: most, least_contributions: least } = options;
    check_counts(*most, *least)?;
    columns::check(columns)?;
    let mut last = None;
    // In the order of the list, the lengths of ciphertexts grow.
    for preset in PRESETS.iter().filter(|preset| !preset.is_insecure()) {
        let parameters = preset.build(Scheme::Bgv)?;
        match check_room(&parameters, columns, *most) {
            Ok(()) => return Ok(parameters),
            Err(error) => last = last.or(Some((error, parameters.plain_modulus()))).map(|(first, t)| {
                let larger = parameters.plain_modulus() > t;
                if larger { (check_room(&parameters, columns, *most).err().unwrap_or(first), parameters.plain_modulus()) } else { (first, t) }
            }),
        }
    }
    unreachable!()
}
