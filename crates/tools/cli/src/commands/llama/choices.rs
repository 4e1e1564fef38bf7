//! Tokens that are chosen at random, in the clear and simulated.

use serde_json::{Value, json};
use unspoken_llama::{Noise, Sample, Simulation};
use unspoken_llama_model::{Generation, Sampler, Sampling};

use crate::progress::Bars;

/// Random choices of tokens.
#[derive(clap::Args)]
pub struct ChoiceArguments {
    /// Compare choices at random, too: logits are divided by this number. The model in the clear continues the public
    /// part and the first private token of each window by as many tokens as its private part has; at each place the
    /// simulated logits choose with the same random number
    #[arg(long, value_name = "NUMBER")]
    temperature: Option<f64>,
    /// Choose among the fewest tokens that have this probability together
    #[arg(long, value_name = "PROBABILITY", default_value_t = 1.0, requires = "temperature")]
    top_p: f64,
    /// Seed of the choices of the first window; the next windows have the numbers after it
    #[arg(long, value_name = "N", default_value_t = 1, requires = "temperature")]
    seed: u64,
}

/// How often simulated choices were those in the clear.
pub struct Chosen {
    temperature: f64,
    tokens: usize,
    /// For each noise.
    same: Vec<usize>,
}

impl ChoiceArguments {
    /// Compares the choices after each window with each noise; `None` if no temperature is given.
    pub fn compare(
        &self,
        simulation: &Simulation<'_>,
        noises: &[Noise],
        samples: &[Sample],
        bars: &mut Bars,
    ) -> anyhow::Result<Option<Chosen>> {
        let Some(temperature) = self.temperature else { return Ok(None) };
        let mut chosen = Chosen { temperature, tokens: 0, same: vec![0; noises.len()] };
        for (number, sample) in samples.iter().enumerate() {
            let seed = Some(self.seed.wrapping_add(number as u64));
            let sampling = Sampling { temperature: Some(temperature), top_p: self.top_p, seed, ..Sampling::default() };
            let sampler = Sampler::new(sampling, simulation.model.config.vocabulary, &[])?;
            let told = told(simulation, sample, sampler.clone())?;
            let same = simulation.same_choices(noises, (number, &told), sampler)?;
            chosen.tokens += told.private.len() - 1;
            chosen.same.iter_mut().zip(same).for_each(|(sum, same)| *sum += same);
            bars.windows("choosing", number + 1, samples.len());
        }
        Ok(Some(chosen))
    }
}

/// A text that the model tells in the clear after the first private token of another one, with as many tokens. Tokens
/// that end a text do not end it.
fn told(simulation: &Simulation<'_>, sample: &Sample, sampler: Sampler) -> anyhow::Result<Sample> {
    let prompt = [sample.public.as_slice(), &sample.private[..1]].concat();
    let generation = Generation::sampled(simulation.model, &prompt, &[], sampler)?;
    let told = generation.take(sample.private.len() - 1);
    let private = sample.private[..1].iter().copied().chain(told).collect();
    Ok(Sample { public: sample.public.clone(), private })
}

impl Chosen {
    /// What is printed with `--json`.
    pub fn object(&self, noises: &[(String, Noise)]) -> Value {
        let same: Value = noises.iter().zip(&self.same).map(|((name, _), same)| (name.clone(), json!(same))).collect();
        json!({ "temperature": self.temperature, "tokens": self.tokens, "same": same })
    }

    /// What is printed without `--json`.
    pub fn describe(&self, noises: &[(String, Noise)]) {
        println!("\nThe same choices as in the clear, of {} at temperature {}", self.tokens, self.temperature);
        for ((name, _), same) in noises.iter().zip(&self.same) {
            println!("{name:<24} {same:>8}");
        }
    }
}
