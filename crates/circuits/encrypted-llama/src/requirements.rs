//! What passes need: keys, memory, bootstraps.

use unspoken_ckks::{Arithmetic, CkksError, Encoder, Simulated, Simulator, vector_bytes};
use unspoken_rlwe::{KeyPlan, SmallRingKeys};

use crate::arithmetic::PassArithmetic;
use crate::error::PassError;
use crate::evaluator::SimulatedEvaluator;
use crate::layout::Columns;
use crate::program::PassProgram;
use crate::public::Public;

/// What passes of sessions need.
#[derive(Clone, Debug)]
pub struct Requirements {
    /// The client's switching keys. The keys of the small ring ([`PassProgram::small_ring`]) are not among them.
    pub keys: KeyPlan,
    /// Vectors that a pass bootstraps.
    pub bootstraps: usize,
    /// What the check of a pass may not exceed: a result is refused if the
    /// [check](unspoken_llama::Comparison::largest_check) of one argument does.
    pub check_limit: f64,
    /// Level and scale of the result.
    pub result: (usize, f64),
    /// Peak memory of a pass, beside keys, prepared data and the session.
    pub working_bytes: u64,
    /// Memory of a session in which all chunks have run.
    pub session_bytes: u64,
}

impl Requirements {
    /// Which parts of [`Requirements::memory`] all clients share.
    pub const SHARED: [bool; 7] = [false, true, true, true, false, false, false];

    /// Bytes of memory of a service for one client with one session after `public` tokens, part by part.
    pub fn memory(&self, program: &PassProgram, public: usize) -> [(&'static str, u64); 7] {
        let (ring, config) = (program.bootstrap.parameters().ring(), program.config());
        let numbers = |count: usize| (count * size_of::<f32>()) as u64;
        [
            ("keys", self.keys.memory_bytes(ring) + SmallRingKeys::memory_bytes(&program.small)),
            ("weights", numbers(config.linear_weights())),
            ("matrices and transformations", program.prepared_bytes()),
            ("matrices of bootstraps", program.bootstrap.prepared_bytes()),
            ("public cache", numbers(2 * config.layers * config.kv_width() * public)),
            ("private cache", self.session_bytes),
            ("working memory", self.working_bytes),
        ]
    }
}

impl PassProgram {
    /// Counts what passes need after `public` tokens, in sessions with room for `chunks` chunks. It runs a pass of a
    /// first chunk without values, and a pass of a second chunk if there may be one. The memory of a session is enough
    /// for `public` tokens or fewer.
    ///
    /// # Errors
    /// If a pass cannot run.
    pub fn requirements(&self, encoder: &Encoder, public: usize, chunks: usize) -> Result<Requirements, PassError> {
        let parameters = encoder.parameters();
        let simulator = Simulator::counting(encoder);
        let mut session = self.session();
        let (mut working_bytes, mut bootstraps, mut check_limit, mut result) = (0, 0, 0.0, (0, 0.0));
        for _ in 0..chunks.min(2) {
            let used = simulator.working_bytes(|simulator| -> Result<(), PassError> {
                let evaluator = SimulatedEvaluator::new(simulator, &self.bootstrap);
                let mut pass =
                    PassArithmetic::new(&evaluator, self, Public::counted(public), &mut session, (true, chunks))?;
                let results = pass.run(self.input_without_values(simulator)?)?;
                (bootstraps, check_limit) = (pass.bootstraps(), pass.check_limit());
                result = results.first().map_or((0, 0.0), |v| (simulator.level(v), simulator.scale(v)));
                Ok(())
            })?;
            working_bytes = working_bytes.max(used);
        }
        let mut keys = simulator.key_plan();
        keys.extend(&self.bootstrap.key_plan());
        let of = |vector: &Simulated| vector_bytes(parameters, simulator.level(vector));
        // A first and a last chunk have been counted. Skewed vectors are kept for each final chunk, rows for each
        // vector of columns that final chunks reach.
        let further = chunks.saturating_sub(2) as u64 * session.skewed().map(of).sum::<u64>();
        let counted_sets = session.sets_of_rows(self.layout.blocks);
        let one_set = session.rows().map(of).sum::<u64>() / counted_sets.max(1) as u64;
        let sets = Columns::most_vectors(&self.layout, public, chunks.saturating_sub(1));
        let more_rows = sets.saturating_sub(counted_sets) as u64 * one_set;
        let session_bytes = session.vectors().map(of).sum::<u64>() + further + more_rows;
        Ok(Requirements { keys, bootstraps, check_limit, result, working_bytes, session_bytes })
    }

    /// The input of a pass that is only counted.
    ///
    /// # Errors
    /// If the simulator has other parameters.
    pub fn input_without_values(&self, simulator: &Simulator) -> Result<Vec<Simulated>, CkksError> {
        let vectors = self.layout.activation_vectors(self.config().width) * self.layout.parts;
        let scale = self.bootstrap.parameters().scale();
        (0..vectors).map(|_| simulator.encrypt(&[], self.input_level(), scale)).collect()
    }

    /// The level of the vectors of the input.
    pub fn input_level(&self) -> usize {
        self.bootstrap.output_level()
    }
}
