//! Options of how tokens are chosen.

use std::collections::BTreeMap;

use anyhow::Context;
use unspoken_llama_model::{MAX_ALTERNATIVES, Sampling};

/// How the next token is chosen, at this machine: the service sees none of it.
#[derive(clap::Args)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingOptions {
    /// Choose tokens at random: logits are divided by this number first. 0 gives the most likely token [default: 0]
    #[arg(long, value_name = "NUMBER")]
    temperature: Option<f64>,
    /// Choose among so many of the most likely tokens; 0 for all. This, --top-p, --min-p and --seed need --temperature
    #[arg(long, value_name = "N", default_value_t = 0)]
    top_k: usize,
    /// Choose among the fewest tokens that have this probability together
    #[arg(long, value_name = "PROBABILITY", default_value_t = 1.0)]
    top_p: f64,
    /// Choose among tokens of at least this part of the largest probability
    #[arg(long, value_name = "PART", default_value_t = 0.0)]
    min_p: f64,
    /// Divide the logits of tokens that prompt and text have (negative ones are multiplied)
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0)]
    repetition_penalty: f64,
    /// Subtract this from the logits of generated tokens
    #[arg(long, value_name = "NUMBER", default_value_t = 0.0, allow_negative_numbers = true)]
    presence_penalty: f64,
    /// Subtract this from the logits of generated tokens, as often as they were generated
    #[arg(long, value_name = "NUMBER", default_value_t = 0.0, allow_negative_numbers = true)]
    frequency_penalty: f64,
    /// Add a number to the logit of a token, which is given by its id; may be given several times
    #[arg(long, value_name = "TOKEN=NUMBER", value_parser = bias)]
    logit_bias: Vec<(u32, f64)>,
    /// Seed of the random choices. The same seed gives the same text, but for choices that the noise of the encryption
    /// decides [default: a new one, which is printed]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// End the text before this string; may be given several times
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// With --json: the log-probability of each token, and of so many of the most likely tokens in its place, at most
    /// 20. They contain noise that depends on the secret key: keep them to yourself
    #[arg(long, value_name = "N", requires = "json")]
    logprobs: Option<usize>,
}

impl SamplingOptions {
    /// The options of the library, checked for a vocabulary.
    pub fn sampling(&self, vocabulary: usize) -> anyhow::Result<Sampling> {
        let mut logit_bias = BTreeMap::new();
        for &(token, bias) in &self.logit_bias {
            if let Some(other) = logit_bias.insert(token, bias) {
                anyhow::bail!("--logit-bias: found {other} and {bias} for token {token}, needed one number");
            }
        }
        let sampling = Sampling {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            seed: self.seed,
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            logit_bias,
            log_probabilities: self.logprobs,
        };
        sampling.check(vocabulary)?;
        Ok(sampling)
    }

    /// Strings that end the text.
    pub fn stops(&self) -> &[String] {
        &self.stop
    }
}

fn bias(text: &str) -> anyhow::Result<(u32, f64)> {
    let needed = || format!("found {text:?}, needed a token's id and a number, such as 17=-2.5");
    let (token, number) = text.split_once('=').with_context(needed)?;
    Ok((token.parse().with_context(needed)?, number.parse().with_context(needed)?))
}

const _: () = assert!(MAX_ALTERNATIVES == 20, "the help of --logprobs");
