//! Whether a prepared model is fit for encrypted serving, in plain words.

use serde_json::{Value, json};
use unspoken_chat::ServedModel;
use unspoken_ckks::{CkksParameters, CostModel, Encoder};
use unspoken_client::transport::TransportConfig;
use unspoken_llama::{Comparison, Preparation};
use unspoken_llama_model::RotatedModel;
use unspoken_server::Timeouts;

use super::text::Sizes;
use crate::memory::free_memory;

/// Agreement with the model in the clear below which a model is not fit, and below which it is fit with limits.
const LEAST_AGREEMENT: f64 = 0.9;
const GOOD_AGREEMENT: f64 = 0.98;

/// Share of values outside their intervals from which a model is not fit.
const MOST_ESCAPES: f64 = 1e-4;

const GIGABYTE: f64 = 1e9;

/// A session of this length.
struct Length {
    public: usize,
    chunks: usize,
    /// Seconds of a pass on this machine, and memory of a service with one session.
    seconds: f64,
    bytes: u64,
}

/// What simulation and planning say.
pub struct Fitness {
    preset: String,
    chunk: usize,
    least_public: usize,
    sizes: Sizes,
    /// Text that decided nothing, after the model in the clear; none if the text was too short.
    unseen: Option<Comparison>,
    lengths: Vec<Length>,
    /// Tokens that never ran.
    unseen_tokens: usize,
    free_bytes: Option<u64>,
}

/// Whether a model is fit.
#[derive(Debug, PartialEq)]
enum Verdict {
    Fit,
    /// Why it is not quite.
    Limits(Vec<String>),
    Unfit(Vec<String>),
}

impl Fitness {
    /// `unseen` is the simulation with the noise of the parameters over text that decided nothing.
    pub fn new(
        (preparation, rotated): (&Preparation, RotatedModel),
        parameters: &CkksParameters,
        (chunk, sizes): (usize, Sizes),
        unseen: Option<Comparison>,
        unseen_tokens: usize,
    ) -> anyhow::Result<Self> {
        let least_public = preparation.least_public.unwrap_or(0);
        let served = ServedModel::new(preparation, rotated)?;
        let prefix = served.prefix.len();
        let program = served.program(parameters, chunk)?;
        let (encoder, model) = (Encoder::new(parameters), CostModel::measure(parameters)?);
        let most = (sizes.window() / chunk).max(1);
        let full = sizes.private.div_ceil(chunk).clamp(1, most);
        let left = sizes.window().saturating_sub(full * chunk);
        let mut lengths = Vec::new();
        for (public, chunks) in [(least_public, 1), (left.max(least_public), full)] {
            if public + chunks * chunk > sizes.window()
                || lengths.iter().any(|one: &Length| (one.public, one.chunks) == (public, chunks))
            {
                continue;
            }
            let place = (prefix + public, chunks - 1, chunks);
            let requirements = program.requirements(&encoder, prefix + public, chunks)?;
            let seconds = program.explain(&encoder, place, &model)?.iter().map(|step| step.seconds).sum();
            let bytes = requirements.memory(&program, prefix + public).iter().map(|(_, bytes)| bytes).sum();
            lengths.push(Length { public, chunks, seconds, bytes });
        }
        let preset = parameters.name().to_owned();
        let free_bytes = free_memory();
        Ok(Fitness { preset, chunk, least_public, sizes, unseen, lengths, unseen_tokens, free_bytes })
    }

    fn verdict(&self) -> Verdict {
        let (mut limits, mut reasons) = (Vec::new(), Vec::new());
        match &self.unseen {
            None => {
                limits.push("the text is too short to try it on text that decided nothing: name a longer one".into())
            }
            Some(unseen) => {
                let arguments: u64 = unseen.escapes.values().map(|escapes| escapes.arguments).sum();
                let share = unseen.escaped() as f64 / arguments.max(1) as f64;
                let percent = 100.0 * unseen.agreement();
                if !unseen.is_finite() {
                    reasons.push("the simulation of unseen text gives no numbers: values left their intervals".into());
                } else if unseen.tokens == 0 {
                    reasons.push("unseen text has no token that was predicted: use longer windows".into());
                } else if unseen.agreement() < LEAST_AGREEMENT {
                    reasons.push(format!(
                        "the simulation gives the top token of the model in the clear in {percent:.1} % of places"
                    ));
                } else if unseen.agreement() < GOOD_AGREEMENT {
                    limits.push(format!("{:.1} % of tokens are others than those in the clear", 100.0 - percent));
                }
                if share > MOST_ESCAPES {
                    reasons.push(format!("{} of {arguments} values left their intervals", unseen.escaped()));
                } else if unseen.escaped() > 0 {
                    limits.push(format!(
                        "{} of {arguments} values left their intervals, so some answers may be refused or wrong: \
                         prepare on more text, or raise --margin",
                        unseen.escaped()
                    ));
                }
            }
        }
        if self.lengths.is_empty() {
            let (found, chunk) = (self.sizes.window(), self.chunk);
            reasons.push(format!("windows of {found} tokens have no room for a chunk of {chunk}"));
        }
        let least = self.lengths.iter().map(|length| length.bytes).min().unwrap_or(0);
        let most = self.lengths.iter().map(|length| length.bytes).max().unwrap_or(0);
        if let Some(free) = self.free_bytes.filter(|free| *free < most) {
            let lack = format!(
                "a service of it needs {:.1} GB, and this machine has {:.1} GB that are free",
                most as f64 / GIGABYTE,
                free as f64 / GIGABYTE
            );
            limits.push(if free < least { lack } else { format!("for the longest texts {lack}") });
        }
        let limit = Timeouts::default().answer.as_secs_f64();
        if let Some(slow) = self.lengths.iter().map(|length| length.seconds).find(|seconds| *seconds > limit) {
            let patience = TransportConfig::new("").answer_timeout.as_secs();
            limits.push(format!(
                "a pass takes {slow:.0} s on this machine, and services end an answer after {limit:.0} s, clients wait \
                 {patience} s: set answer in [timeouts], and give clients --timeout"
            ));
        }
        if self.unseen_tokens > 0 {
            limits.push(format!("{} tokens of the vocabulary never ran; clients warn of them", self.unseen_tokens));
        }
        if self.least_public > 0 {
            limits.push(format!("texts need {} public tokens or more", self.least_public));
        }
        match (reasons.is_empty(), limits.is_empty()) {
            (false, _) => Verdict::Unfit(reasons),
            (true, false) => Verdict::Limits(limits),
            (true, true) => Verdict::Fit,
        }
    }

    /// What is printed with `--json`.
    pub fn object(&self) -> Value {
        let (fit, reasons) = match self.verdict() {
            Verdict::Fit => ("fit", vec![]),
            Verdict::Limits(limits) => ("fit with limits", limits),
            Verdict::Unfit(reasons) => ("not fit", reasons),
        };
        let length = |one: &Length| {
            json!({
                "public": one.public, "private": one.chunks * self.chunk, "chunks": one.chunks,
                "seconds_per_pass": one.seconds, "memory_bytes": one.bytes,
            })
        };
        let unseen = self.unseen.as_ref().map(|unseen| {
            json!({
                "tokens": unseen.tokens, "same_top_token": unseen.agreement(), "escaped": unseen.escaped(),
                "logit_error": unseen.logit_error,
            })
        });
        json!({
            "verdict": fit, "reasons": reasons, "preset": self.preset, "chunk": self.chunk,
            "least_public": self.least_public, "most_tokens": self.sizes.window(), "unseen_text": unseen,
            "lengths": self.lengths.iter().map(length).collect::<Vec<_>>(), "free_bytes": self.free_bytes,
        })
    }

    /// What is printed without `--json`.
    pub fn describe(&self) {
        let Fitness { preset, chunk, least_public, sizes, .. } = self;
        println!("\nServing it encrypted, with {preset} and chunks of {chunk} tokens");
        let window = sizes.window();
        println!("lengths     public texts of {least_public} tokens or more, with private ones at most {window}");
        if let Some(unseen) = &self.unseen {
            println!(
                "simulated   on {} tokens that decided nothing: the top token of the model in the clear in {:.2} % of \
                 places, {} values left their intervals",
                unseen.tokens,
                100.0 * unseen.agreement(),
                unseen.escaped()
            );
        }
        for Length { public, chunks, seconds, bytes } in &self.lengths {
            println!(
                "predicted   {public} public tokens and {} private: {seconds:.0} s for a pass on this machine, {:.1} \
                 GB with one session",
                chunks * chunk,
                *bytes as f64 / GIGABYTE
            );
        }
        match self.verdict() {
            Verdict::Fit => println!("verdict     fit"),
            Verdict::Limits(limits) => describe_reasons("fit with these limits", &limits),
            Verdict::Unfit(reasons) => describe_reasons("not fit", &reasons),
        }
    }
}

fn describe_reasons(verdict: &str, reasons: &[String]) {
    println!("verdict     {verdict}:");
    reasons.iter().for_each(|reason| println!("            - {reason}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitness(free: u64, seconds: f64) -> Fitness {
        Fitness {
            preset: "preset".into(),
            chunk: 16,
            least_public: 0,
            sizes: Sizes { public: 32, private: 32 },
            unseen: None,
            lengths: vec![
                Length { public: 0, chunks: 1, seconds: 1.0, bytes: 100 },
                Length { public: 32, chunks: 2, seconds, bytes: 200 },
            ],
            unseen_tokens: 0,
            free_bytes: Some(free),
        }
    }

    #[test]
    fn limits_are_named() {
        let named = |fitness: Fitness, part: &str| {
            let Verdict::Limits(limits) = fitness.verdict() else { panic!("{part}") };
            assert!(limits.iter().any(|limit| limit.contains(part)), "{part}: {limits:?}");
            assert_eq!(fitness.object()["verdict"], "fit with limits");
            limits.len()
        };
        assert_eq!(named(fitness(200, 1.0), "too short"), 1);
        assert_eq!(named(fitness(150, 1.0), "for the longest texts"), 2);
        assert_eq!(named(fitness(50, 1e6), "1000000 s"), 3);
        assert_eq!(named(Fitness { unseen_tokens: 7, ..fitness(200, 1.0) }, "7 tokens"), 2);
        assert_eq!(named(Fitness { least_public: 5, ..fitness(200, 1.0) }, "5 public tokens"), 2);
    }
}
