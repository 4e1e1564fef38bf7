//! The client's half: blinds names, and reads the keys of their records.

use std::borrow::Borrow;
use std::fmt;

use unspoken_protocol::{ClientHalf, Registration, append_checksum, checked, impl_registered_client};
use unspoken_symmetric_pir::{Blinded, Name, PUBLIC_KEY_BYTES, RecordKey};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::description::Description;
use crate::error::OprfError;

/// The name of a record whose key is asked for. Wiped when dropped.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub enum Question {
    /// The key of the record in a database that is read by key.
    Key(Vec<u8>),
    /// The index of the record in a database that is read by index.
    Index(u64),
}

impl Question {
    fn name(&self) -> Name<'_> {
        match self {
            Question::Key(key) => Name::Key(key),
            Question::Index(index) => Name::Index(*index),
        }
    }
}

impl From<Name<'_>> for Question {
    fn from(name: Name<'_>) -> Self {
        match name {
            Name::Key(key) => Question::Key(key.to_vec()),
            Name::Index(index) => Question::Index(index),
        }
    }
}

/// Does not print the content, which is secret.
impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Question::Key(_) => "Key(..)",
            Question::Index(_) => "Index(..)",
        })
    }
}

/// A client of a sealed database.
pub struct OprfClient {
    description: Description,
    registration: Registration,
}

impl OprfClient {
    fn check_count(&self, questions: usize) -> Result<(), OprfError> {
        let most = self.batch();
        match (1..=most).contains(&questions) {
            true => Ok(()),
            false => Err(OprfError::mismatch("request", format!("{questions} questions"), format!("1 to {most}"))),
        }
    }
}

impl_registered_client!(OprfClient);

impl ClientHalf for OprfClient {
    type Error = OprfError;
    type Description = Description;
    /// The public key that the client knows from the owner of the database. Without one, the key of the first
    /// description is trusted, and later descriptions must have the same.
    type Model = Option<[u8; PUBLIC_KEY_BYTES]>;
    type Question = Question;
    type Encoded = Blinded;
    type Answer = RecordKey;

    const VERB: &'static str = "asking for keys";

    fn open(description: Description, known: Self::Model, stored: Option<&[u8]>) -> Result<Self, OprfError> {
        if known.is_some_and(|known| known != description.sealing().public_key()) {
            let needed = "the one that this client was given; do not trust this service, or ask the owner of the \
                          database for its public key";
            return Err(OprfError::mismatch("public key of a sealed database", "another one", needed));
        }
        Ok(OprfClient { description, registration: Registration::stored_or_new(stored)? })
    }

    fn description(&self) -> &Description {
        &self.description
    }

    /// Refuses another public key, another database and another length of records: a service that changed these for one
    /// client would recognise the client by the records that it can open.
    fn check_change(earlier: &Description, now: &Description) -> Result<(), OprfError> {
        if earlier.sealing() == now.sealing() {
            return Ok(());
        }
        let needed = "the one of before; if its owner confirms that it was rebuilt with another key, delete this \
                      client's state directory, otherwise do not trust this service";
        Err(OprfError::mismatch("sealed database", "another id, public key or length of records", needed))
    }

    /// [`Allowance::most_questions`](crate::Allowance::most_questions).
    fn batch(&self) -> usize {
        self.description.allowance().most_questions()
    }

    fn query_bytes(&self, questions: usize) -> usize {
        self.description.query_bytes(questions)
    }

    fn answer_bytes(&self, questions: usize) -> usize {
        self.description.answer_bytes(questions)
    }

    /// Blinds each name anew, so that two encodings of one name have nothing in common.
    fn encode<Q: Borrow<Question>>(&self, questions: &[Q]) -> Result<Vec<Blinded>, OprfError> {
        let blind = |question: &Q| Blinded::new(self.description.sealing(), question.borrow().name());
        Ok(questions.iter().map(blind).collect::<Result<_, _>>()?)
    }

    fn query(&mut self, questions: &[Blinded]) -> Result<Vec<u8>, OprfError> {
        self.check_count(questions.len())?;
        let mut query = Blinded::request(questions);
        append_checksum(&mut query);
        Ok(query)
    }

    /// Checks the length of an answer. Its proof is checked when it is read: neither depends on the questions.
    fn check_answer(&self, answer: &[u8], questions: usize) -> Result<(), OprfError> {
        let needed = self.answer_bytes(questions);
        checked("answer", answer)?;
        match answer.len() == needed {
            true => Ok(()),
            false => Err(OprfError::mismatch("answer", format!("{} bytes", answer.len()), format!("{needed} bytes"))),
        }
    }

    fn read(&self, answer: &[u8], questions: &[Blinded]) -> Result<Vec<RecordKey>, OprfError> {
        Ok(Blinded::finalize(self.description.sealing(), questions, checked("answer", answer)?)?)
    }
}
