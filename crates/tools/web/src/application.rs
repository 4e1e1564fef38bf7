//! The applications that a page can ask.

use std::borrow::Borrow;
use std::sync::Arc;

use unspoken_chat::ChatClient;
use unspoken_classify::{Classified, ClassifyClient};
use unspoken_digits::{DigitsClient, Recognised};
use unspoken_digits_model::Image;
use unspoken_llama_model::ClientModel;
use unspoken_model::{ModelClient, ModelError, Predicted, Row};
use unspoken_pir::PirClient;
use unspoken_protocol::{CkksDescription, ClientHalf};
use unspoken_search::SearchClient;
use zeroize::Zeroizing;

use crate::collection::Collection;
use crate::failure::Failure;
use crate::model::{ModelInterface, outputs_of, row_of};
use crate::question::{Answer, Hit, Question};
use crate::security::{SecuredObject, Security};

/// What continues texts: a client, and its part of the model.
pub(crate) type Language<'a> = (&'a ChatClient, &'a Arc<ClientModel>);

/// The client half of an application that a page can ask.
pub(crate) trait WebApplication: ClientHalf<Encoded: Send + Sync + 'static> + 'static {
    /// A question of the application.
    type Asked: Borrow<Self::Question>;

    /// The question that JavaScript wrote.
    fn question(&self, question: &Question) -> Result<Self::Asked, Failure>;

    /// An answer for JavaScript.
    fn answer(&self, answer: Self::Answer) -> Answer;

    /// What continues texts, if the application does.
    fn language<'a>(&'a self, _: &'a Self::Model) -> Result<Language<'a>, Failure> {
        Err(Failure::Argument {
            what: "application",
            found: "one that answers single questions".into(),
            needed: "one of kind llama, which continues texts".into(),
        })
    }

    /// The collection that the application searches, if it does.
    fn collection(_: &Self::Description) -> Option<Collection> {
        None
    }

    /// The inputs and outputs of the model, if an owner has brought it.
    fn interface(_: &Self::Description) -> Option<ModelInterface> {
        None
    }

    /// The parameter set, and the security of what the client sends.
    fn security(description: &Self::Description) -> Security;
}

fn ckks_security(description: &impl CkksDescription) -> Security {
    let parameters = description.header().parameters();
    let objects = parameters.rlwe().secured_objects().into_iter().map(SecuredObject::from).collect();
    Security { preset: parameters.name().to_owned(), objects }
}

/// A text, wiped when dropped.
pub(crate) struct Text(Zeroizing<String>);

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl WebApplication for ClassifyClient {
    type Asked = Text;

    fn question(&self, question: &Question) -> Result<Text, Failure> {
        match question {
            Question::Text(text) => Ok(Text(Zeroizing::new(text.clone()))),
            other => Err(other.refused("a text")),
        }
    }

    fn answer(&self, Classified { label, scores, .. }: Classified) -> Answer {
        Answer::Classified { label, scores, labels: self.labels().to_vec() }
    }

    fn security(description: &Self::Description) -> Security {
        ckks_security(description)
    }
}

impl WebApplication for DigitsClient {
    type Asked = Image;

    fn question(&self, question: &Question) -> Result<Image, Failure> {
        match question {
            Question::Pixels(pixels) => Image::new(pixels).map_err(|error| Failure::Model(error.to_string())),
            other => Err(other.refused("pixels")),
        }
    }

    fn answer(&self, Recognised { digit, scores }: Recognised) -> Answer {
        Answer::Recognised { digit, scores: scores.to_vec() }
    }

    fn security(description: &Self::Description) -> Security {
        ckks_security(description)
    }
}

impl WebApplication for PirClient {
    type Asked = unspoken_pir::Question;

    fn question(&self, question: &Question) -> Result<Self::Asked, Failure> {
        match question {
            Question::Key(key) => Ok(unspoken_pir::Question::Key(key.clone())),
            Question::Index(index) => Ok(unspoken_pir::Question::Index(*index)),
            other => Err(other.refused("a key or an index")),
        }
    }

    fn answer(&self, answer: unspoken_pir::Answer) -> Answer {
        let unspoken_pir::Answer { record, version, .. } = answer;
        Answer::Retrieved { record, version: version as u32, build: (version >> u32::BITS) as u32 }
    }

    fn security(description: &Self::Description) -> Security {
        let parameters = description.parameters();
        let objects = parameters.secured_objects().into_iter().map(SecuredObject::from).collect();
        Security { preset: parameters.ring().name().to_owned(), objects }
    }
}

/// A vector, wiped when dropped.
pub(crate) struct Vector(Zeroizing<Vec<f32>>);

impl Borrow<[f32]> for Vector {
    fn borrow(&self) -> &[f32] {
        &self.0
    }
}

impl WebApplication for SearchClient {
    type Asked = Vector;

    fn question(&self, question: &Question) -> Result<Vector, Failure> {
        match question {
            Question::Vector(vector) => Ok(Vector(Zeroizing::new(vector.clone()))),
            other => Err(other.refused("a vector, or a text for which the service publishes a table of words")),
        }
    }

    fn answer(&self, hits: Vec<unspoken_search::Hit>) -> Answer {
        let hit = |unspoken_search::Hit { position, cosine }| Hit { position, cosine };
        Answer::Found { hits: hits.into_iter().map(hit).collect() }
    }

    fn collection(description: &Self::Description) -> Option<Collection> {
        Some(Collection::of(description))
    }

    fn security(description: &Self::Description) -> Security {
        let parameters = description.parameters();
        let objects = parameters.secured_objects().into_iter().map(SecuredObject::from).collect();
        Security { preset: parameters.name().to_owned(), objects }
    }
}

impl WebApplication for ChatClient {
    type Asked = unspoken_chat::Question;

    fn question(&self, question: &Question) -> Result<Self::Asked, Failure> {
        match question {
            Question::Next(question) => Ok((**question).clone()),
            other => Err(other.refused("a text to continue or messages to answer; use continueText or answer")),
        }
    }

    fn answer(&self, answer: unspoken_chat::Answer) -> Answer {
        Answer::Next(answer)
    }

    fn language<'a>(&'a self, model: &'a Arc<ClientModel>) -> Result<Language<'a>, Failure> {
        Ok((self, model))
    }

    fn security(description: &Self::Description) -> Security {
        ckks_security(description)
    }
}

impl WebApplication for ModelClient {
    type Asked = Row;

    fn question(&self, question: &Question) -> Result<Row, Failure> {
        match question {
            Question::Row { inputs, clip } => row_of(self.description(), inputs, *clip),
            other => Err(other.refused("inputs of a model")),
        }
    }

    fn answer(&self, answer: Result<Predicted, ModelError>) -> Answer {
        match answer {
            Ok(Predicted { outputs, .. }) => Answer::Predicted { outputs: outputs_of(self.description(), outputs) },
            Err(error) => Answer::Unanswered { error: error.to_string() },
        }
    }

    fn interface(description: &Self::Description) -> Option<ModelInterface> {
        Some(ModelInterface::of(description))
    }

    fn security(description: &Self::Description) -> Security {
        ckks_security(description)
    }
}
