//! What is computed on encrypted numbers, and what the client computes from the decrypted results.

use crate::activation::Activation;
use crate::error::{OnnxError, Refusal, quoted};
use crate::finish::{Finish, FinishStep, Output, Source};
use crate::graph::{Network, Node, Operation, ValueId};
use crate::lower::{Lowered, Step, Work};

/// Which steps the client computes.
struct Sides<'a> {
    lowered: &'a Lowered,
    /// For each value, inputs included.
    client: Vec<bool>,
}

/// Splits the steps.
///
/// # Errors
/// If what only a client can compute, such as a softmax, is followed by what is not for clients.
pub(crate) fn split(lowered: Lowered) -> Result<Network, OnnxError> {
    let mut sides = Sides { client: vec![false; lowered.inputs.len() + lowered.steps.len()], lowered: &lowered };
    sides.mark_finishes()?;
    sides.mark_final_sigmoids();
    sides.mark_what_follows_results();
    let client = sides.client;
    assemble(lowered, &client)
}

impl Sides<'_> {
    /// The steps in order, with their values.
    fn steps(&self) -> impl DoubleEndedIterator<Item = (usize, &Step)> + use<'_> {
        let inputs = self.lowered.inputs.len();
        self.lowered.steps.iter().enumerate().map(move |(place, step)| (inputs + place, step))
    }

    /// Marks what only a client computes, and all that follows it.
    fn mark_finishes(&mut self) -> Result<(), OnnxError> {
        let lowered = self.lowered;
        for (place, step) in lowered.steps.iter().enumerate() {
            let follows = step.inputs.iter().find(|&&value| self.client[value]);
            if let (Some(&before), false) = (follows, is_light(step)) {
                let before = &lowered.steps[before - lowered.inputs.len()].op;
                return Err(not_at_the_end(before).at(place_of(step)));
            }
            self.client[lowered.inputs.len() + place] = follows.is_some() || matches!(step.work, Work::Finish(_));
        }
        Ok(())
    }

    /// Marks sigmoids that only light steps follow, all of whose operands are the client's: probabilities.
    fn mark_final_sigmoids(&mut self) {
        let sigmoid = |step: &Step| match &step.work {
            Work::Compute(operation) => matches!(**operation, Operation::Activation(Activation::Sigmoid)),
            Work::Finish(_) => false,
        };
        let mut candidates: Vec<bool> = self.client.clone();
        for (value, step) in self.steps() {
            let after_another = step.inputs.iter().any(|&input| candidates[input]);
            candidates[value] |= sigmoid(step) || after_another;
        }
        // A step that is not light, or mixes in other values, keeps all before it from the client.
        loop {
            let mut refused = vec![false; candidates.len()];
            for (value, step) in self.steps().rev() {
                let mixes = !sigmoid(step) && step.inputs.iter().any(|&input| !candidates[input]);
                let blocked = refused[value] || !is_light(step) || mixes;
                if candidates[value] && !self.client[value] && blocked {
                    refused[value] = true;
                    step.inputs.iter().for_each(|&input| refused[input] |= candidates[input] && !self.client[input]);
                }
            }
            if !refused.contains(&true) {
                break;
            }
            candidates.iter_mut().zip(&refused).for_each(|(candidate, &refused)| *candidate &= !refused);
        }
        self.client = candidates;
    }

    /// Marks light steps whose operands the client has in any case, if all that follows is light.
    fn mark_what_follows_results(&mut self) {
        let mut light = vec![true; self.client.len()];
        for (value, step) in self.steps().rev() {
            if !light[value] || !is_light(step) {
                step.inputs.iter().for_each(|&input| light[input] = false);
            }
        }
        let mut has = self.client.clone();
        for value in self.results() {
            has[value] = value >= self.lowered.inputs.len();
        }
        for (place, step) in self.lowered.steps.iter().enumerate() {
            let value = self.lowered.inputs.len() + place;
            if light[value] && is_light(step) && step.inputs.iter().all(|&input| has[input]) {
                self.client[value] = true;
                has[value] = true;
            }
        }
    }

    /// Values that the client does not compute and needs.
    fn results(&self) -> Vec<usize> {
        let operands = self.steps().filter(|(value, _)| self.client[*value]).flat_map(|(_, step)| step.inputs.clone());
        let outputs = self.lowered.outputs.iter().map(|(_, value)| *value);
        let mut results: Vec<usize> = operands.chain(outputs).filter(|&value| !self.client[value]).collect();
        results.sort_unstable();
        results.dedup();
        results
    }
}

/// Whether a client computes a step without weights of layers. These operations have a form in JSON.
fn is_light(step: &Step) -> bool {
    match &step.work {
        Work::Finish(_) => true,
        Work::Compute(operation) => matches!(
            **operation,
            Operation::Affine { .. }
                | Operation::Add
                | Operation::Sub
                | Operation::Mul
                | Operation::Activation(_)
                | Operation::Concat { .. }
                | Operation::Reshape
                | Operation::Select { .. }
                | Operation::Reduce { .. }
        ),
    }
}

/// The network and the finishes of its outputs.
fn assemble(lowered: Lowered, client: &[bool]) -> Result<Network, OnnxError> {
    let sides = Sides { lowered: &lowered, client: client.to_vec() };
    let results = sides.results();
    let mut numbers = vec![0; client.len()];
    for (number, value) in (0..client.len()).filter(|&value| !client[value]).enumerate() {
        numbers[value] = number;
    }
    let outputs =
        lowered.outputs.iter().map(|(name, value)| output_of(&lowered, client, &results, name, *value)).collect();
    let inputs = lowered.inputs.len();
    let steps = lowered.steps.into_iter().enumerate().filter(|(place, _)| !client[inputs + place]);
    let nodes = steps.map(|(_, step)| node_of(step, &numbers)).collect::<Result<_, _>>()?;
    let results = results.into_iter().map(|value| ValueId(numbers[value])).collect();
    Ok(Network { inputs: lowered.inputs, nodes, results, outputs })
}

fn node_of(step: Step, numbers: &[usize]) -> Result<Node, OnnxError> {
    let place = place_of(&step);
    let Work::Compute(operation) = step.work else {
        return Err(not_at_the_end(&step.op).at(place));
    };
    let inputs = step.inputs.into_iter().map(|value| ValueId(numbers[value])).collect();
    Ok(Node { name: step.name, op: step.op, output: step.output, operation: *operation, inputs, shape: step.shape })
}

/// The steps of the client for one output.
fn output_of(lowered: &Lowered, client: &[bool], results: &[usize], name: &str, value: usize) -> Output {
    let inputs = lowered.inputs.len();
    let mut needed = vec![false; client.len()];
    needed[value] = true;
    for place in (0..lowered.steps.len()).rev().filter(|place| client[inputs + place]) {
        if needed[inputs + place] {
            lowered.steps[place].inputs.iter().for_each(|&input| needed[input] = true);
        }
    }
    let mut steps: Vec<FinishStep> = Vec::new();
    let mut sources: Vec<Source> = vec![Source::Result(0); client.len()];
    for (place, &result) in results.iter().enumerate() {
        sources[result] = Source::Result(place);
    }
    for (place, step) in lowered.steps.iter().enumerate() {
        if client[inputs + place] && needed[inputs + place] {
            let finish = match &step.work {
                Work::Compute(operation) => Finish::Compute(operation.clone()),
                Work::Finish(finish) => finish.clone(),
            };
            let operands = step.inputs.iter().map(|&input| sources[input]).collect();
            sources[inputs + place] = Source::Step(steps.len());
            steps.push(FinishStep { finish, inputs: operands, shape: step.shape.clone() });
        }
    }
    let shape = match value.checked_sub(inputs) {
        Some(place) => lowered.steps[place].shape.clone(),
        None => lowered.inputs[value].shape.clone(),
    };
    Output { name: name.to_owned(), source: sources[value], steps, shape }
}

fn place_of(step: &Step) -> String {
    format!("node {} ({}, output {})", quoted(&step.name), quoted(&step.op), quoted(&step.output))
}

fn not_at_the_end(before: &str) -> Refusal {
    let found = format!("a layer after {}", quoted(before));
    let needed = "softmax, normalisation, comparisons and labels at the end only, where the client computes them";
    Refusal::new(found, needed, "remove what follows, or replace the operator by an activation")
}
