//! Asking for the keys of sealed records, for `unspoken get`.

use anyhow::Context;
use unspoken_client::transport::Cancel;
use unspoken_client::{Progress, ServiceClient, UsageStats};
use unspoken_retrieve::{Answer, Question};
use unspoken_sealed::{PUBLIC_KEY_BYTES, RecordKey, Sealing};
use unspoken_unseal::UnsealClient;
use zeroize::Zeroizing;

use crate::commands::connection::Target;

/// Options of a command that retrieves sealed records.
#[derive(clap::Args)]
pub struct UnsealOptions {
    /// Application of the same service that gives the keys of sealed records, for instance unseal/codes. Records are
    /// then opened with them; each question counts there, whether its record exists or not
    #[arg(long, value_name = "APPLICATION")]
    unseal: Option<String>,
    /// Public key of the sealed database, in hexadecimal, as its owner tells it [default: the one that the service
    /// describes first]
    #[arg(long, value_name = "HEX", requires = "unseal", value_parser = public_key)]
    public_key: Option<[u8; PUBLIC_KEY_BYTES]>,
}

fn public_key(text: &str) -> Result<[u8; PUBLIC_KEY_BYTES], String> {
    hex::decode_to_array(text).map_err(|_| format!("needed {} hexadecimal digits", 2 * PUBLIC_KEY_BYTES))
}

/// The keys of the records that are asked for.
pub struct Unsealed {
    keys: Vec<RecordKey>,
    sealing: Sealing,
    usage: UsageStats,
}

impl Unsealed {
    /// Asks for the keys of all records, if the database is sealed.
    pub fn ask(
        options: &UnsealOptions,
        target: &Target,
        questions: &[Question],
        step: &mut dyn FnMut(Progress),
        cancel: &Cancel,
    ) -> anyhow::Result<Option<Self>> {
        let Some(application) = &options.unseal else { return Ok(None) };
        let (transport, state) = target.open_beside(application)?;
        let known = options.public_key;
        let mut client = ServiceClient::<UnsealClient>::connect(transport, application, known, &state, step, cancel)?;
        let names: Vec<unspoken_unseal::Question> = questions.iter().map(name).collect();
        let keys = client.ask(&names, step, cancel)?;
        Ok(Some(Unsealed { keys, sealing: client.description().sealing().clone(), usage: client.usage() }))
    }

    /// The questions with which the records are retrieved: by label where they were by key.
    pub fn questions(&self, questions: &[Question]) -> Vec<Question> {
        let stored = |(question, key): (&Question, &RecordKey)| match question {
            Question::Key(_) => Question::Key(key.label().to_vec()),
            Question::Index(index) => Question::Index(*index),
        };
        questions.iter().zip(&self.keys).map(stored).collect()
    }

    /// Opens the records. Zeros are no sealed record: nothing was stored at that index.
    pub fn open(&self, answers: Vec<Answer>) -> anyhow::Result<Vec<Answer>> {
        let open = |(answer, key): (Answer, &RecordKey)| {
            let Some(sealed) = answer.record.filter(|sealed| sealed.iter().any(|&byte| byte != 0)) else {
                return Ok(Answer { record: None, version: answer.version });
            };
            let record: Zeroizing<Vec<u8>> = key.open(&self.sealing, &sealed)?;
            Ok(Answer { record: Some(record), version: answer.version })
        };
        let opened: anyhow::Result<_> = answers.into_iter().zip(&self.keys).map(open).collect();
        opened.context("open the records; if --application is not a sealed database, leave out --unseal")
    }

    /// Bytes and seconds used for the keys.
    pub fn usage(&self) -> UsageStats {
        self.usage
    }
}

fn name(question: &Question) -> unspoken_unseal::Question {
    match question {
        Question::Key(key) => unspoken_unseal::Question::Key(key.clone()),
        Question::Index(index) => unspoken_unseal::Question::Index(*index),
    }
}
