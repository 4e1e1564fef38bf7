//! Evaluation in the clear, with 32-bit numbers between the nodes and 64-bit sums within them.

mod answers;
mod convolution;
mod operations;

use ndarray::ArrayD;

use crate::error::{OnnxError, run_error};
use crate::finish::{Answer, Output};
use crate::graph::{InputKind, Network, Node};

pub(crate) use operations::compute;

impl Network {
    /// Evaluates a batch. `inputs` are in the order of [`Network::inputs`], each of shape `[rows, ..]` with the input's
    /// shape; indexes are whole numbers. The results are in the order of [`Network::results`].
    ///
    /// # Errors
    /// If an input has another shape, or is not a number or an index of all tables that it indexes.
    pub fn run(&self, inputs: &[ArrayD<f32>]) -> Result<Vec<ArrayD<f32>>, OnnxError> {
        self.run_observed(inputs, |_, _| {})
    }

    /// Evaluates a batch as [`Network::run`] does, and shows the value of each node, `[rows, ..]`, once it is computed.
    ///
    /// # Errors
    /// As for [`Network::run`].
    pub fn run_observed(
        &self,
        inputs: &[ArrayD<f32>],
        mut observe: impl FnMut(&Node, &ArrayD<f32>),
    ) -> Result<Vec<ArrayD<f32>>, OnnxError> {
        self.check_inputs(inputs)?;
        let last_uses = self.last_uses();
        let mut values: Vec<Option<ArrayD<f32>>> = inputs.iter().cloned().map(Some).collect();
        for (place, node) in self.nodes.iter().enumerate() {
            let operands: Option<Vec<&ArrayD<f32>>> =
                node.inputs.iter().map(|value| values.get(value.0)?.as_ref()).collect();
            let operands = operands.ok_or_else(|| run_error("a value that was dropped", "all operands"))?;
            let value = compute(&node.operation, &operands, &node.shape)?;
            observe(node, &value);
            values.push(Some(value));
            let done = |&value: &usize| last_uses[value] == Some(place);
            node.inputs.iter().map(|value| value.0).filter(done).for_each(|value| values[value] = None);
        }
        let results = self.results.iter().map(|value| values.get(value.0).cloned().flatten());
        results.collect::<Option<_>>().ok_or_else(|| run_error("a result that was dropped", "all results"))
    }

    /// Evaluates a batch and computes the outputs from its results, in the order of [`Network::outputs`].
    ///
    /// # Errors
    /// As for [`Network::run`].
    pub fn answer(&self, inputs: &[ArrayD<f32>]) -> Result<Vec<Answer>, OnnxError> {
        let results = self.run(inputs)?;
        self.outputs.iter().map(|output| output.finish(&results)).collect()
    }

    /// The node after which each value is not needed any more; none if it is a result.
    fn last_uses(&self) -> Vec<Option<usize>> {
        let mut last = vec![None; self.inputs.len() + self.nodes.len()];
        for (place, node) in self.nodes.iter().enumerate() {
            node.inputs.iter().for_each(|value| last[value.0] = Some(place));
        }
        self.results.iter().for_each(|value| last[value.0] = None);
        last
    }

    fn check_inputs(&self, inputs: &[ArrayD<f32>]) -> Result<(), OnnxError> {
        if inputs.len() != self.inputs.len() {
            return Err(run_error(format!("{} inputs", inputs.len()), format!("{}", self.inputs.len())));
        }
        let rows = inputs.first().and_then(|input| input.shape().first().copied());
        for (array, input) in inputs.iter().zip(&self.inputs) {
            let fits =
                array.shape().split_first().is_some_and(|(&front, row)| Some(front) == rows && row == input.shape);
            if !fits {
                let needed = format!("shape [rows, ..] with rows of {:?}, and as many rows of each input", input.shape);
                return Err(run_error(format!("input {:?} of shape {:?}", input.name, array.shape()), needed));
            }
            let whole = |number: &f32| input.kind == InputKind::Float || number.fract() == 0.0;
            if let Some(number) = array.iter().find(|number| !number.is_finite() || !whole(number)) {
                let needed = if input.kind == InputKind::Float { "finite numbers" } else { "whole numbers" };
                return Err(run_error(format!("{number} in input {:?}", input.name), needed));
            }
        }
        Ok(())
    }
}

impl Output {
    /// Computes this output from the decrypted results of a batch, which are in the order of
    /// [`Network::results`](crate::Network::results). This is the client's part: it needs no weights of layers.
    ///
    /// # Errors
    /// If the results are not those of this network.
    pub fn finish(&self, results: &[ArrayD<f32>]) -> Result<Answer, OnnxError> {
        answers::finish(self, results)
    }
}
