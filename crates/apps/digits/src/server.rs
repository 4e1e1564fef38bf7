//! The server's half: computes encrypted scores from encrypted pixels.

use unspoken_ckks::{CkksParameters, Complex64, Encoder, Evaluator, Simulator, vector_bytes};
use unspoken_cnn::{ImageLayout, PlainWeightsCircuit};
use unspoken_digits_model::{Image, Network, PIXELS};
use unspoken_protocol::{
    Call, CkksDescription, CkksHeader, CkksServerHalf, Limits, ProtocolError, Request, SeedGuard, ServerHalf,
    check_device, output_bytes, simulated_error_bound, write_output,
};
use unspoken_rlwe::{EvaluationKeys, KeyStorage};

use crate::description::{CIRCUIT, Description, PROTOCOL};
use crate::error::DigitsError;

/// A network that never sees an image: plaintext weights on encrypted pixels.
pub struct DigitsServer {
    encoder: Encoder,
    circuit: PlainWeightsCircuit,
    seeds: SeedGuard,
    description: Description,
    storage: KeyStorage,
}

impl DigitsServer {
    /// Prepares a network for a preset and for queries of `batch` images; `None` means the largest possible batch.
    ///
    /// # Errors
    /// The errors of [`PlainWeightsCircuit::new`].
    pub fn new(network: &Network, parameters: &CkksParameters, batch: Option<usize>) -> Result<Self, DigitsError> {
        let batch = batch.unwrap_or_else(|| ImageLayout::largest_batch(network.shape(), parameters.slots()));
        let circuit = PlainWeightsCircuit::new(network, parameters, batch)?;
        let (id, bound) = (network.id().to_bytes(), circuit.score_bound());
        let encoder = Encoder::new(parameters);
        let (keys, error) = (circuit.key_plan().clone(), error_bound(&encoder, &circuit)?);
        let header = CkksHeader::new(PROTOCOL, parameters, &id, keys, CIRCUIT.into(), bound)
            .with_error_bound(error)
            .with_answer(1, 0, circuit.scale());
        let description = Description::new(header, circuit.layout(), circuit.input_level());
        Ok(DigitsServer { encoder, circuit, seeds: SeedGuard::default(), description, storage: KeyStorage::Expanded })
    }

    /// The description for clients.
    pub fn description(&self) -> &Description {
        &self.description
    }
}

/// A bound of the error of a score, from a simulated batch of images.
fn error_bound(encoder: &Encoder, circuit: &PlainWeightsCircuit) -> Result<f64, DigitsError> {
    let simulator = Simulator::new(encoder, 0);
    let pixel = |image: usize, i: usize| ((image * 7919 + i * i * 31 + i) % 256) as u8;
    let image = |image: usize| Image::new(&(0..PIXELS).map(|i| pixel(image, i)).collect::<Vec<u8>>());
    let images = (0..circuit.layout().batch()).map(image).collect::<Result<Vec<_>, _>>();
    let images = images.map_err(|error| ProtocolError::mismatch("a simulated image", error, "one that is an image"))?;
    let encrypt = |slots: Vec<Complex64>| simulator.encrypt(&slots, circuit.input_level(), circuit.scale());
    let inputs = circuit.layout().arrange(&images)?.into_iter().map(encrypt).collect::<Result<Vec<_>, _>>();
    let scores = circuit.evaluate(&simulator, &inputs.map_err(ProtocolError::from)?)?;
    Ok(simulated_error_bound(&[scores.error()]))
}

impl CkksServerHalf for DigitsServer {
    fn header(&self) -> &CkksHeader {
        self.description.header()
    }

    fn key_storage(&self) -> KeyStorage {
        self.storage
    }

    fn with_key_storage(self, storage: KeyStorage) -> Self {
        DigitsServer { storage, ..self }
    }
}

impl ServerHalf for DigitsServer {
    type Error = DigitsError;

    fn describe(&self) -> Vec<u8> {
        self.description.to_bytes()
    }

    /// Not if the device has failed.
    fn check_ready(&self) -> Result<(), DigitsError> {
        Ok(check_device(self.description.parameters())?)
    }

    fn limits(&self) -> Limits {
        let (parameters, vectors) = (self.description.parameters(), self.description.layout().vectors() as u64);
        let inputs = vectors * vector_bytes(parameters, self.circuit.input_level());
        Limits {
            query_bytes: self.description.query_bytes(),
            answer_bytes: self.header().packed_bytes(1, output_bytes(parameters, 0)),
            working_bytes: inputs + self.circuit.working_bytes(),
            most_together: 1,
            waits_for_others: false,
        }
    }

    fn prepared_bytes(&self) -> u64 {
        self.circuit.prepared_bytes() + self.seeds.capacity_bytes()
    }

    fn release_idle_memory(&self) {
        self.description.parameters().ring().release_idle();
    }

    fn answer(&self, request: &Request<'_, EvaluationKeys>, call: &Call<'_>) -> Result<Vec<u8>, DigitsError> {
        let (parameters, most_bytes) = (self.description.parameters(), self.description.query_bytes());
        let vectors = self.header().unpack("query", request.query, most_bytes, self.description.layout().vectors())?;
        let inputs = self.seeds.read(request.client, parameters, &vectors)?;
        let evaluator = Evaluator::new(&self.encoder, request.keys).with_cancel(call.cancel);
        let scores = self.circuit.evaluate(&evaluator, &inputs)?;
        Ok(self.header().pack(vec![write_output(parameters, &scores)?]))
    }
}
