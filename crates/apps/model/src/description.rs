//! The description of a served model, which client and server must both know.

use ndarray::ArrayView2;
use unspoken_ckks::{CkksParameters, SeededCiphertext};
use unspoken_network::{Arrangement, Layout, MAX_TABLE_ROWS, Order, Port, Program};
use unspoken_onnx::Outputs;
use unspoken_protocol::limits::Bootstraps;
use unspoken_protocol::{
    ApplicationDescription, CkksDescription, CkksHeader, KeySetId, Protocol, ProtocolError, output_bytes,
};

use crate::error::ModelError;
use crate::interface::{InputShape, Interface, MAX_NAME};
use crate::output::OutputShape;
use crate::proto;

/// Version of the protocol. Descriptions of version 1 do not say what outputs give.
pub const PROTOCOL_VERSION: u32 = 2;

/// Kind and version of the application.
pub(crate) const PROTOCOL: Protocol = Protocol { kind: "model", version: PROTOCOL_VERSION };

/// Encrypted numbers of a row, of all inputs and results together, at most: a few bytes may describe so many.
const MAX_ELEMENTS: usize = 1 << 22;

/// Inputs or results, at most.
const MAX_PORTS: usize = 4096;

/// Bytes of a description, at most: clients read it from a message of a mebibyte, in which a service says more.
pub(crate) const MAX_DESCRIPTION: usize = 1_000_000;

/// Refuses descriptions that clients would not read.
pub(crate) fn check_bytes(bytes: usize, elements: usize) -> Result<(), ModelError> {
    if bytes <= MAX_DESCRIPTION {
        return Ok(());
    }
    let found =
        format!("{elements} encrypted elements of inputs and results, whose ranges and names take {bytes} bytes");
    let needed = format!("at most {MAX_DESCRIPTION} bytes, which clients read; make inputs and results smaller");
    Err(ProtocolError::mismatch("compile", found, needed).into())
}

/// An input of a model, as a client sees it.
#[derive(Clone, Debug)]
pub struct Input {
    /// What it is.
    pub shape: InputShape,
    /// How it lies in the slots, with the calibrated range of each element.
    pub(crate) port: Port,
}

impl Input {
    /// The inputs of a program.
    pub(crate) fn of(interface: &Interface, program: &Program) -> Vec<Self> {
        let inputs = interface.inputs.iter().zip(program.inputs());
        inputs.map(|(shape, port)| Input { shape: shape.clone(), port: port.clone() }).collect()
    }

    /// The numbers of encoded rows as a table.
    pub(crate) fn table<'a>(&self, numbers: &'a [f64], rows: usize) -> Result<ArrayView2<'a, f64>, ModelError> {
        let shape = (rows, self.port.layout().size());
        let wrong = |_| ProtocolError::mismatch("rows", numbers.len(), format!("{shape:?}"));
        Ok(ArrayView2::from_shape(shape, numbers).map_err(wrong)?)
    }

    /// The calibrated range of a number of a row, with its margin; `None` for indices.
    pub fn range(&self, element: usize) -> Option<[f64; 2]> {
        let encoding = self.port.encoding();
        let (middle, radius) = (*encoding.middle().get(element)?, *encoding.radius().get(element)?);
        self.shape.table_rows.is_none().then_some([middle - radius, middle + radius])
    }
}

/// Data that a client needs to ask questions: made by the server, checked by the client.
#[derive(Clone, Debug)]
pub struct Description {
    header: CkksHeader,
    own: proto::Description,
    inputs: Vec<Input>,
    results: Vec<Port>,
    outputs: Outputs,
    output_shapes: Vec<OutputShape>,
}

impl Description {
    /// The description of a server whose program has these inputs, and results of these shapes.
    ///
    /// # Errors
    /// If the outputs cannot be computed.
    pub(crate) fn new(
        header: CkksHeader,
        (arrangement, query_level): (Arrangement, usize),
        inputs: Vec<Input>,
        results: Vec<Port>,
        outputs: Outputs,
    ) -> Result<Self, ModelError> {
        let output_shapes = OutputShape::of(&outputs)?;
        let numbers = |shape: &[usize]| shape.iter().map(|size| *size as u32).collect();
        let result =
            |(shape, port): (&Vec<usize>, &Port)| proto::Result { shape: numbers(shape), port: Some(of_port(port)) };
        let own = proto::Description {
            batch: arrangement.batch as u32,
            consecutive: arrangement.order == Order::Consecutive,
            query_level: query_level as u32,
            inputs: inputs.iter().map(|input| of_input(input, numbers(&input.shape.shape))).collect(),
            results: outputs.result_shapes().iter().zip(&results).map(result).collect(),
            outputs: outputs.to_bytes(),
            gives: output_shapes.iter().map(|output| output.gives.written().into()).collect(),
        };
        Ok(Description { header, own, inputs, results, outputs, output_shapes })
    }

    /// Reads a description from untrusted bytes and builds its parameters.
    ///
    /// # Errors
    /// The errors of [`CkksHeader::read`], also for an insecure preset, or if inputs, results or outputs do not fit.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelError> {
        Self::read(bytes, false)
    }

    /// Like [`Description::from_bytes`], but accepts insecure presets: for tests.
    ///
    /// # Errors
    /// The errors of [`Description::from_bytes`], except for an insecure preset.
    pub fn insecure_from_bytes(bytes: &[u8]) -> Result<Self, ModelError> {
        Self::read(bytes, true)
    }

    /// Serialises the description.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.header.to_bytes(&self.own)
    }

    /// The parameters.
    pub fn parameters(&self) -> &CkksParameters {
        self.header.parameters()
    }

    /// Number of rows in one query. Fewer are padded, which the server cannot see.
    pub fn batch(&self) -> usize {
        self.own.batch as usize
    }

    /// The inputs of the model.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// What is encrypted in an answer.
    pub(crate) fn results(&self) -> &[Port] {
        &self.results
    }

    /// What the client computes from the results.
    pub fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// The outputs as those who ask see them. The service says what they give; it fits the type of their values.
    pub fn output_shapes(&self) -> &[OutputShape] {
        &self.output_shapes
    }

    /// The level of a query's vectors.
    pub fn query_level(&self) -> usize {
        self.own.query_level as usize
    }

    /// Encrypted numbers of a row, of all inputs and results.
    pub(crate) fn elements(&self) -> usize {
        let ports = self.inputs.iter().map(|input| &input.port).chain(&self.results);
        ports.map(|port| port.layout().size()).sum()
    }

    /// Number of vectors in a query.
    pub(crate) fn query_vectors(&self) -> usize {
        self.inputs.iter().map(|input| input.port.layout().vectors()).sum()
    }

    /// Number of vectors in an answer.
    pub(crate) fn answer_vectors(&self) -> usize {
        self.results.iter().map(|port| port.layout().vectors()).sum()
    }

    /// Maximum length of a query in bytes.
    pub fn query_bytes(&self) -> usize {
        self.header.packed_bytes(self.query_vectors(), self.vector_bytes())
    }

    /// Maximum length of an answer in bytes: vectors of level 0.
    pub(crate) fn answer_bytes(&self) -> usize {
        let vectors = self.answer_vectors();
        self.header.packed_bytes(vectors, vectors.saturating_mul(output_bytes(self.parameters(), 0)))
    }

    /// Bytes of all vectors of a query; `usize::MAX` if there are more.
    fn vector_bytes(&self) -> usize {
        self.query_vectors().saturating_mul(SeededCiphertext::byte_len(self.parameters(), self.query_level()))
    }
}

fn of_input(Input { shape: input, port }: &Input, shape: Vec<u32>) -> proto::Input {
    let table_rows = input.table_rows.unwrap_or(0) as u32;
    let (name, elements) = (input.name.clone(), input.elements.clone());
    proto::Input { name, shape, table_rows, port: Some(of_port(port)), elements }
}

fn of_port(port: &Port) -> proto::Port {
    let encoding = port.encoding();
    proto::Port {
        period: port.layout().period() as u32,
        middle: once_if_equal(encoding.middle()),
        radius: once_if_equal(encoding.radius()),
        bound: port.bound(),
    }
}

/// One number for all, if they are equal.
fn once_if_equal(numbers: &[f64]) -> Vec<f64> {
    let [first, rest @ ..] = numbers else { return Vec::new() };
    if rest.iter().all(|number| number.to_bits() == first.to_bits()) { vec![*first] } else { numbers.to_vec() }
}

/// The numbers of all elements, from those of a message.
fn for_all(numbers: &[f64], size: usize) -> Vec<f64> {
    match numbers {
        [one] => vec![*one; size],
        each => each.to_vec(),
    }
}

fn shape_of(shape: &[u32]) -> Vec<usize> {
    shape.iter().map(|size| *size as usize).collect()
}

/// The number of elements of a shape from outside.
fn elements(shape: &[u32], each: usize) -> Result<usize, ModelError> {
    let size = shape.iter().try_fold(each, |size, axis| size.checked_mul(*axis as usize));
    let found =
        || ProtocolError::mismatch("description", format!("{shape:?}"), format!("1 to {MAX_ELEMENTS} elements"));
    Ok(size.filter(|size| (1..=MAX_ELEMENTS).contains(size)).ok_or_else(found)?)
}

/// A port from outside, for rows of `size` elements.
fn port(message: Option<&proto::Port>, size: usize, (slots, rows): (usize, Arrangement)) -> Result<Port, ModelError> {
    let message = message.ok_or_else(|| ProtocolError::mismatch("description", "no port", "one"))?;
    let layout = Layout::with_period(size, slots, rows, message.period as usize)?;
    let [middle, radius] = [&message.middle, &message.radius].map(|numbers| for_all(numbers, size));
    Ok(Port::new("", layout, middle, radius, message.bound)?)
}

/// The encrypted numbers of a row of all inputs and results.
fn all_elements(own: &proto::Description) -> Result<usize, ModelError> {
    let of_input = |input: &proto::Input| elements(&input.shape, input.table_rows.max(1) as usize);
    let of_result = |result: &proto::Result| elements(&result.shape, 1);
    let mut sizes = own.inputs.iter().map(of_input).chain(own.results.iter().map(of_result));
    sizes.try_fold(0usize, |sum, size| Ok(sum.saturating_add(size?)))
}

fn input(message: &proto::Input, shape: (usize, Arrangement)) -> Result<Input, ModelError> {
    let rows = message.table_rows as usize;
    if message.name.len() > MAX_NAME || rows > MAX_TABLE_ROWS {
        let needed = format!("a name of at most {MAX_NAME} bytes, and at most {MAX_TABLE_ROWS} rows");
        return Err(ProtocolError::mismatch("description", format!("an input with {rows} rows"), needed).into());
    }
    let port = port(message.port.as_ref(), elements(&message.shape, rows.max(1))?, shape)?;
    let table_rows = (rows > 0).then_some(rows);
    let (name, elements) = (message.name.clone(), message.elements.clone());
    let shape = InputShape { name, shape: shape_of(&message.shape), table_rows, elements };
    shape.check_elements()?;
    Ok(Input { shape, port })
}

impl ApplicationDescription for Description {
    type Error = ModelError;

    const PROTOCOL: Protocol = PROTOCOL;

    fn read(bytes: &[u8], accept_insecure: bool) -> Result<Self, ModelError> {
        let (header, own) = CkksHeader::read::<proto::Description>(bytes, PROTOCOL, accept_insecure)?;
        let counts = [own.inputs.len(), own.results.len()];
        if counts.iter().any(|count| !(1..=MAX_PORTS).contains(count)) {
            let found = format!("{} inputs and {} results", counts[0], counts[1]);
            return Err(ProtocolError::mismatch("description", found, format!("1 to {MAX_PORTS} of each")).into());
        }
        let top = header.parameters().circuit_level();
        if own.query_level as usize > top {
            let needed = format!("at most {top} with preset {}", header.parameters().name());
            return Err(ProtocolError::mismatch("query level", own.query_level, needed).into());
        }
        let found = all_elements(&own)?;
        if found > MAX_ELEMENTS {
            let needed = format!("at most {MAX_ELEMENTS} of all inputs and results");
            return Err(ProtocolError::mismatch("description", format!("{found} elements"), needed).into());
        }
        let order = if own.consecutive { Order::Consecutive } else { Order::Interleaved };
        let layout = (header.parameters().slots(), Arrangement { batch: own.batch as usize, order });
        let inputs = own.inputs.iter().map(|one| input(one, layout)).collect::<Result<Vec<_>, _>>()?;
        let result = |one: &proto::Result| port(one.port.as_ref(), elements(&one.shape, 1)?, layout);
        let results = own.results.iter().map(result).collect::<Result<Vec<_>, ModelError>>()?;
        let shapes: Vec<Vec<usize>> = own.results.iter().map(|one| shape_of(&one.shape)).collect();
        let outputs = Outputs::from_bytes(&own.outputs, &shapes)?;
        let output_shapes = OutputShape::read(&outputs, &own.gives)?;
        let bootstraps = header.parameters().bootstraps();
        header.check_use(if bootstraps { Bootstraps::Ciphertexts } else { Bootstraps::Nothing })?;
        let description = Description { header, own, inputs, results, outputs, output_shapes };
        CkksHeader::check_query_bytes(description.vector_bytes())?;
        CkksHeader::check_answer_bytes(description.answer_bytes())?;
        Ok(description)
    }

    fn key_set(&self) -> KeySetId {
        self.header.key_set()
    }

    fn keep_from(&mut self, earlier: &Self) {
        self.header.keep_error_bound(&earlier.header);
    }
}

impl CkksDescription for Description {
    fn header(&self) -> &CkksHeader {
        &self.header
    }
}
