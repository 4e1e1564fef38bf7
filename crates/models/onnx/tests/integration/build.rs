//! Models that tests build.

use prost::Message;
use unspoken_onnx::{Network, OnnxError};

/// The messages of ONNX, as the crate decodes them.
#[allow(missing_docs, dead_code, clippy::all)]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/onnx.rs"));
}

use proto::attribute_proto::AttributeType;
use proto::tensor_shape_proto::{Dimension, dimension};
use proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto, TypeProto,
    ValueInfoProto, type_proto,
};

/// Type of numbers of 32 bits.
pub const FLOAT: i32 = 1;
/// Type of integers of 64 bits.
pub const INT64: i32 = 7;

/// A node of `ai.onnx`.
pub fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let (input, output) = (names(inputs), names(outputs));
    NodeProto { op_type: op.to_owned(), name: format!("the {op}"), input, output, ..NodeProto::default() }
}

/// A node of `ai.onnx.ml`.
pub fn classical(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto { domain: "ai.onnx.ml".to_owned(), ..node(op, inputs, outputs) }
}

impl NodeProto {
    /// The node with one more attribute.
    pub fn with(mut self, attribute: AttributeProto) -> Self {
        self.attribute.push(attribute);
        self
    }

    /// The node with an integer.
    pub fn int(self, name: &str, i: i64) -> Self {
        self.with(AttributeProto { i, ..attribute(name, AttributeType::Int) })
    }

    /// The node with integers.
    pub fn ints(self, name: &str, ints: &[i64]) -> Self {
        self.with(AttributeProto { ints: ints.to_vec(), ..attribute(name, AttributeType::Ints) })
    }

    /// The node with a number.
    pub fn float(self, name: &str, f: f32) -> Self {
        self.with(AttributeProto { f, ..attribute(name, AttributeType::Float) })
    }

    /// The node with numbers.
    pub fn floats(self, name: &str, floats: &[f32]) -> Self {
        self.with(AttributeProto { floats: floats.to_vec(), ..attribute(name, AttributeType::Floats) })
    }

    /// The node with a text.
    pub fn text(self, name: &str, text: &str) -> Self {
        self.with(AttributeProto { s: text.as_bytes().to_vec().into(), ..attribute(name, AttributeType::String) })
    }
}

/// An attribute without a value.
pub fn attribute(name: &str, kind: AttributeType) -> AttributeProto {
    AttributeProto { name: name.to_owned(), r#type: kind.into(), ..AttributeProto::default() }
}

/// A tensor of numbers.
pub fn weights(name: &str, dims: &[i64], numbers: &[f32]) -> TensorProto {
    let (dims, float_data) = (dims.to_vec(), numbers.to_vec());
    TensorProto { name: name.to_owned(), dims, data_type: FLOAT, float_data, ..TensorProto::default() }
}

/// A tensor of integers with one axis.
pub fn integers(name: &str, numbers: &[i64]) -> TensorProto {
    let (dims, int64_data) = (vec![numbers.len() as i64], numbers.to_vec());
    TensorProto { name: name.to_owned(), dims, data_type: INT64, int64_data, ..TensorProto::default() }
}

/// An input of this type whose first axis is the batch; 0 is an axis of any size.
pub fn value(name: &str, elem_type: i32, dims: &[i64]) -> ValueInfoProto {
    let size = |&size: &i64| match size {
        0 => dimension::Value::DimParam("rows".to_owned()),
        size => dimension::Value::DimValue(size),
    };
    let dim = dims.iter().map(|dim| Dimension { value: Some(size(dim)) }).collect();
    let tensor = type_proto::Tensor { elem_type, shape: Some(TensorShapeProto { dim }) };
    ValueInfoProto {
        name: name.to_owned(),
        r#type: Some(TypeProto { value: Some(type_proto::Value::TensorType(tensor)) }),
    }
}

/// A model with an input `x` of rows with this shape, and an output `y`.
pub fn model(row: &[i64], nodes: &[NodeProto], initializers: &[TensorProto]) -> ModelProto {
    let graph = GraphProto {
        node: nodes.to_vec(),
        initializer: initializers.to_vec(),
        input: vec![value("x", FLOAT, &[&[0], row].concat())],
        output: vec![value("y", FLOAT, &[])],
        ..GraphProto::default()
    };
    let set = |domain: &str, version| OperatorSetIdProto { domain: domain.to_owned(), version };
    let opset_import = vec![set("", 18), set("ai.onnx.ml", 3)];
    ModelProto { ir_version: 8, graph: Some(graph), opset_import, ..ModelProto::default() }
}

/// Reads a model.
pub fn read(model: &ModelProto) -> Result<Network, OnnxError> {
    Network::from_bytes(model.encode_to_vec())
}

/// The message of the error with which a model is refused.
#[track_caller]
pub fn refusal(model: &ModelProto) -> String {
    read(model).expect_err("a refusal").to_string()
}

/// Checks that the message of a refusal has all these parts.
#[track_caller]
pub fn assert_refused(model: &ModelProto, parts: &[&str]) {
    let message = refusal(model);
    for part in parts {
        assert!(message.contains(part), "{message:?} has no {part:?}");
    }
}
