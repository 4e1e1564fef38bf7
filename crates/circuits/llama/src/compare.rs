//! Calibration over text, and how well a simulated circuit agrees with the model in the clear.

use std::collections::BTreeMap;

use ndarray::{Array2, ArrayView1, Axis, concatenate};
use unspoken_llama_model::{InputError, KvCache, Model, Sampler};

use crate::approximation::Escapes;
use crate::arithmetic::TensorArithmetic;
use crate::circuit::Circuit;
use crate::clear::{Clear, Watch};
use crate::design::Design;
use crate::error::CircuitError;
use crate::noise::Noise;
use crate::place::{Place, Quantity};
use crate::ranges::Ranges;
use crate::simulated::Simulated;
use crate::tensor::Tensor;

/// A text: its public tokens, which begin with the model's prefix, and its private tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Public tokens.
    pub public: Vec<u32>,
    /// Private tokens.
    pub private: Vec<u32>,
}

/// A circuit over texts, beside the model in the clear.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Number of tokens that were predicted: the private ones but the first of each text.
    pub tokens: usize,
    /// Sum of the negative log likelihoods of the tokens.
    surprise: f64,
    /// Number of positions with the same most likely token as the model in the clear.
    same: usize,
    /// Sum of the Kullback-Leibler divergences from the model in the clear, in nats.
    divergence: f64,
    /// Largest error of a logit.
    pub logit_error: f64,
    /// Where another token is the most likely one: by how much the logit of that token is below the largest one in the
    /// clear, at most.
    pub missed: f64,
    /// Arguments of each function, and how many left the intervals of their polynomials.
    pub escapes: BTreeMap<Place, Escapes>,
}

impl Comparison {
    /// Perplexity: `exp` of the mean negative log likelihood.
    pub fn perplexity(&self) -> f64 {
        (self.surprise / self.tokens as f64).exp()
    }

    /// Share of positions with the same most likely token as the model in the clear.
    pub fn agreement(&self) -> f64 {
        self.same as f64 / self.tokens as f64
    }

    /// Mean Kullback-Leibler divergence from the model in the clear, in nats.
    pub fn divergence(&self) -> f64 {
        self.divergence / self.tokens as f64
    }

    /// Number of arguments that left their intervals, of all functions.
    pub fn escaped(&self) -> u64 {
        self.escapes.values().map(|escapes| escapes.escaped).sum()
    }

    /// The largest term of the check of an encrypted pass ([`Approximation::check`](crate::Approximation::check)) of
    /// all arguments. A pass is refused if the sum of all terms of a slot exceeds a limit, so it is if this does.
    pub fn largest_check(&self, design: &Design) -> f64 {
        let check = |(place, escapes): (&Place, &Escapes)| {
            design.approximation(*place).map_or(0.0, |approximation| approximation.check(escapes.farthest))
        };
        self.escapes.iter().map(check).fold(0.0, f64::max)
    }

    /// Whether the results are numbers. Values that left the interval of their polynomial may become infinite.
    pub fn is_finite(&self) -> bool {
        self.surprise.is_finite() && self.divergence.is_finite()
    }

    fn add(&mut self, logits: &Array2<f32>, clear: &Array2<f32>, text: &[u32]) {
        for ((row, clear), next) in logits.rows().into_iter().zip(clear.rows()).zip(&text[1..]) {
            let (own, reference) = (log_softmax(row), log_softmax(clear));
            self.tokens += 1;
            self.surprise -= own[*next as usize];
            if own.iter().any(|value| value.is_nan()) {
                self.divergence = f64::NAN;
                (self.logit_error, self.missed) = (f64::INFINITY, f64::INFINITY);
                continue;
            }
            let (found, right) = (place_of_largest(&own), place_of_largest(&reference));
            self.same += usize::from(found == right);
            self.missed = self.missed.max(f64::from(clear[right] - clear[found]));
            self.divergence += reference.iter().zip(&own).map(|(p, q)| p.exp() * (p - q)).sum::<f64>();
            let errors = row.iter().zip(clear).map(|(own, clear)| f64::from((own - clear).abs()));
            self.logit_error = errors.fold(self.logit_error, f64::max);
        }
    }
}

fn log_softmax(logits: ArrayView1<f32>) -> Vec<f64> {
    let most = logits.fold(f32::NEG_INFINITY, |most, value| most.max(*value));
    let sum: f64 = logits.iter().map(|value| f64::from(value - most).exp()).sum();
    logits.iter().map(|value| f64::from(value - most) - sum.ln()).collect()
}

fn place_of_largest(values: &[f64]) -> usize {
    (0..values.len()).fold(0, |best, place| if values[place] > values[best] { place } else { best })
}

/// The ranges of all values of the circuit over texts. The private tokens run in chunks. `done` is called after each
/// text.
///
/// # Errors
/// If a text has no private tokens or does not fit the model, or a value is not finite.
pub fn calibrate(
    circuit: &Circuit,
    model: &Model,
    texts: &[Sample],
    chunk: usize,
    mut done: impl FnMut(usize),
) -> Result<Ranges, CircuitError> {
    let mut ranges = Ranges::new();
    for (number, text) in texts.iter().enumerate() {
        let public = public_cache(model, text)?;
        let mut arithmetic = Clear::new(model, &public, circuit, ranges);
        in_pool(|| run(circuit, &mut arithmetic, model, &text.private, chunk))?;
        ranges = arithmetic.into_watch();
        if let Some(place) = ranges.invalid() {
            return Err(CircuitError::NotFinite { place });
        }
        ranges.see(Place::new(0, Quantity::Residual), &Tensor::activations(model.embed(&text.private)));
        done(number + 1);
    }
    Ok(ranges)
}

/// Simulations of a model over texts.
#[derive(Clone, Copy)]
pub struct Simulation<'a> {
    /// The circuit.
    pub circuit: &'a Circuit,
    /// The model in the clear. It also runs the public part of each text.
    pub model: &'a Model,
    /// The same model as a service holds it: with rounded weights, or the same.
    pub served: &'a Model,
    /// The polynomials.
    pub design: &'a Design,
    /// Number of private tokens that run together.
    pub chunk: usize,
}

impl Simulation<'_> {
    /// Runs texts with each of the noises, and through the model in the clear, whose perplexity is the first result.
    /// `done` is called after each text.
    ///
    /// # Errors
    /// If a text has no private tokens or does not fit the model, or the design belongs to another model.
    pub fn compare(
        &self,
        noises: &[Noise],
        texts: &[Sample],
        mut done: impl FnMut(usize),
    ) -> Result<Vec<Comparison>, CircuitError> {
        let mut results = vec![Comparison::default(); noises.len() + 1];
        for (number, text) in texts.iter().enumerate() {
            let (clear, simulated) = self.logits(noises, (number, text))?;
            results[0].add(&clear, &clear, &text.private);
            for ((logits, escapes), result) in simulated.iter().zip(&mut results[1..]) {
                result.add(logits, &clear, &text.private);
                for (place, escapes) in escapes {
                    result.escapes.entry(*place).or_default().merge(*escapes);
                }
            }
            done(number + 1);
        }
        Ok(results)
    }

    /// Chooses the tokens after each private token of a text from the logits in the clear and with each of the noises,
    /// each time after the same tokens. Returns how many of these choices were equal, for each noise. `sampler` is for
    /// the text after the first private token.
    ///
    /// # Errors
    /// As for [`Simulation::compare`].
    pub fn same_choices(
        &self,
        noises: &[Noise],
        (number, text): (usize, &Sample),
        mut sampler: Sampler,
    ) -> Result<Vec<usize>, CircuitError> {
        let (clear, simulated) = self.logits(noises, (number, text))?;
        let mut same = vec![0; noises.len()];
        for place in 0..text.private.len().saturating_sub(1) {
            let row = |logits: &Array2<f32>| logits.row(place).to_vec();
            let before = sampler.clone();
            let token = sampler.choose(&row(&clear)).token;
            for ((logits, _), same) in simulated.iter().zip(&mut same) {
                let row = row(logits);
                let is_finite = row.iter().all(|logit| logit.is_finite());
                *same += usize::from(is_finite && before.clone().choose(&row).token == token);
            }
        }
        Ok(same)
    }

    /// The logits of the private tokens of a text, in the clear and with each of the noises, with the arguments of the
    /// functions. The number of the text decides the noise.
    fn logits(&self, noises: &[Noise], (number, text): (usize, &Sample)) -> Result<TextLogits, CircuitError> {
        let &Simulation { circuit, model, served, design, chunk } = self;
        let public = public_cache(model, text)?;
        let clear = model.forward(&text.private, &mut public.clone(), &mut ())?;
        let simulated = noises.iter().map(|noise| {
            let mut arithmetic = Simulated::new(served, &public, design, noise, number as u64);
            let logits = in_pool(|| run(circuit, &mut arithmetic, model, &text.private, chunk))?;
            Ok((logits, arithmetic.escapes().clone()))
        });
        let simulated = simulated.collect::<Result<_, CircuitError>>()?;
        Ok((model.logits(clear.view()), simulated))
    }
}

/// Logits in the clear, then logits and arguments of functions with each noise.
type TextLogits = (Array2<f32>, Vec<(Array2<f32>, BTreeMap<Place, Escapes>)>);

/// The cache of the public tokens of a text that fits the model.
fn public_cache(model: &Model, text: &Sample) -> Result<KvCache, InputError> {
    let public = model.prefix_cache(&text.public)?;
    model.check(&text.private, &public)?;
    Ok(public)
}

/// Runs a pass on a thread of the pool, where its many short operations begin without waking another thread.
fn in_pool<R: Send>(pass: impl FnOnce() -> R + Send) -> R {
    rayon::scope(|_| pass())
}

/// Logits of private tokens, in chunks.
fn run<A: TensorArithmetic<Tensor = Tensor, Error = CircuitError>>(
    circuit: &Circuit,
    arithmetic: &mut A,
    model: &Model,
    private: &[u32],
    chunk: usize,
) -> Result<Array2<f32>, CircuitError> {
    let mut session = circuit.session(arithmetic)?;
    let mut logits = Vec::new();
    for tokens in private.chunks(chunk.max(1)) {
        let input = Tensor::activations(model.embed(tokens));
        let normed = circuit.pass(arithmetic, &mut session, input)?;
        logits.push(circuit.logits(arithmetic, &normed)?);
    }
    let rows: Vec<_> = logits.iter().map(Tensor::rows).collect();
    Ok(concatenate(Axis(0), &rows).expect("chunks have logits of one vocabulary"))
}
