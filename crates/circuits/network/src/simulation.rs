//! Programs in the clear: with polynomials, and with the noise of an encrypted run.

use ndarray::{Array2, ArrayView2};
use unspoken_ckks::{Complex64, Encoder, Overflow, Simulated, Simulator};

use crate::error::NetworkError;
use crate::layout::{Answer, Port};
use crate::network::Network;
use crate::program::Program;

/// A run of a program in the clear, with the noise of an encrypted run.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The outputs with polynomials and without noise: rows x elements for each output.
    pub exact: Vec<Array2<f64>>,
    /// The outputs with noise.
    pub noisy: Vec<Array2<f64>>,
    /// The largest difference of both, as a part of the radius of the element's range.
    pub noise: f64,
    /// The largest difference of `exact` and the network itself, in the same unit: what the polynomials change.
    pub approximation: f64,
    /// Numbers of rows whose results are too large for rows in the calibrated ranges.
    pub outside: Vec<usize>,
    /// Values that do not fit their level: an encrypted run would decrypt to garbage.
    pub overflows: Vec<Overflow>,
}

impl Program {
    /// Runs the program for up to a batch of rows (one table for each input) on a simulator, and the network that it
    /// was designed for. `seed` determines the noise.
    ///
    /// # Errors
    /// If the rows do not fit the inputs, or as for [`Program::evaluate`].
    pub fn simulate(
        &self,
        network: &Network,
        encoder: &Encoder,
        rows: &[ArrayView2<'_, f64>],
        seed: u64,
    ) -> Result<Simulation, NetworkError> {
        self.simulate_on(network, &Simulator::new(encoder, seed), rows, &mut |_| {})
    }

    /// As [`Program::simulate`], which calls `watch` with the number of each step that has ended.
    pub(crate) fn simulate_on(
        &self,
        network: &Network,
        simulator: &Simulator,
        rows: &[ArrayView2<'_, f64>],
        watch: &mut dyn FnMut(usize),
    ) -> Result<Simulation, NetworkError> {
        let count = network.check_rows(rows)?;
        let encrypt = |(port, rows): (&Port, &ArrayView2<'_, f64>)| {
            let vectors = port.arrange(*rows)?;
            let encrypt = |slots: &Vec<Complex64>| simulator.encrypt(slots, self.input_level(), self.scale());
            Ok(vectors.iter().map(encrypt).collect::<Result<Vec<_>, _>>()?)
        };
        let inputs = self.inputs().iter().zip(rows).map(encrypt).collect::<Result<Vec<_>, NetworkError>>()?;
        let results = self.run(simulator, &inputs, |step, _| watch(step))?;
        let read = |slots: fn(&Simulated) -> &[Complex64]| {
            let of_output = |(port, vectors): (&Port, &Vec<Simulated>)| {
                port.read(&vectors.iter().map(slots).collect::<Vec<_>>(), count)
            };
            self.outputs().iter().zip(&results).map(of_output).collect::<Result<Vec<Answer>, _>>()
        };
        let (exact, noisy) = (read(Simulated::exact)?, read(Simulated::noisy)?);
        let mut outside: Vec<usize> = noisy.iter().flat_map(|answer| answer.outside.clone()).collect();
        outside.sort_unstable();
        outside.dedup();
        let values = |answers: Vec<Answer>| answers.into_iter().map(|answer| answer.values).collect::<Vec<_>>();
        let (exact, noisy, expected) = (values(exact), values(noisy), network.run(rows)?);
        Ok(Simulation {
            noise: self.distance(&noisy, &exact),
            approximation: self.distance(&exact, &expected),
            exact,
            noisy,
            outside,
            overflows: simulator.overflows(),
        })
    }

    /// The largest difference of outputs, as a part of the radius of the element's range.
    pub fn distance(&self, found: &[Array2<f64>], expected: &[Array2<f64>]) -> f64 {
        let mut largest = 0.0f64;
        for ((port, found), expected) in self.outputs().iter().zip(found).zip(expected) {
            for ((index, a), b) in found.indexed_iter().zip(expected) {
                let part = (a - b).abs() / port.encoding().radius()[index.1];
                largest = if part.is_nan() { f64::INFINITY } else { largest.max(part) };
            }
        }
        largest
    }
}
