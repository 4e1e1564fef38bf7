//! Retrieval of sealed records: which keys to ask for, what to retrieve, and how to open it.

use unspoken_protocol::read_every;
use unspoken_symmetric_pir::{Name, RecordKey, Sealing, SymmetricPirError};
use zeroize::Zeroizing;

use crate::client::{Answer, Question};

/// The keys of the sealed records that some questions ask for. A client first asks the application that gives keys for
/// the keys of [`SealedQuestions::names`], then asks the database [`SealedQuestions::stored`], and opens the answers.
/// The client does all of this for every question, whether the record exists or not.
pub struct SealedQuestions {
    keys: Vec<RecordKey>,
    sealing: Sealing,
}

impl SealedQuestions {
    /// The names for whose keys the application is asked that gives them.
    pub fn names(questions: &[Question]) -> Vec<Name<'_>> {
        questions.iter().map(name).collect()
    }

    /// The answered keys of a database with this sealing: one for each question, in the order of the questions.
    pub fn new(sealing: Sealing, keys: Vec<RecordKey>) -> Self {
        SealedQuestions { keys, sealing }
    }

    /// The questions to the database: by label where they were by key.
    pub fn stored(&self, questions: &[Question]) -> Vec<Question> {
        let stored = |(question, key): (&Question, &RecordKey)| match question {
            Question::Key(_) => Question::Key(key.label().to_vec()),
            Question::Index(index) => Question::Index(*index),
        };
        questions.iter().zip(&self.keys).map(stored).collect()
    }

    /// Opens the records, all of them before it returns an error. Zeros are no sealed record: nothing was stored at
    /// that index.
    ///
    /// # Errors
    /// If a record is not sealed, or not with this key, or was changed.
    pub fn open(&self, answers: Vec<Answer>) -> Result<Vec<Answer>, SymmetricPirError> {
        let open = |(answer, key): (Answer, &RecordKey)| {
            let Some(sealed) = answer.record.filter(|sealed| sealed.iter().any(|&byte| byte != 0)) else {
                return Ok(Answer { record: None, version: answer.version });
            };
            let record: Zeroizing<Vec<u8>> = key.open(&self.sealing, &sealed)?;
            Ok(Answer { record: Some(record), version: answer.version })
        };
        read_every(answers.into_iter().zip(&self.keys).map(open))
    }
}

fn name(question: &Question) -> Name<'_> {
    match question {
        Question::Key(key) => Name::Key(key),
        Question::Index(index) => Name::Index(*index),
    }
}
