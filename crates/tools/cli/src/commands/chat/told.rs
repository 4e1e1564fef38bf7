//! What a generation gave and took, as it is printed.

use serde_json::{Value, json};
use unspoken_chat::{Conversation, End, Statistics};
use unspoken_client::UsageStats;
use unspoken_llama_model::{Probabilities, Scored};
use unspoken_search_client::Found;

use super::Seen;
use super::search::objects;
use crate::commands::connection::usage_lines;
use crate::progress::note;

/// What a generation gave and took, also one that failed.
#[derive(Default)]
pub struct Told {
    pub tokens: Vec<u32>,
    /// Log-probabilities of the tokens, and of the most likely ones in their places, if they are asked for.
    pub probabilities: Option<Vec<Value>>,
    /// Seed of the random choices, if there are any.
    pub seed: Option<u64>,
    pub text: String,
    pub end: Option<End>,
    pub statistics: Statistics,
    pub usage: UsageStats,
    pub seconds: f64,
    pub seen: Seen,
    /// Passages in front of the question, if there was a search.
    pub found: Option<Vec<Found>>,
    /// The tokens that the model gives in the clear, and their text.
    pub clear: Option<(Vec<u32>, String)>,
}

/// The log-probabilities of a place, for `--json`.
fn place(told: &Probabilities) -> Value {
    let scored = |scored: &Scored| json!({ "token": scored.token, "logprob": scored.log_probability });
    let mut place = scored(&told.token);
    place["top_logprobs"] = told.alternatives.iter().map(scored).collect();
    place
}

impl Told {
    /// What a conversation gave last.
    pub fn new(conversation: &Conversation, text: String, seen: Seen) -> Self {
        let Some(generation) = conversation.generation() else { return Told::default() };
        let sampling = generation.sampler().sampling();
        let places = || generation.probabilities().iter().map(place).collect();
        Told {
            tokens: generation.tokens().to_vec(),
            probabilities: sampling.log_probabilities.map(|_| places()),
            seed: sampling.seed,
            text,
            end: generation.end(),
            statistics: generation.statistics(),
            seen,
            ..Told::default()
        }
    }

    /// Prints what an answer of a conversation took.
    pub fn describe_shortly(&self) {
        let Statistics { tokens, passes, .. } = self.statistics;
        let end = self.end.unwrap_or(End::Maximum);
        let seed = self.seed.map(|seed| format!(", seed {seed}")).unwrap_or_default();
        note(&format!("({tokens} tokens in {passes} passes, {:.1} s, ended by the {end}{seed})", self.seconds));
    }

    fn per_pass(&self) -> f64 {
        self.seconds / self.statistics.passes.max(1) as f64
    }

    fn tokens_per_pass(&self) -> f64 {
        self.statistics.tokens as f64 / self.statistics.generating.max(1) as f64
    }

    /// Whether the model gives the same in the clear, if that is known.
    fn same(&self) -> Option<bool> {
        self.clear.as_ref().map(|(clear, _)| *clear == self.tokens)
    }

    /// What is printed with `--json`.
    pub fn object(&self, error: Option<&anyhow::Error>) -> Value {
        let (statistics, usage) = (self.statistics, self.usage);
        let clear = self.clear.as_ref().map(|(tokens, text)| json!({ "tokens": tokens, "text": text }));
        json!({
            "logprobs": self.probabilities, "seed": self.seed,
            "tokens": self.tokens, "text": self.text, "end": self.end.map(|end| end.to_string()),
            "passes": statistics.passes, "passes_of_chunks": self.seen.passes, "restarts": statistics.restarts,
            "tokens_per_pass": self.tokens_per_pass(), "guessed": statistics.guessed, "seconds": self.seconds,
            "seconds_per_pass": self.per_pass(), "query_bytes": usage.query_bytes,
            "answer_bytes": usage.answer_bytes, "key_bytes": usage.key_bytes, "key_seconds": usage.key_seconds,
            "same_as_in_the_clear": self.same(), "in_the_clear": clear,
            "passages": self.found.as_deref().map(objects),
            "error": error.map(|error| format!("{error:#}")),
        })
    }

    /// Prints what it took, and what the service saw.
    pub fn describe(&self, chunk: usize) {
        let (statistics, seconds) = (self.statistics, self.seconds);
        let end = self.end.unwrap_or(End::Maximum);
        if let Some(seed) = self.seed {
            eprintln!("seed        {seed}");
        }
        eprintln!("tokens      {} in {seconds:.1} s, ended by the {end}", statistics.tokens);
        eprintln!(
            "passes      {} of {:.1} s, {} of them gave {:.2} tokens each; {} tokens were guessed",
            statistics.passes,
            self.per_pass(),
            statistics.generating,
            self.tokens_per_pass(),
            statistics.guessed
        );
        match (self.same(), &self.clear) {
            (Some(true), _) => eprintln!("in clear    the model gives the same tokens"),
            (_, Some((_, text))) => {
                eprintln!("encrypted   {:?}", self.text);
                eprintln!("in clear    {text:?}");
            }
            _ => {}
        }
        eprint!("{}", usage_lines(self.usage));
        let passes: Vec<String> = self.seen.passes.iter().map(usize::to_string).collect();
        eprintln!(
            "seen        the public text, chunks of {chunk} tokens that took {} passes, and queries of {} bytes such \
             as",
            passes.join(" + "),
            self.seen.query_bytes
        );
        eprintln!("            ..{}..", hex::encode(&self.seen.bytes));
    }

    /// Refuses tokens that the model does not give in the clear.
    pub fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.same() != Some(false),
            "--check: found {:?}, needed {:?}, which the model gives in the clear; prepare the model on more text of \
             this kind, unless two tokens were almost equally likely, or a random choice fell almost between two",
            self.text,
            self.clear.as_ref().map_or("", |(_, text)| text)
        );
        Ok(())
    }
}

/// What is printed with `--json` for one text, or for several `choices` of it.
pub fn object(told: &[Told], choices: bool, error: Option<&anyhow::Error>) -> Value {
    if choices {
        let all: Vec<Value> = told.iter().map(|choice| choice.object(None)).collect();
        return json!({ "choices": all, "error": error.map(|error| format!("{error:#}")) });
    }
    told.first().unwrap_or(&Told::default()).object(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(clear: &[u32]) -> Told {
        let clear = Some((clear.to_vec(), " cat".to_owned()));
        Told { tokens: vec![5, 6], text: " dog".into(), end: Some(End::Maximum), clear, ..Told::default() }
    }

    #[test]
    fn another_text_than_that_in_the_clear_is_an_error_with_both() {
        told(&[5, 6]).check().unwrap();
        Told { clear: None, ..told(&[5]) }.check().unwrap();
        for clear in [&[5, 7][..], &[5], &[5, 6, 7]] {
            let error = told(clear).check().unwrap_err().to_string();
            assert!(error.contains("found \" dog\", needed \" cat\""), "{error}");
        }
    }

    #[test]
    fn the_object_has_the_tokens_also_when_there_is_an_error() {
        let object = told(&[5, 7]).object(Some(&anyhow::anyhow!("cause").context("what")));
        assert_eq!(object["error"], "what: cause");
        assert_eq!((&object["tokens"], &object["end"]), (&json!([5, 6]), &json!("maximum")));
        assert_eq!((&object["same_as_in_the_clear"], &object["in_the_clear"]["text"]), (&json!(false), &json!(" cat")));
        let early = Told::default().object(Some(&anyhow::anyhow!("no service")));
        assert_eq!(
            (&early["tokens"], &early["end"], &early["error"]),
            (&json!([]), &Value::Null, &json!("no service"))
        );
        assert_eq!(told(&[5, 6]).object(None)["error"], Value::Null);
        let cause = anyhow::anyhow!("cause");
        let several = super::object(&[told(&[5, 6]), told(&[5, 7])], true, Some(&cause));
        assert_eq!((&several["choices"][1]["tokens"], &several["error"]), (&json!([5, 6]), &json!("cause")));
        assert_eq!(super::object(&[told(&[5, 6])], false, None), told(&[5, 6]).object(None));
        assert_eq!(super::object(&[], false, Some(&cause))["error"], "cause");
    }
}
