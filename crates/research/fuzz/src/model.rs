//! A target for the descriptions of models that owners bring.

use std::sync::LazyLock;

use ndarray::Array2;
use prost::Message;
use unspoken_ckks::Preset;
use unspoken_model::{CompiledModel, Description, Input, ModelClient, Row};
use unspoken_network::{Options, Wishes};
use unspoken_onnx::Network;
use unspoken_protocol::{ApplicationDescription, ClientHalf, ServerHalf};

use crate::Target;
use crate::fixtures::serve_a_hostile_server;
use crate::messages::{self, Described, KeyRequirement, MAX_QUERY_BYTES_MADE, PRESET};

/// Fields of a description.
#[derive(Clone, PartialEq, Message)]
struct Own {
    #[prost(uint32, tag = "5")]
    batch: u32,
    #[prost(uint32, tag = "6")]
    query_level: u32,
    #[prost(message, repeated, tag = "7")]
    inputs: Vec<InputFields>,
    #[prost(message, repeated, tag = "8")]
    results: Vec<ResultFields>,
    #[prost(bytes = "vec", tag = "9")]
    outputs: Vec<u8>,
    #[prost(bool, tag = "13")]
    consecutive: bool,
    #[prost(int32, repeated, tag = "19")]
    gives: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct InputFields {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(uint32, repeated, tag = "2")]
    shape: Vec<u32>,
    #[prost(uint32, tag = "3")]
    table_rows: u32,
    #[prost(message, optional, tag = "4")]
    port: Option<Port>,
    #[prost(string, repeated, tag = "5")]
    elements: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ResultFields {
    #[prost(uint32, repeated, tag = "1")]
    shape: Vec<u32>,
    #[prost(message, optional, tag = "2")]
    port: Option<Port>,
}

#[derive(Clone, PartialEq, Message)]
struct Port {
    #[prost(uint32, tag = "1")]
    period: u32,
    #[prost(double, repeated, tag = "2")]
    middle: Vec<f64>,
    #[prost(double, repeated, tag = "3")]
    radius: Vec<f64>,
    #[prost(double, tag = "4")]
    bound: f64,
}

/// `Description::insecure_from_bytes`, and a client that generates the keys and a query that the description asks for.
pub static DESCRIPTION: Target = Target {
    name: "model_description",
    run: |data| {
        let read = messages::read_description::<Own, _>(data, Description::to_bytes);
        let Some(description) = read else { return false };
        let (most, inputs) = (description.query_bytes(), description.inputs());
        if most <= MAX_QUERY_BYTES_MADE {
            // Zeros may be outside the ranges: they are asked, too.
            let zeros = |input: &Input| vec![0.0; input.shape.size()];
            let row = Row::new(inputs.iter().map(zeros).collect());
            if let Ok(client) = ModelClient::open(description, (), None) {
                client.encode(std::slice::from_ref(&row)).expect("has the form of the description");
                serve_a_hostile_server(client, most, &[row]);
            }
        }
        true
    },
    repair: |data| {
        let Ok(mut message) = Described::<Own>::decode(data) else { return };
        message.repair_header(Description::PROTOCOL, |bound| bound >= 0.0);
        let own = &mut message.own;
        own.batch = 1 << (own.batch % 4);
        own.gives.iter_mut().for_each(|gives| *gives = gives.rem_euclid(5));
        // Consecutive rows take all positions.
        let positions = messages::slots(&message.header.preset) / own.batch;
        let positions = own.consecutive.then_some(positions);
        for input in &mut own.inputs {
            let each = input.table_rows.max(1);
            repair_port(&mut input.port, &input.shape, (each, positions));
        }
        own.results.iter_mut().for_each(|result| repair_port(&mut result.port, &result.shape, (1, positions)));
        *data = message.encode(Description::PROTOCOL);
    },
    seeds: || {
        let sound = Described::<Own>::sound(&DESCRIBED);
        // Keys and levels that exist in every preset.
        let mut shallow = sound.clone();
        shallow.header.keys = vec![KeyRequirement { galois_element: 5, chain: 1 }];
        shallow.own.query_level = 0;
        // One range for all elements, and indices.
        let mut other = shallow.clone();
        let input = &mut other.own.inputs[0];
        (input.shape, input.table_rows) = (vec![2], 3);
        input.elements = vec!["a".into(), "b".into()];
        input.port = Some(Port { period: 8, middle: vec![0.5], radius: vec![0.5], bound: 1.0 });
        // Rows one after the other.
        let mut consecutive = shallow.clone();
        (consecutive.own.batch, consecutive.own.consecutive) = (4, true);
        let positions = messages::slots(&consecutive.header.preset) / 4;
        let own = &mut consecutive.own;
        let ports = own.inputs.iter_mut().map(|input| &mut input.port);
        let ports = ports.chain(own.results.iter_mut().map(|result| &mut result.port));
        ports.flatten().for_each(|port| port.period = positions);
        let all = shallow.with_presets().chain([sound, other, consecutive]);
        all.map(|message| message.encode(Description::PROTOCOL)).collect()
    },
};

/// Repairs the period and the ranges of a port for rows of this shape, which may have to take all positions.
fn repair_port(port: &mut Option<Port>, shape: &[u32], (each, positions): (u32, Option<u32>)) {
    let size = shape.iter().fold(each, |size, axis| size.saturating_mul(*axis));
    let port = port.get_or_insert_default();
    port.period = positions.unwrap_or_else(|| size.clamp(1, 1 << 7).next_power_of_two());
    for numbers in [&mut port.middle, &mut port.radius] {
        if numbers.len() != size as usize {
            numbers.resize(1, 1.0);
        }
    }
    port.middle.iter_mut().for_each(|middle| messages::repair_bound(middle, |_| true));
    port.radius.iter_mut().for_each(|radius| messages::repair_bound(radius, |radius| radius > 0.0));
    messages::repair_bound(&mut port.bound, |bound| bound > 0.0);
}

/// The description of a logistic regression with probabilities and labels.
static DESCRIBED: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let file: &[u8] = include_bytes!("../../../models/onnx/tests/models/logistic-zipmap.onnx");
    let model = Network::from_bytes(file.to_vec()).expect("a model");
    let rows = Array2::from_shape_fn((20, 4), |(row, i)| ((row * 7 + i * 3) % 10) as f64 / 2.0);
    let wishes = Wishes { presets: vec![PRESET.into()], rows: Some(4), ..Wishes::default() };
    let compiled = CompiledModel::compile(&model, &[rows.view()], Options::default(), &wishes).expect("compiles");
    let parameters = Preset::find(PRESET).and_then(Preset::build).expect("builds");
    compiled.server(&parameters).expect("serves").describe()
});
