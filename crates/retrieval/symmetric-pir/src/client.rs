//! The client: blinds names and reads the keys of their records from a response.

use std::borrow::Borrow;
use std::fmt;

use rand_core_of_voprf::{OsRng, TryCryptoRng, TryRngCore};
use voprf::VoprfClient;
use zeroize::{Zeroize, Zeroizing};

use crate::error::SymmetricPirError;
use crate::oprf::{Output, PublicElement, Response, Suite, failed, request_bytes, wiped};
use crate::record::RecordKey;
use crate::sealing::{Name, Sealing};

/// A name, blinded with a random scalar of its own. Wiped when dropped. Blind a name anew for each request: a service
/// that gets the same element twice knows that the same name was asked for.
pub struct Blinded {
    input: Zeroizing<Vec<u8>>,
    state: Box<VoprfClient<Suite>>,
    element: [u8; request_bytes(1)],
}

/// Does not print the name or the blinding.
impl fmt::Debug for Blinded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blinded").finish_non_exhaustive()
    }
}

impl Blinded {
    /// Blinds a name. The element that the service gets is uniformly random, whatever the name is.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn new(sealing: &Sealing, name: Name<'_>) -> Result<Self, SymmetricPirError> {
        Self::of_input(Zeroizing::new(sealing.input(name).to_vec()), &mut OsRng)
    }

    pub(crate) fn of_input<R: TryRngCore + TryCryptoRng>(
        input: Zeroizing<Vec<u8>>,
        rng: &mut R,
    ) -> Result<Self, SymmetricPirError> {
        let blinded = VoprfClient::blind(&input, rng).map_err(failed)?;
        Ok(Blinded { input, state: Box::new(blinded.state), element: blinded.message.serialize().into() })
    }

    /// The bytes of a request with these names.
    pub fn request<B: Borrow<Blinded>>(names: &[B]) -> Vec<u8> {
        names.iter().flat_map(|name| name.borrow().element).collect()
    }

    /// The keys of the records with these names, in the order of the names. The response is untrusted bytes, and
    /// answers a request with all the names.
    ///
    /// # Errors
    /// If the response is malformed, or [`SymmetricPirError::Proof`] if it was not computed with the secret of the
    /// public key from exactly this request.
    pub fn finalize<B: Borrow<Blinded>>(
        sealing: &Sealing,
        names: &[B],
        response: &[u8],
    ) -> Result<Vec<RecordKey>, SymmetricPirError> {
        let outputs = outputs(sealing.public_element(), names, response)?;
        Ok(outputs.iter().map(RecordKey::derive).collect())
    }
}

/// The outputs of the function for blinded names, after a check of the proof.
pub(crate) fn outputs<B: Borrow<Blinded>>(
    public_key: PublicElement,
    names: &[B],
    response: &[u8],
) -> Result<Vec<Output>, SymmetricPirError> {
    let Response { elements, proof } = Response::read(response, names.len())?;
    let inputs: Vec<&[u8]> = names.iter().map(|name| name.borrow().input.as_slice()).collect();
    let states: Vec<VoprfClient<Suite>> = names.iter().map(|name| (*name.borrow().state).clone()).collect();
    let finalized = VoprfClient::batch_finalize(&inputs, &states, &elements, &proof, public_key).map_err(failed)?;
    let output = |output: Result<_, voprf::Error>| {
        let mut output = output.map_err(failed)?;
        let wiped = wiped(AsRef::<[u8]>::as_ref(&output));
        AsMut::<[u8]>::as_mut(&mut output).zeroize();
        Ok(wiped)
    };
    finalized.map(output).collect()
}
