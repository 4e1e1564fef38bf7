//! A compiled model with its service and a client, in one process, over their messages.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use ndarray::{Array2, ArrayView2, s};
use unspoken_ckks::{CkksParameters, Encoder};
use unspoken_model::{CompiledModel, Description, EncodedRow, ModelClient, ModelServer, Row};
use unspoken_network::{Design, Network, Program, Simulation};
use unspoken_protocol::{Call, CkksClientHalf, CkksDescription, ClientHalf, ClientId, KeyLoader, Request, ServerHalf};
use unspoken_rlwe::EvaluationKeys;

use super::subject::{Given, labels};

const CLIENT: ClientId = ClientId::new([1; 16]);

/// The circuit of a compiled model, as its server has it, for simulations and to read results.
pub(super) struct Circuit<'a> {
    network: &'a Network,
    design: Design,
    program: Program,
}

impl<'a> Circuit<'a> {
    pub(super) fn new(compiled: &'a CompiledModel, parameters: &CkksParameters) -> anyhow::Result<Self> {
        Ok(Circuit { network: compiled.network(), design: compiled.design()?, program: compiled.program(parameters)? })
    }

    /// Rows with polynomials.
    pub(super) fn run(&self, rows: ArrayView2<'_, f64>) -> anyhow::Result<Vec<Array2<f64>>> {
        Ok(self.design.run(&[rows])?)
    }

    /// A batch with polynomials, and with noise.
    pub(super) fn simulate(&self, encoder: &Encoder, rows: ArrayView2<'_, f64>) -> anyhow::Result<Simulation> {
        Ok(self.program.simulate(self.network, encoder, &[rows], 1)?)
    }

    /// The largest difference of results, as a part of the radius of their ranges.
    pub(super) fn distance(&self, found: &[Array2<f64>], expected: &[Array2<f64>]) -> f64 {
        self.program.distance(found, expected)
    }

    /// Number of keys that switch.
    pub(super) fn keys(&self) -> usize {
        self.program.key_plan().len()
    }
}

/// A service and its client.
pub(super) struct Served {
    pub(super) server: ModelServer,
    pub(super) client: ModelClient,
    pub(super) keys: EvaluationKeys,
    /// Bytes of the keys that the client sends once.
    pub(super) key_bytes: usize,
    /// Seconds of making them, of encoding the weights, and of reading the keys.
    pub(super) key_seconds: f64,
    pub(super) prepare_seconds: f64,
    pub(super) load_seconds: f64,
}

impl Served {
    pub(super) fn new(compiled: &CompiledModel, parameters: &CkksParameters) -> anyhow::Result<Self> {
        let start = Instant::now();
        let server = compiled.server(parameters)?;
        let prepare_seconds = start.elapsed().as_secs_f64();
        // Tests are at insecure presets. All others are those that compiling chose, which are secure.
        let description = Description::insecure_from_bytes(&server.describe())?;
        let client = ModelClient::open(description, (), None)?;
        let (mut bundle, start) = (Vec::new(), Instant::now());
        client.keyring().write_keys(&mut bundle, |_, _| {}, &AtomicBool::new(false))?;
        let key_seconds = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let keys = server.load_keys(&mut bundle.as_slice())?;
        let load_seconds = start.elapsed().as_secs_f64();
        Ok(Served { server, client, keys, key_bytes: bundle.len(), key_seconds, prepare_seconds, load_seconds })
    }

    /// The rows of a table, with numbers moved into the calibrated ranges, and how many were moved.
    pub(super) fn clipped(&self, table: &Array2<f64>) -> anyhow::Result<(Array2<f64>, usize)> {
        let (mut clipped, mut moved) = (table.clone(), 0);
        for (element, mut column) in clipped.columns_mut().into_iter().enumerate() {
            let Some([low, high]) = self.client.description().inputs()[0].range(element) else { continue };
            for value in column.iter_mut().filter(|value| !(low..=high).contains(*value)) {
                (*value, moved) = (value.clamp(low, high), moved + 1);
            }
        }
        Ok((clipped, moved))
    }

    /// A batch as the client takes it.
    pub(super) fn rows(&self, table: ArrayView2<'_, f64>) -> anyhow::Result<Vec<EncodedRow>> {
        let rows: Vec<Row> = table.rows().into_iter().map(|row| Row::new(vec![row.to_vec()])).collect();
        Ok(self.client.encode(&rows)?)
    }

    /// Decrypts an answer: the labels that the client finds, and the results themselves.
    pub(super) fn read(&self, circuit: &Circuit<'_>, answer: &[u8], rows: &[EncodedRow]) -> anyhow::Result<Given> {
        let predicted = self.client.read(answer, rows)?.into_iter().collect::<Result<Vec<_>, _>>()?;
        let of_row = |row: &unspoken_model::Predicted| labels(&row.outputs);
        let found = predicted.iter().map(of_row).collect::<anyhow::Result<Vec<_>>>()?.concat();
        let ports = circuit.program.outputs();
        let count = ports.iter().map(|port| port.layout().vectors()).sum();
        let vectors = self.client.description().header().unpack("answer", answer, answer.len(), count)?;
        let open = |vector: &Vec<u8>| self.client.keyring().open(vector);
        let opened = vectors.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let (mut results, mut first) = (Vec::new(), 0);
        for port in ports {
            let own = &opened[first..first + port.layout().vectors()];
            first += own.len();
            results.push(port.read(own, rows.len())?.values);
        }
        Ok(Given { labels: found, results })
    }
}

/// The answer of a service to a query of a client with these keys.
pub(super) fn answer(server: &ModelServer, keys: &EvaluationKeys, query: &[u8]) -> anyhow::Result<Vec<u8>> {
    Ok(server.answer(&Request::new(CLIENT, keys, query), &Call::default())?)
}

/// Rows `first..last` of tables.
pub(super) fn part(tables: &[Array2<f64>], first: usize, last: usize) -> Vec<Array2<f64>> {
    tables.iter().map(|table| table.slice(s![first..last, ..]).to_owned()).collect()
}
