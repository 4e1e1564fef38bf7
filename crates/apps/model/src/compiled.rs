//! A compiled model: its network, its ranges, and what it is compiled for.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use ndarray::ArrayView2;
use unspoken_ckks::{CkksParameters, CostModel, ErrorStatistics, Preset};
use unspoken_network::{
    Arrangement, Design, Network, NetworkError, Options, Order, Program, Progress, Ranges, Wishes, choose_with,
};
use unspoken_protocol::{ProtocolError, simulated_error_bound};
use unspoken_store::ModelId;

use crate::bootstraps::BootstrapReport;
use crate::description::{Description, check_bytes};
use crate::error::ModelError;
use crate::interface::{InputShape, Interface};
use crate::report::{FunctionReport, RefitReport, Report, client_steps};
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
    /// How they lie in the slots.
    pub order: Order,
    /// Most bytes of memory of weights, of one query and of the keys of one client: weights for which there is no room
    /// are encoded for each query.
    pub memory: u64,
    /// Bound of the noise of results, as a part of the radius of their ranges.
    pub error: f64,
    /// What is predicted of it.
    pub report: Report,
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
    ) -> Result<Self, ModelError> {
        Self::compile_with(model, calibration, options, wishes, &mut |_| {}, &Arc::default())
    }

    /// As [`CompiledModel::compile`], which takes up to minutes. `progress` is called between its parts; raising
    /// `cancel` ends it.
    ///
    /// # Errors
    /// As for [`CompiledModel::compile`], or one of the kind [`Cancelled`](unspoken_protocol::ErrorKind::Cancelled).
    pub fn compile_with(
        model: &unspoken_onnx::Network,
        calibration: &[ArrayView2<'_, f64>],
        options: Options,
        wishes: &Wishes,
        progress: &mut dyn FnMut(Progress),
        cancel: &Arc<AtomicBool>,
    ) -> Result<Self, ModelError> {
        let start = Instant::now();
        let interface = Interface::of(model)?;
        let network = Network::from_onnx(model)?.fused()?;
        let tables = interface.encoded(calibration)?;
        let tables: Vec<ArrayView2<'_, f64>> = tables.iter().map(|table| table.view()).collect();
        let ranges = Ranges::of(&network, &tables)?;
        let design =
            Design::new(&network, &ranges, &options)?.refitted(&ranges, &options, &tables, progress, cancel)?;
        let choice = choose_with(&design, &tables, wishes, progress, cancel)?;
        let simulation = choice.simulation;
        if !simulation.approximation.is_finite() {
            let found = "polynomials whose results on calibration rows are no finite numbers";
            return Err(ProtocolError::mismatch("compile", found, "a wider margin, or more bits of precision").into());
        }
        let names = interface.outputs.as_slice().iter().map(|output| output.name.clone());
        let preset = choice.program.parameters().name().to_owned();
        let (Arrangement { batch, order }, memory) = (choice.program.arrangement(), wishes.memory);
        let seconds = choice.program.seconds(&speeds_of_one_core(choice.program.parameters())?);
        let mut report = Report {
            id: ModelId::default(),
            inputs: interface.inputs.iter().map(|input| input.name.clone()).collect(),
            outputs: names.collect(),
            client_steps: client_steps(&interface.outputs),
            calibration_rows: ranges.rows(),
            margin: options.margin,
            preset: preset.clone(),
            batch,
            levels: choice.program.input_level(),
            bootstraps: BootstrapReport::of(&choice.program, seconds / choice.seconds),
            description_bytes: 0,
            query_bytes: choice.program.query_bytes(),
            key_bytes: choice.key_bytes,
            weight_bytes: choice.program.prepared_bytes(),
            working_bytes: choice.program.working_bytes(),
            seconds_on_one_core: seconds,
            error_of_polynomials: design.error_of_polynomials(&tables, cancel)?.max(simulation.approximation),
            error_of_noise: simulation.noise,
            rows_outside: simulation.outside,
            constant_inputs: ranges.constant_inputs().to_vec(),
            functions: design.approximations().iter().map(FunctionReport::from).collect(),
            refits: design.refits().iter().map(RefitReport::from).collect(),
            compile_seconds: 0.0,
        };
        // Of the errors only the largest is known.
        let noise = report.error_of_noise;
        let error = simulated_error_bound(&[ErrorStatistics { rms: noise, median: noise, worst: noise }]);
        report.compile_seconds = start.elapsed().as_secs_f64();
        let network = design.network().clone();
        let mut model =
            CompiledModel { interface, network, ranges, options, preset, batch, order, memory, error, report };
        let description = ModelServer::describes(&model, &choice.program)?;
        let bytes = description.to_bytes();
        check_bytes(bytes.len(), description.elements())?;
        // As clients will read it.
        Description::insecure_from_bytes(&bytes)?;
        model.report.description_bytes = bytes.len() as u64;
        Ok(model.identified())
    }

    /// The same with names for the numbers of a row, for each input, which clients see; none where a list is empty.
    ///
    /// # Errors
    /// As for [`InputShape::check_elements`](crate::InputShape::check_elements), or if there are lists for other
    /// inputs, or clients would not read so many names.
    pub fn with_elements(mut self, elements: Vec<Vec<String>>) -> Result<Self, ModelError> {
        if elements.len() != self.interface.inputs.len() {
            let (found, needed) = (elements.len(), self.interface.inputs.len());
            return Err(ModelError::Row(format!("names of elements: found those of {found} inputs, needed {needed}")));
        }
        let before = self.bytes_of_names();
        for (input, elements) in self.interface.inputs.iter_mut().zip(elements) {
            input.elements = elements;
            input.check_elements()?;
        }
        let described = &mut self.report.description_bytes;
        *described = described.saturating_sub(before);
        self.report.description_bytes += self.bytes_of_names();
        let elements = self.interface.inputs.iter().map(InputShape::encoded_size).sum();
        check_bytes(self.report.description_bytes as usize, elements)?;
        Ok(self.identified())
    }

    /// Bytes of the names of elements in a description, at most.
    fn bytes_of_names(&self) -> u64 {
        let names = self.interface.inputs.iter().flat_map(|input| &input.elements);
        names.map(|name| (name.len() + 3) as u64).sum()
    }

    /// Identifies the network, its ranges, and what it is compiled for.
    pub fn id(&self) -> ModelId {
        self.report.id
    }

    /// The server's half, with the parameters of the model's preset.
    ///
    /// # Errors
    /// If the parameters have another preset, or a weight does not fit its level.
    pub fn server(&self, parameters: &CkksParameters) -> Result<ModelServer, ModelError> {
        ModelServer::new(self, self.program(parameters)?)
    }

    /// The network in the clear, whose rows are those of [`Interface::encoded`].
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The polynomials, and the network with them in the clear, whose rows are those of [`Interface::encoded`].
    ///
    /// # Errors
    /// As for [`Design::new`].
    pub fn design(&self) -> Result<Design, ModelError> {
        Ok(Design::new(&self.network, &self.ranges, &self.options)?)
    }

    /// The program that a server of these parameters runs. On a device it keeps the weights that the processor keeps.
    ///
    /// # Errors
    /// If the parameters have another preset.
    pub fn program(&self, parameters: &CkksParameters) -> Result<Program, ModelError> {
        if parameters.name() != self.preset {
            return Err(ProtocolError::mismatch("serve a model", parameters.name(), &self.preset).into());
        }
        let design = self.design()?;
        let arrangement = Arrangement { batch: self.batch, order: self.order };
        let within =
            |parameters: &CkksParameters| Program::new(&design, parameters, arrangement)?.within(&design, self.memory);
        if parameters.ring().device().is_none() {
            return Ok(within(parameters)?);
        }
        // The memory was given for the processor: where weights are kept does not depend on the device.
        let host = Preset::find(&self.preset).and_then(Preset::build).map_err(NetworkError::from)?;
        Ok(within(&host)?.placed(&design, parameters)?)
    }
}

/// The speeds of one core of this machine: plans are chosen by nominal ones, which are the same everywhere.
fn speeds_of_one_core(parameters: &CkksParameters) -> Result<CostModel, ModelError> {
    // Without a thread of its own, all cores are measured.
    let speeds = match rayon::ThreadPoolBuilder::new().num_threads(1).build() {
        Ok(one_thread) => one_thread.install(|| CostModel::measure(parameters)),
        Err(_) => CostModel::measure(parameters),
    };
    Ok(speeds.map_err(NetworkError::from)?)
}
