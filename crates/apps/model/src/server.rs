//! The server's half: computes encrypted results from encrypted rows.

use unspoken_ckks::{Encoder, Evaluator, vector_bytes};
use unspoken_network::{Port, Program};
use unspoken_protocol::{
    Call, CkksDescription, CkksHeader, CkksServerHalf, Limits, Request, SeedGuard, ServerHalf, check_device,
    write_output,
};
use unspoken_rlwe::{EvaluationKeys, KeyStorage};

use crate::compiled::CompiledModel;
use crate::description::{Description, Input, PROTOCOL};
use crate::error::ModelError;

/// Decrypted slots are above the bound of a program by at most this factor: errors are far below.
const ROOM: f64 = 1.05;

/// Name of the circuit, for people.
const PLAN: &str = "network";

/// A model that never sees a row.
pub struct ModelServer {
    encoder: Encoder,
    program: Program,
    seeds: SeedGuard,
    description: Description,
    storage: KeyStorage,
}

impl ModelServer {
    /// Prepares the program of a model: encodes its weights, and the matrices of bootstraps, which all clients share.
    pub(crate) fn new(model: &CompiledModel, program: Program) -> Result<Self, ModelError> {
        let encoder = Encoder::new(program.parameters());
        program.prepare(&encoder)?;
        let description = ModelServer::describes(model, &program)?;
        Ok(ModelServer { encoder, program, seeds: SeedGuard::default(), description, storage: KeyStorage::Expanded })
    }

    /// The description of a program of the model.
    pub(crate) fn describes(model: &CompiledModel, program: &Program) -> Result<Description, ModelError> {
        let bound = program.outputs().iter().map(Port::bound).fold(0.0, f64::max) * ROOM;
        let (id, keys) = (model.id().to_bytes(), program.key_plan().clone());
        let vectors = program.outputs().iter().map(|port| port.layout().vectors()).sum();
        let header = CkksHeader::new(PROTOCOL, program.parameters(), &id, keys, PLAN.into(), bound)
            .with_error_bound(model.error)
            .with_answer(vectors, 0, program.scale());
        let inputs = Input::of(&model.interface, program);
        let sizes = (program.arrangement(), program.input_level());
        let outputs = model.interface.outputs.clone();
        Description::new(header, sizes, inputs, program.outputs().to_vec(), outputs)
    }

    /// The description for clients.
    pub fn description(&self) -> &Description {
        &self.description
    }
}

impl CkksServerHalf for ModelServer {
    fn header(&self) -> &CkksHeader {
        self.description.header()
    }

    fn key_storage(&self) -> KeyStorage {
        self.storage
    }

    fn with_key_storage(self, storage: KeyStorage) -> Self {
        ModelServer { storage, ..self }
    }
}

impl ServerHalf for ModelServer {
    type Error = ModelError;

    fn describe(&self) -> Vec<u8> {
        self.description.to_bytes()
    }

    /// Not if the device has failed.
    fn check_ready(&self) -> Result<(), ModelError> {
        Ok(check_device(self.description.parameters())?)
    }

    fn limits(&self) -> Limits {
        let parameters = self.description.parameters();
        let inputs = self.description.query_vectors() as u64 * vector_bytes(parameters, self.program.input_level());
        Limits {
            query_bytes: self.description.query_bytes(),
            answer_bytes: self.description.answer_bytes(),
            working_bytes: inputs + self.program.working_bytes(),
            most_together: 1,
            waits_for_others: false,
        }
    }

    fn prepared_bytes(&self) -> u64 {
        self.program.prepared_bytes() + self.seeds.capacity_bytes()
    }

    fn release_idle_memory(&self) {
        self.description.parameters().ring().release_idle();
    }

    fn answer(&self, request: &Request<'_, EvaluationKeys>, call: &Call<'_>) -> Result<Vec<u8>, ModelError> {
        let (parameters, most_bytes) = (self.description.parameters(), self.description.query_bytes());
        let vectors = self.header().unpack("query", request.query, most_bytes, self.description.query_vectors())?;
        let mut vectors = self.seeds.read(request.client, parameters, &vectors)?.into_iter();
        let mut inputs = Vec::new();
        for port in self.program.inputs() {
            inputs.push(vectors.by_ref().take(port.layout().vectors()).collect::<Vec<_>>());
        }
        let evaluator = Evaluator::new(&self.encoder, request.keys).with_cancel(call.cancel);
        let results = self.program.evaluate(&evaluator, &inputs)?;
        let written = results.iter().flatten().map(|result| write_output(parameters, result));
        Ok(self.header().pack(written.collect::<Result<_, _>>()?))
    }
}
