//! The circuit with polynomials in place of functions, and with noise.

use std::collections::BTreeMap;

use ndarray::parallel::prelude::*;
use ndarray::{Array3, Axis};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::StandardNormal;
use unspoken_llama_model::{KvCache, Model};

use crate::approximation::Escapes;
use crate::arithmetic::Function;
use crate::design::Design;
use crate::error::CircuitError;
use crate::float::{FloatArithmetic, Steps};
use crate::noise::Noise;
use crate::place::Place;
use crate::tensor::Tensor;

/// The circuit as encrypted arithmetic computes it: with the polynomials of a design in place of functions, and with
/// Gaussian noise on each result. Arguments outside the interval of their polynomial are counted; the polynomial is
/// evaluated there as it is.
pub type Simulated<'a> = FloatArithmetic<'a, Noisy<'a>>;

/// Polynomials in place of functions, and noise.
pub struct Noisy<'a> {
    design: &'a Design,
    noise: &'a Noise,
    seed: u64,
    operations: u64,
    escapes: BTreeMap<Place, Escapes>,
}

impl<'a> FloatArithmetic<'a, Noisy<'a>> {
    /// Arithmetic after the public prefix in a cache. Equal seeds give equal noise.
    pub fn new(model: &'a Model, public: &'a KvCache, design: &'a Design, noise: &'a Noise, seed: u64) -> Self {
        let steps = Noisy { design, noise, seed, operations: 0, escapes: BTreeMap::new() };
        FloatArithmetic { model, public, steps }
    }

    /// Arguments of each function, and how many of them were outside their intervals.
    pub fn escapes(&self) -> &BTreeMap<Place, Escapes> {
        &self.steps.escapes
    }
}

impl Steps for Noisy<'_> {
    fn function(&mut self, _: Function, input: &Tensor, place: Place) -> Result<Array3<f32>, CircuitError> {
        let approximation = self.design.approximation(place).ok_or(CircuitError::NoRange { place })?;
        let (values, escapes) = approximation.evaluate(input);
        self.escapes.entry(place).or_default().merge(escapes);
        Ok(values)
    }

    /// Adds the noise of the operation.
    fn result(&mut self, mut values: Array3<f32>, place: Place) -> Result<Tensor, CircuitError> {
        self.operations += 1;
        let relative = self.noise.deviation(place);
        if relative != 0.0 {
            let ranges = self.design.ranges().of(place).ok_or(CircuitError::NoRange { place })?;
            let deviations: Vec<f32> = ranges.iter().map(|range| (relative * range.largest()) as f32).collect();
            let seed = mix(mix(self.seed, 0), self.operations);
            match place.quantity.by_coordinate() {
                true => add_to_coordinates(&mut values, &deviations, seed),
                false => add_to_groups(&mut values, &deviations, seed),
            }
        }
        Ok(Tensor(values))
    }
}

/// Adds independent Gaussian noise to activations, with a deviation for each coordinate. It does not depend on the
/// number of threads.
fn add_to_coordinates(values: &mut Array3<f32>, deviations: &[f32], seed: u64) {
    values.axis_iter_mut(Axis(1)).into_par_iter().enumerate().for_each(|(token, mut rows)| {
        let mut random = SmallRng::seed_from_u64(mix(seed, token as u64));
        for mut row in rows.rows_mut() {
            for (value, deviation) in row.iter_mut().zip(deviations) {
                *value += deviation * random.sample::<f32, _>(StandardNormal);
            }
        }
    });
}

/// Adds independent Gaussian noise to scores or factors, with a deviation for each group.
fn add_to_groups(values: &mut Array3<f32>, deviations: &[f32], seed: u64) {
    let groups = values.axis_iter_mut(Axis(0)).into_par_iter().zip(deviations).enumerate();
    groups.for_each(|(group, (mut values, deviation))| {
        let mut random = SmallRng::seed_from_u64(mix(seed, group as u64));
        for value in values.iter_mut() {
            *value += deviation * random.sample::<f32, _>(StandardNormal);
        }
    });
}

/// Hashes a word into a seed, by the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn mix(seed: u64, word: u64) -> u64 {
    let z = (seed ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
