//! A client of one mode and its keys at a server; it checks every retrieved record.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rayon::ThreadPool;
use unspoken_pir_scheme::{Mode, PirSecret, PreparedKeys, answer_in_phases};
use unspoken_ring::SecretRng;

use super::PHASES;
use super::table::Table;
use crate::clock::PhaseClock;
use crate::error::wrong;

/// One answer: its times, noise and bytes.
pub(super) struct MeasuredAnswer {
    pub(super) seconds: f64,
    /// Seconds of each phase, in the order of [`PHASES`].
    pub(super) phases: [f64; 5],
    /// Measured standard deviation of the response's noise, divided by the predicted one.
    pub(super) noise_ratio: f64,
    pub(super) query_bytes: usize,
    pub(super) response_bytes: usize,
}

pub(super) struct MeasuredClient {
    pub(super) mode: Mode,
    secret: PirSecret,
    keys: PreparedKeys,
    rng: SecretRng,
    /// Seconds on all threads: key generation by the client, and key preparation by the server.
    pub(super) key_seconds: [f64; 2],
    /// Number of queries so far.
    queries: u64,
}

impl MeasuredClient {
    pub(super) fn new(table: &Table, mode: Mode) -> anyhow::Result<Self> {
        let mut rng = SecretRng::insecure_from_seed(36);
        let secret = PirSecret::generate(&table.parameters, &mut rng)?;
        let started = Instant::now();
        let seeded = secret.keys(mode, &mut rng)?;
        let made = started.elapsed().as_secs_f64();
        let keys = seeded.expand()?;
        let ready = started.elapsed().as_secs_f64() - made;
        Ok(MeasuredClient { mode, secret, keys, rng, key_seconds: [made, ready], queries: 0 })
    }

    /// Queries a piece, another one each time, and compares the record. Times only the answer, on the threads of the
    /// pool.
    pub(super) fn measure(&mut self, table: &Table, pool: &ThreadPool) -> anyhow::Result<MeasuredAnswer> {
        let index = (self.queries * 0x9e37_79b1 + table.shape.pieces - 1) % table.shape.pieces;
        self.queries += 1;
        let query = self.secret.query(self.mode, table.shape, index, &mut self.rng)?;
        let (shape, cancel) = (table.shape, AtomicBool::new(false));
        let started = Instant::now();
        let mut clock = PhaseClock::start();
        let planes = [table.view()];
        let answered = || answer_in_phases(&self.keys, shape, &planes, &query, &cancel, |phase| clock.ended(phase));
        let responses = pool.install(answered)?;
        let seconds = started.elapsed().as_secs_f64();
        let wrong = |found: usize| {
            wrong(format!("{} query for piece {index}, bytes that differ", self.mode), found as f64, 0.0)
        };
        let [response] = responses.as_slice() else { return Err(wrong(table.parameters.piece_bytes())) };
        let (found, expected) = (self.secret.extract(response, 0, index)?, table.piece(index));
        let differ = found.iter().zip(&expected).filter(|(a, b)| a != b).count() + expected.len().abs_diff(found.len());
        if differ > 0 {
            return Err(wrong(differ));
        }
        let (measured, predicted) = (self.secret.measured_noise(response)?, table.parameters.response_noise(shape));
        Ok(MeasuredAnswer {
            seconds,
            phases: PHASES.map(|(phase, _)| clock.seconds(phase)),
            noise_ratio: (measured.0 / predicted.0).sqrt(),
            query_bytes: query.to_bytes(&table.parameters).len(),
            response_bytes: response.to_bytes(&table.parameters).len(),
        })
    }
}
