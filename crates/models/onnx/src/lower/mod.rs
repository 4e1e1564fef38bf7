//! Nodes of a model to steps, in the model's order, with shapes and constants worked out on the way.

mod activation;
mod call;
mod classes;
mod convolution;
mod elementwise;
mod fold;
mod front;
mod linear;
mod normalize;
mod shapes;
mod slices;
mod svm;
mod table;

use std::collections::{HashMap, HashSet};

pub(crate) use call::{Call, kind_name};
pub(crate) use elementwise::broadcast;
pub(crate) use normalize::reduced;
pub(crate) use shapes::joined;

use crate::constant::Constant;
use crate::error::{OnnxError, Refusal, quoted};
use crate::finish::Finish;
use crate::graph::{Input, Operation};
use crate::limits::{MAX_ITEMS, MAX_NAME_BYTES};
use crate::proto::{GraphProto, NodeProto};
use crate::read::{Attributes, Folder};

/// What a value of the model holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Numbers.
    Number,
    /// Row numbers of tables, from an input.
    Index,
    /// Truth values, as 0 and 1.
    Truth,
    /// Integers, such as labels.
    Integer,
    /// Texts, such as labels.
    Text,
    /// A number for each label.
    Scores,
}

/// A value that depends on the inputs.
#[derive(Clone, Debug)]
pub(crate) struct Data {
    /// The place among inputs and steps.
    pub id: usize,
    /// The shape of a row.
    pub shape: Vec<usize>,
    pub kind: Kind,
}

/// A value of the model.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Constant(Constant),
    Data(Data),
}

/// What a step computes.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// What can be computed on encrypted numbers.
    Compute(Box<Operation>),
    /// What only the client can compute.
    Finish(Finish),
}

/// A node before it is clear whether the client computes it.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub name: String,
    pub op: String,
    pub output: String,
    pub work: Work,
    pub inputs: Vec<usize>,
    pub shape: Vec<usize>,
}

/// A model as steps; values are numbered inputs first.
pub(crate) struct Lowered {
    pub inputs: Vec<Input>,
    pub steps: Vec<Step>,
    pub outputs: Vec<(String, usize)>,
}

/// What is known of a model while its nodes are read.
pub(crate) struct State {
    pub inputs: Vec<Input>,
    pub steps: Vec<Step>,
    /// The fixed number of rows of the inputs, if the model has one.
    pub batch: Option<usize>,
    pub opset: i64,
    /// Bytes of constants that were computed so far.
    pub folded: usize,
}

/// Names of values.
struct Names {
    values: HashMap<String, Value>,
    /// Names of the outputs of all nodes.
    produced: HashSet<String>,
}

/// Reads the graph.
///
/// # Errors
/// Names the first node, tensor, input or output that is damaged or not supported.
pub(crate) fn lower(graph: GraphProto, opset: i64, folder: &Folder) -> Result<Lowered, OnnxError> {
    let GraphProto { node: nodes, initializer, input, output, .. } = graph;
    let mut names = Names { values: HashMap::new(), produced: HashSet::new() };
    front::read_initializers(initializer, folder, &mut names.values)?;
    let mut state = State { inputs: Vec::new(), steps: Vec::new(), batch: None, opset, folded: 0 };
    front::read_inputs(&input, &mut state, &mut names.values)?;
    for node in &nodes {
        names.claim_outputs(node).map_err(|refusal| refusal.at(place_of(node)))?;
    }
    for node in &nodes {
        lower_node(node, folder, &mut state, &mut names).map_err(|refusal| refusal.at(place_of(node)))?;
    }
    let outputs = front::read_outputs(&output, &names.values)?;
    Ok(Lowered { inputs: state.inputs, steps: state.steps, outputs })
}

/// How messages call a node.
fn place_of(node: &NodeProto) -> String {
    let output = node.output.first().map_or("", String::as_str);
    let domain = if node.domain.is_empty() { String::new() } else { format!(" of {}", quoted(&node.domain)) };
    format!("node {} ({}{domain}, output {})", quoted(&node.name), quoted(&node.op_type), quoted(output))
}

fn lower_node(node: &NodeProto, folder: &Folder, state: &mut State, names: &mut Names) -> Result<(), Refusal> {
    if !node.overload.is_empty() {
        return Err(Refusal::new("an overload of a function", "an operator", "inline the functions of the model"));
    }
    if let Some(name) = node.output.iter().chain([&node.name]).find(|name| name.len() > MAX_NAME_BYTES) {
        let found = format!("a name of {} bytes", name.len());
        return Err(Refusal::new(found, format!("at most {MAX_NAME_BYTES}"), "give the node a shorter name"));
    }
    let inputs = node.input.iter().map(|name| names.find(name)).collect::<Result<_, _>>()?;
    let attributes = Attributes::of(&node.attribute, folder)?;
    let mut call = Call { node, attributes, inputs, output: 0, state };
    let outputs = table::lower(&mut call)?;
    call.attributes.check_all_understood()?;
    if state.steps.len() > MAX_ITEMS {
        return Err(Refusal::new("too many operations", format!("at most {MAX_ITEMS}"), "use a smaller model"));
    }
    for (name, value) in node.output.iter().zip(outputs).filter(|(name, _)| !name.is_empty()) {
        names.values.insert(name.clone(), value);
    }
    Ok(())
}

impl Names {
    /// Notes the outputs of a node.
    fn claim_outputs(&mut self, node: &NodeProto) -> Result<(), Refusal> {
        for name in node.output.iter().filter(|name| !name.is_empty()) {
            if self.values.contains_key(name) || !self.produced.insert(name.clone()) {
                let found = format!("a second value with the name {}", quoted(name));
                return Err(Refusal::broken(found, "one value for each name"));
            }
        }
        Ok(())
    }

    /// The value of this name; none for the empty name, an operand that is left out.
    fn find(&self, name: &str) -> Result<Option<Value>, Refusal> {
        if name.is_empty() {
            return Ok(None);
        }
        if let Some(value) = self.values.get(name) {
            return Ok(Some(value.clone()));
        }
        let needed = "values of inputs, initializers and earlier nodes";
        if self.produced.contains(name) {
            let found = format!("operand {}, which is no value yet", quoted(name));
            let remedy = "if an earlier node has this optional output, export without it; otherwise the nodes form a \
                          cycle or are not in order";
            return Err(Refusal::new(found, needed, remedy));
        }
        Err(Refusal::broken(format!("operand {}, which nothing computes", quoted(name)), needed))
    }
}
