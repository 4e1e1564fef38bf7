//! The contributor's half: sends encrypted contributions.

use std::borrow::Borrow;

use unspoken_protocol::{ClientHalf, Registration, impl_registered_client};

use crate::contribution::Contribution;
use crate::description::{Description, Fingerprint};
use crate::error::SumsError;
use crate::messages;
use crate::receipt::Receipt;

/// Which collection a contributor sends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The collection with this fingerprint, which the collector told the contributor.
    Fingerprint(Fingerprint),
    /// The first that the service describes, and the same one later. A service that describes one with a key of its own
    /// can read every contribution.
    First,
}

/// A client that sends contributions, which [`ContributionEncryptor`](crate::ContributionEncryptor) encrypted.
pub struct SumsContributor {
    description: Description,
    registration: Registration,
}

impl_registered_client!(SumsContributor);

impl ClientHalf for SumsContributor {
    type Error = SumsError;
    type Description = Description;
    /// The collection that is trusted.
    type Model = Trust;
    type Question = Contribution;
    type Encoded = Contribution;
    type Answer = Receipt;

    const VERB: &'static str = "sending contributions";

    fn open(description: Description, trust: Self::Model, stored: Option<&[u8]>) -> Result<Self, SumsError> {
        if let Trust::Fingerprint(known) = trust
            && known != description.fingerprint()
        {
            let needed = format!("{known}, which this client was given; do not send anything to this service");
            return Err(SumsError::mismatch("fingerprint of a collection", description.fingerprint(), needed));
        }
        Ok(SumsContributor { description, registration: Registration::stored_or_new(stored)? })
    }

    fn description(&self) -> &Description {
        &self.description
    }

    /// Refuses another collection under the same name: contributions are encrypted for one public key.
    fn check_change(earlier: &Description, now: &Description) -> Result<(), SumsError> {
        check_change(earlier, now)
    }

    fn batch(&self) -> usize {
        self.description.batch()
    }

    fn query_bytes(&self, questions: usize) -> usize {
        self.description.query_bytes(questions)
    }

    fn answer_bytes(&self, questions: usize) -> usize {
        messages::receipts_bytes(questions)
    }

    /// Contributions are encrypted already: a repeated call sends the same bytes, which count once.
    fn encode<Q: Borrow<Contribution>>(&self, contributions: &[Q]) -> Result<Vec<Contribution>, SumsError> {
        let needed = self.description.contribution_bytes();
        let fits = |contribution: &&Q| (*contribution).borrow().bytes().len() == needed;
        match contributions.iter().all(|contribution| fits(&contribution)) {
            true => Ok(contributions.iter().map(|contribution| contribution.borrow().clone()).collect()),
            false => Err(SumsError::mismatch("contribution", "one of another collection", "one of this collection")),
        }
    }

    fn query(&mut self, contributions: &[Contribution]) -> Result<Vec<u8>, SumsError> {
        let most = self.batch();
        match (1..=most).contains(&contributions.len()) {
            true => Ok(messages::contribute(contributions)),
            false => {
                let found = format!("{} contributions", contributions.len());
                Err(SumsError::mismatch("request", found, format!("1 to {most}")))
            }
        }
    }

    fn check_answer(&self, answer: &[u8], contributions: usize) -> Result<(), SumsError> {
        messages::read_receipts(answer, contributions).map(drop)
    }

    fn read(&self, answer: &[u8], contributions: &[Contribution]) -> Result<Vec<Receipt>, SumsError> {
        messages::read_receipts(answer, contributions.len())
    }
}

/// Refuses another collection under the same name.
pub(crate) fn check_change(earlier: &Description, now: &Description) -> Result<(), SumsError> {
    if earlier.fingerprint() == now.fingerprint() {
        return Ok(());
    }
    let needed = format!(
        "{}, as before; if the collector confirms the new collection, delete this client's state directory, otherwise \
         do not trust this service",
        earlier.fingerprint()
    );
    Err(SumsError::mismatch("fingerprint of a collection", now.fingerprint(), needed))
}
