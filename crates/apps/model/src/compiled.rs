//! A compiled model: its network, its ranges, and what it is compiled for.

use ndarray::ArrayView2;
use unspoken_ckks::{CkksParameters, ErrorStatistics};
use unspoken_network::{Approximation, Design, Network, Options, Program, Ranges, Simulation, Wishes, choose};
use unspoken_protocol::{ProtocolError, simulated_error_bound};
use unspoken_store::ModelId;

use crate::error::ModelError;
use crate::interface::Interface;
use crate::server::ModelServer;

/// A model that can be served.
#[derive(Clone, Debug)]
pub struct CompiledModel {
    /// What the model takes and gives.
    pub interface: Interface,
    pub(crate) network: Network,
    pub(crate) ranges: Ranges,
    /// What decided the polynomials.
    pub options: Options,
    /// The parameter set.
    pub preset: String,
    /// Rows of a query.
    pub batch: usize,
    /// Bound of the noise of results, as a part of the radius of their ranges.
    pub error: f64,
    pub(crate) id: ModelId,
}

/// What is predicted of a compiled model.
#[derive(Clone, Debug)]
pub struct Report {
    /// The polynomials of its functions, with their errors.
    pub approximations: Vec<Approximation>,
    /// Levels of a query.
    pub levels: usize,
    /// Bytes of the keys that a client sends once.
    pub key_bytes: u64,
    /// Bytes of a query of one batch.
    pub query_bytes: u64,
    /// Bytes of memory of the weights, and of the work of one query.
    pub memory: [u64; 2],
    /// Predicted seconds of a query on one core.
    pub seconds: f64,
    /// A simulated batch of calibration rows.
    pub simulation: Simulation,
    /// Inputs with elements that never vary in the calibration rows.
    pub constant_inputs: Vec<(String, Vec<usize>)>,
}

impl CompiledModel {
    /// Compiles a model: `calibration` has a table for each of its inputs, each row flattened, indices as numbers.
    ///
    /// # Errors
    /// If a node has no polynomial form, the tables do not fit, a number is not finite, or no parameters are enough.
    pub fn compile(
        model: &unspoken_onnx::Network,
        calibration: &[ArrayView2<'_, f64>],
        options: Options,
        wishes: &Wishes,
    ) -> Result<(Self, Report), ModelError> {
        let interface = Interface::of(model)?;
        let tables = interface.encoded(calibration)?;
        let tables: Vec<ArrayView2<'_, f64>> = tables.iter().map(|table| table.view()).collect();
        let network = Network::from_onnx(model)?.fused()?;
        let ranges = Ranges::of(&network, &tables)?;
        let design = Design::new(&network, &ranges, &options)?;
        let choice = choose(&design, &tables, wishes)?;
        let report = Report {
            approximations: design.approximations().to_vec(),
            levels: choice.program.input_level(),
            key_bytes: choice.key_bytes,
            query_bytes: choice.program.query_bytes(),
            memory: [choice.program.prepared_bytes(), choice.program.working_bytes()],
            seconds: choice.seconds,
            constant_inputs: ranges.constant_inputs().to_vec(),
            simulation: choice.simulation,
        };
        let (preset, batch) = (choice.program.parameters().name().to_owned(), choice.program.batch());
        // Of the errors only the largest is known.
        let noise = report.simulation.noise;
        let error = simulated_error_bound(&[ErrorStatistics { rms: noise, median: noise, worst: noise }]);
        let id = ModelId::default();
        let model = CompiledModel { interface, network, ranges, options, preset, batch, error, id };
        Ok((model.identified(), report))
    }

    /// The same with names for the numbers of a row, for each input, which clients see; none where a list is empty.
    ///
    /// # Errors
    /// As for [`InputShape::check_elements`](crate::InputShape::check_elements), or if there are lists for other
    /// inputs.
    pub fn with_elements(mut self, elements: Vec<Vec<String>>) -> Result<Self, ModelError> {
        if elements.len() != self.interface.inputs.len() {
            let (found, needed) = (elements.len(), self.interface.inputs.len());
            return Err(ModelError::Row(format!("names of elements: found those of {found} inputs, needed {needed}")));
        }
        for (input, elements) in self.interface.inputs.iter_mut().zip(elements) {
            input.elements = elements;
            input.check_elements()?;
        }
        Ok(self.identified())
    }

    /// Identifies the network, its ranges, and what it is compiled for.
    pub fn id(&self) -> ModelId {
        self.id
    }

    /// The server's half, with the parameters of the model's preset.
    ///
    /// # Errors
    /// If the parameters have another preset, or a weight does not fit its level.
    pub fn server(&self, parameters: &CkksParameters) -> Result<ModelServer, ModelError> {
        if parameters.name() != self.preset {
            return Err(ProtocolError::mismatch("serve a model", parameters.name(), &self.preset).into());
        }
        let design = Design::new(&self.network, &self.ranges, &self.options)?;
        ModelServer::new(self, Program::new(&design, parameters, self.batch)?)
    }
}
