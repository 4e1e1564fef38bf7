//! The server's half: a program and its constants. It computes encrypted results from encrypted inputs.
//!
//! Constants become ciphertexts on the server: a ciphertext of zeros plus the values. So `a + W` needs no level. `a *
//! W` is a product of two ciphertexts and needs the relinearisation key.

use std::path::Path;

use unspoken_ckks::{Ciphertext, Evaluator};
use unspoken_encrypted_matrix::{EncryptedMatrix, PlanCache};
use unspoken_protocol::{
    Call, CkksDescription, CkksHeader, CkksServerHalf, ClientId, Limits, ProtocolError, Request, SeedGuard, ServerHalf,
};
use unspoken_rlwe::{EvaluationKeys, KeyStorage, RlweError};

use crate::description::Description;
use crate::error::MatrixError;
use crate::program::Program;

/// A program that never sees its inputs.
pub struct MatrixServer {
    program: Program,
    seeds: SeedGuard,
    description: Description,
    storage: KeyStorage,
}

impl MatrixServer {
    /// Serves a program for inputs as large as it was planned for. Simulates a run, which takes about as long as one,
    /// to determine the error of results for the description.
    ///
    /// # Errors
    /// If the error of results may be as large as their entries.
    pub fn new(program: Program) -> Result<Self, MatrixError> {
        let precision = program.precision()?;
        precision.check("serve a program")?;
        let description = Description::new(&program, precision);
        Ok(MatrixServer { program, seeds: SeedGuard::default(), description, storage: KeyStorage::Expanded })
    }

    /// Like [`MatrixServer::new`], for a program in a file with the output of [`Program::to_bytes`]; insecure presets
    /// only if `accept_insecure`. With `largest`, the program is planned for inputs with entries up to that size
    /// instead of the size in the file. Plans of permutations are kept in `cache`.
    ///
    /// # Errors
    /// If the file cannot be read or is not a program, or an error of [`Program::plan`] or [`MatrixServer::new`].
    pub fn open(
        path: &Path,
        largest: Option<f64>,
        accept_insecure: bool,
        cache: Option<&PlanCache>,
    ) -> Result<Self, MatrixError> {
        let bytes = std::fs::read(path).map_err(|error| MatrixError::Decode {
            what: "a program",
            found: format!("{}: {error}", path.display()),
            needed: "a file with the bytes of a program".into(),
        })?;
        let mut source = Program::decode(&bytes, accept_insecure)?;
        source.options.largest = largest.or(source.options.largest);
        source.options.cache = cache.cloned();
        Self::new(Program::plan(source)?)
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The description for clients.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The matrices of a query: for each input the groups of its batch.
    fn inputs(&self, client: ClientId, query: &[u8]) -> Result<Vec<Vec<EncryptedMatrix<Ciphertext>>>, MatrixError> {
        let (signature, parameters) = (self.program.signature(), self.description.parameters());
        let vectors =
            self.header().unpack("query", query, self.description.query_bytes(), signature.input_vectors())?;
        if vectors.len() != signature.input_vectors() {
            let needed = format!("{}: all inputs", signature.input_vectors());
            return Err(ProtocolError::mismatch("query", format!("{} vectors", vectors.len()), needed).into());
        }
        let mut vectors = self.seeds.read(client, parameters, &vectors)?.into_iter();
        let inputs = signature.inputs().iter().map(|input| {
            let (layout, tiles) = (signature.layout(), signature.tiles(input.shape));
            let group = |_| {
                let tiles = vectors.by_ref().take(tiles).collect();
                Ok(EncryptedMatrix::from_tiles(layout, input.shape.stored(layout), signature.group(), tiles)?)
            };
            (0..signature.groups_of(input.shape)).map(group).collect()
        });
        inputs.collect()
    }
}

impl CkksServerHalf for MatrixServer {
    fn header(&self) -> &CkksHeader {
        self.description.header()
    }

    fn key_storage(&self) -> KeyStorage {
        self.storage
    }

    fn with_key_storage(self, storage: KeyStorage) -> Self {
        MatrixServer { storage, ..self }
    }
}

impl ServerHalf for MatrixServer {
    type Error = MatrixError;

    fn describe(&self) -> Vec<u8> {
        self.description.to_bytes()
    }

    /// Memory of the expanded query, a run of one group, and the answer as bytes, before and after it is packed.
    fn limits(&self) -> Limits {
        let (parameters, signature) = (self.description.parameters(), self.program.signature());
        let top = parameters.basis(signature.level());
        let inputs = 2 * signature.input_vectors() as u64 * parameters.ring().poly_bytes(top) as u64;
        let answer_bytes = self.description.answer_bytes();
        Limits {
            query_bytes: self.description.query_bytes(),
            answer_bytes,
            working_bytes: inputs + self.program.working_bytes() + 2 * answer_bytes as u64,
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

    fn answer(&self, request: &Request<'_, EvaluationKeys>, call: &Call<'_>) -> Result<Vec<u8>, MatrixError> {
        let (signature, parameters) = (self.program.signature(), self.description.parameters());
        let inputs = self.inputs(request.client, request.query)?;
        let evaluator = Evaluator::new(signature.preset.encoder(), request.keys).with_cancel(call.cancel);
        let mut answer = Vec::with_capacity(signature.output_vectors());
        for group in 0..signature.groups() {
            if call.is_cancelled() {
                return Err(RlweError::Interrupted.into());
            }
            // An input without a batch is the same for all groups.
            let held = inputs.iter().filter_map(|groups| groups.get(group).or(groups.first()).cloned());
            let result = self.program.evaluate(&evaluator, &held.collect::<Vec<_>>())?;
            answer.extend(result.tiles().iter().map(|tile| tile.to_bytes(parameters)));
        }
        Ok(self.header().pack(answer))
    }
}
