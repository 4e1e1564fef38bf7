//! Published models in the clear, to compare their answers with the answers of a service.

use std::sync::Arc;

use unspoken_digits_model::{Image, Network, digit};
use unspoken_fasttext::Model;
use unspoken_llama_model::{ClientModel, Prompt, RotatedModel};
use unspoken_store::ModelFiles;
use wasm_bindgen::prelude::*;
use zeroize::Zeroizing;

use crate::client::published;
use crate::conversation::continued_in_the_clear;
use crate::failure::Failure;
use crate::question::{Answer, Question};
use crate::sampling::SamplingOptions;
use crate::values::{parsed, written};

/// A model whose owner has published both halves.
#[wasm_bindgen]
pub struct ClearModel(Known);

enum Known {
    Text(Box<Model>),
    Digits(Box<Network>),
    Language(Box<(RotatedModel, Arc<ClientModel>)>),
}

#[wasm_bindgen]
impl ClearModel {
    /// Reads a published model, as `GET /v1/models/{name}` returns it, of an application of this kind. Returns
    /// nothing if only the client's half is published.
    ///
    /// # Errors
    /// If the model is malformed.
    pub fn open(kind: &str, model: &[u8]) -> Result<Option<ClearModel>, JsValue> {
        let files = published(model)?;
        let files = ModelFiles::Memory(&files);
        let has = |name: &str| matches!(files, ModelFiles::Memory(files) if files.contains_key(name));
        let model = match kind {
            "classify" if has("server.json") => {
                let model = Model::read(files).map_err(|error| Failure::Model(error.to_string()))?;
                Known::Text(Box::new(model))
            }
            "digits" if has("digits.json") => {
                let network = Network::read(files).map_err(|error| Failure::Model(error.to_string()))?;
                Known::Digits(Box::new(network))
            }
            "llama" if has("tamed.safetensors") => {
                let rotated = RotatedModel::read(files).map_err(|error| Failure::Model(error.to_string()))?;
                let client = ClientModel::read(files).map_err(|error| Failure::Model(error.to_string()))?;
                if rotated.id() != client.id() {
                    let text = format!("model: found halves of two models, {} and {}", rotated.id(), client.id());
                    return Err(Failure::Model(text).into());
                }
                Known::Language(Box::new((rotated, Arc::new(client))))
            }
            _ => return Ok(None),
        };
        Ok(Some(ClearModel(model)))
    }

    /// Answers a question in the clear.
    ///
    /// # Errors
    /// If the question is not one of this model.
    #[wasm_bindgen(unchecked_return_type = "Answer")]
    pub fn ask(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Question")] question: JsValue,
    ) -> Result<JsValue, JsValue> {
        written(&self.answer(&parsed("question", question)?)?)
    }

    /// Continues a text in the clear by at most `most_tokens` tokens. Its private part is filled up to whole chunks of
    /// `chunk` tokens, as a client does that does not tell its length; 1 leaves it as it is.
    ///
    /// # Errors
    /// If the model is none of language, or the text does not fit it.
    #[wasm_bindgen(js_name = continueText)]
    pub fn continue_text(
        &self,
        public: String,
        private: String,
        most_tokens: usize,
        #[wasm_bindgen(unchecked_param_type = "SamplingOptions | undefined")] sampling: JsValue,
        chunk: usize,
    ) -> Result<String, JsValue> {
        let prompt = Prompt { public, private: Zeroizing::new(private) };
        let wanted = SamplingOptions::read(sampling)?.wanted(most_tokens);
        let Known::Language(halves) = &self.0 else {
            let needed = "a model of language, which continues texts".into();
            return Err(Failure::Argument { what: "model", found: "one of another kind".into(), needed }.into());
        };
        Ok(continued_in_the_clear((&halves.0, &halves.1), (&prompt, chunk), wanted)?.to_string())
    }
}

impl ClearModel {
    fn answer(&self, question: &Question) -> Result<Answer, Failure> {
        match (&self.0, question) {
            (Known::Text(model), Question::Text(text)) => Ok(Answer::Classified {
                label: model.predict(text).to_owned(),
                scores: model.scores(text),
                labels: model.encoder().labels().to_vec(),
            }),
            (Known::Digits(network), Question::Pixels(pixels)) => {
                let image = Image::new(pixels).map_err(|error| Failure::Model(error.to_string()))?;
                let scores = network.scores(&image);
                Ok(Answer::Recognised { digit: digit(&scores), scores: scores.to_vec() })
            }
            (Known::Text(_), other) => Err(other.refused("a text")),
            (Known::Digits(_), other) => Err(other.refused("pixels")),
            (Known::Language(_), other) => Err(other.refused("a text to continue; use continueText")),
        }
    }
}
