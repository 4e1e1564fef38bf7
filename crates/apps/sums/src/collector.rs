//! The collector's half: asks for the sum, and decrypts it.
//!
//! # What the collector checks
//!
//! The counting coefficient equals the number that the service says, every sum is in the range of that number of
//! values, all other coefficients are zero, and the noise is small. This detects many contributions out of range, but
//! not all: there is no proof of range. `docs/sums.md` says who learns what, and what a contributor can spoil.
//!
//! A service that deviates can add multiples of one contribution, so published sums of its choice can reveal values.
//! Errors name the check that failed and no decrypted number; even so they should not be shown to the service.
//!
//! Slots or BFV, as in `unspoken.exact` of the Python package, would hide single contributions from the holder of the
//! key only statistically.

use std::borrow::Borrow;
use std::sync::Arc;

use unspoken_protocol::{ClientHalf, Registration, impl_registered_client};
use unspoken_rlwe::SecretKey;

use crate::collection::CollectorKey;
use crate::contributor::check_change;
use crate::description::Description;
use crate::error::SumsError;
use crate::messages;
use crate::results::Sums;

/// What a collector asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectorQuestion {
    /// How many contributions are there? Changes nothing.
    Count,
    /// What is the sum? Closes the collection.
    Close,
}

/// The answer to a [`CollectorQuestion`].
#[derive(Clone, Debug, PartialEq)]
pub enum CollectorAnswer {
    /// The number of contributions.
    Count(u32),
    /// The sums.
    Sums(Sums),
}

/// A client that has the private half of the collection.
pub struct SumsCollector {
    description: Description,
    key: Arc<CollectorKey>,
    secret: SecretKey,
    registration: Registration,
}

// The secret of the collection stays in its private file.
impl_registered_client!(SumsCollector);

impl ClientHalf for SumsCollector {
    type Error = SumsError;
    type Description = Description;
    /// The private half of the collection.
    type Model = Arc<CollectorKey>;
    type Question = CollectorQuestion;
    type Encoded = CollectorQuestion;
    type Answer = CollectorAnswer;

    const VERB: &'static str = "asking for sums";

    fn open(description: Description, key: Self::Model, stored: Option<&[u8]>) -> Result<Self, SumsError> {
        let secret = key.secret(&description)?;
        Ok(SumsCollector { description, key, secret, registration: Registration::stored_or_new(stored)? })
    }

    fn description(&self) -> &Description {
        &self.description
    }

    fn check_change(earlier: &Description, now: &Description) -> Result<(), SumsError> {
        check_change(earlier, now)
    }

    fn batch(&self) -> usize {
        1
    }

    fn query_bytes(&self, questions: usize) -> usize {
        questions * messages::TOKEN_QUERY_BYTES
    }

    fn answer_bytes(&self, questions: usize) -> usize {
        questions * messages::sum_bytes(&self.description)
    }

    fn encode<Q: Borrow<CollectorQuestion>>(&self, questions: &[Q]) -> Result<Vec<CollectorQuestion>, SumsError> {
        Ok(questions.iter().map(|question| *question.borrow()).collect())
    }

    fn query(&mut self, questions: &[CollectorQuestion]) -> Result<Vec<u8>, SumsError> {
        match questions {
            [CollectorQuestion::Count] => Ok(messages::count(self.key.token())),
            [CollectorQuestion::Close] => Ok(messages::close(self.key.token())),
            _ => Err(SumsError::mismatch("request", format!("{} questions", questions.len()), "one")),
        }
    }

    fn read(&self, answer: &[u8], questions: &[CollectorQuestion]) -> Result<Vec<CollectorAnswer>, SumsError> {
        let read = |question: &CollectorQuestion| match question {
            CollectorQuestion::Count => Ok(CollectorAnswer::Count(messages::read_count(answer)?)),
            CollectorQuestion::Close => {
                let (count, sum) = messages::read_closed(answer)?;
                Ok(CollectorAnswer::Sums(Sums::read(&self.description, &self.secret, count, sum)?))
            }
        };
        questions.iter().map(read).collect()
    }
}
