//! The products of attention as general products of matrices.

use ndarray::Array2;
use unspoken_ckks::{Ciphertext, Evaluator};
use unspoken_encrypted_matrix::{Budget, EncryptedMatrix, Graph, Layout as Tiles, MatrixProgram, Operation, plan};

use super::super::client::PassClient;
use super::setting::{Counted, Heads, Setting, Values, within};
use crate::error::larger_error;

/// Largest number of rotation keys of a product of two matrices.
const MAX_KEYS: usize = 200;

/// Two products of matrices, of queries with keys and of weights with values.
pub(super) struct MatrixProducts {
    pub(super) tiles: Tiles,
    pub(super) programs: [MatrixProgram; 2],
    /// For each batch of heads, the factors of both products.
    pub(super) factors: Vec<[[EncryptedMatrix<Ciphertext>; 2]; 2]>,
}

impl Setting {
    /// The products of matrices of all heads, in this layout, with results at the level of ours.
    pub(super) fn matrix_programs(&self, tiles: Tiles) -> anyhow::Result<[MatrixProgram; 2]> {
        let (chunk, width) = (self.case.chunk, self.case.model[3]);
        let scores = |graph: &mut Graph| -> anyhow::Result<()> {
            let (queries, keys) = (graph.input("queries", (chunk, width))?, graph.input("keys", (chunk, width))?);
            let keys = graph.push(Operation::Transpose, &[keys])?;
            graph.push(Operation::MatMul, &[queries, keys])?;
            Ok(())
        };
        let sums = |graph: &mut Graph| -> anyhow::Result<()> {
            let (weights, values) = (graph.input("weights", (chunk, chunk))?, graph.input("values", (chunk, width))?);
            graph.push(Operation::MatMul, &[weights, values])?;
            Ok(())
        };
        let planned = |build: &dyn Fn(&mut Graph) -> anyhow::Result<()>| -> anyhow::Result<_> {
            let mut graph = Graph::new();
            build(&mut graph)?;
            let (budget, out) = (Budget { most_keys: Some(MAX_KEYS), ..Budget::default() }, self.output_level());
            let first = plan(&self.encoder, &graph, tiles, out + 4, budget)?;
            match first.output_level() - out {
                0 => Ok(first),
                spare => Ok(plan(&self.encoder, &graph, tiles, out + 4 - spare, budget)?),
            }
        };
        Ok([planned(&scores)?, planned(&sums)?])
    }

    pub(super) fn count_products(programs: &[MatrixProgram; 2], batches: usize, out: usize) -> Counted {
        let mut keys = programs[0].key_plan().clone();
        keys.extend(programs[1].key_plan());
        let switches: u64 = programs.iter().map(|program| program.cost().total_key_switches()).sum();
        let levels = programs.iter().map(|program| program.level() - out).max().unwrap_or(0);
        Counted { keys, key_switches: switches * batches as u64, levels }
    }

    /// Encrypts the factors of the first `heads` heads.
    pub(super) fn matrix_products(
        &self,
        tiles: Tiles,
        programs: [MatrixProgram; 2],
        heads: usize,
        client: &mut PassClient,
    ) -> anyhow::Result<MatrixProducts> {
        let all = self.layout().heads;
        let values = &self.values;
        let [queries, keys, values, weights] =
            [&values.queries, &values.keys, &values.values, &values.weights].map(|heads| Values::matrices(heads, all));
        let own = ndarray::s![.., self.case.public..];
        let weights: Vec<Array2<f64>> = weights.iter().map(|weights| weights.slice(own).to_owned()).collect();
        let mut factors = Vec::new();
        for first in (0..heads).step_by(tiles.parallel()) {
            let batch = first..heads.min(first + tiles.parallel());
            let mut encrypt = |matrices: &[Array2<f64>], level: usize| {
                client.encrypt_matrices(tiles, &matrices[batch.clone()], level)
            };
            let [scores, sums] = [programs[0].level(), programs[1].level()];
            factors.push([
                [encrypt(&queries, scores)?, encrypt(&keys, scores)?],
                [encrypt(&weights, sums)?, encrypt(&values, sums)?],
            ]);
        }
        Ok(MatrixProducts { tiles, programs, factors })
    }

    /// Checks the products of the first batch.
    pub(super) fn check_products(&self, products: &MatrixProducts, client: &PassClient) -> anyhow::Result<()> {
        let results = products.run(&client.evaluator(), 1)?;
        let all = self.layout().heads;
        let of = |heads: &Heads| Values::matrices(heads, all);
        let (queries, keys) = (of(&self.values.queries), of(&self.values.keys));
        let (weights, values) = (of(&self.values.weights), of(&self.values.values));
        let own = ndarray::s![.., self.case.public..];
        for (number, result) in results.iter().enumerate() {
            for (head, found) in client.decrypt_matrices(result)?.iter().enumerate() {
                let exact = match number {
                    0 => queries[head].dot(&keys[head].t()),
                    _ => weights[head].slice(own).dot(&values[head]),
                };
                let most = exact.iter().fold(0.0f64, |most, value| most.max(value.abs()));
                let worst = (found - &exact).iter().fold(0.0, |worst, error| larger_error(worst, error.abs()));
                within(&format!("products of matrices, {} blocks", products.tiles.blocks()), worst / most)?;
            }
        }
        Ok(())
    }
}

impl MatrixProducts {
    /// Both products of the first `batches` batches of heads.
    pub(super) fn run(
        &self,
        evaluator: &Evaluator<'_>,
        batches: usize,
    ) -> anyhow::Result<Vec<EncryptedMatrix<Ciphertext>>> {
        let mut results = Vec::new();
        for factors in &self.factors[..batches] {
            for (program, factors) in self.programs.iter().zip(factors) {
                results.push(program.run(evaluator, factors)?);
            }
        }
        Ok(results)
    }
}
