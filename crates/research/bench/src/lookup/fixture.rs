//! A lookup with a client's keys and query, and the times of its stages.

use std::sync::Arc;

use unspoken_ckks::{Ciphertext, CkksParameters, Encoder, Evaluator, Preset};
use unspoken_encrypt::{ClientKey, Encryptor};
use unspoken_lookup::{Lookup, LookupPlan, OutputForm};
use unspoken_protocol::ClientId;
use unspoken_query::{QueryCodec, QueryReader};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, SecretKey};

use super::subtables::Subtables;
use crate::error::{larger_error, wrong};
use crate::harness::Harness;

/// Largest allowed error of an entry, relative to the largest entry.
const TOLERANCE: f64 = 1e-2;

/// A lookup with the keys and the query of a client; all slots are full.
pub(super) struct LookupFixture {
    pub(super) preset: &'static str,
    parameters: CkksParameters,
    pub(super) lookup: Lookup,
    encoder: Encoder,
    secret: Arc<SecretKey>,
    keys: EvaluationKeys,
    query: Vec<Ciphertext>,
    /// Bytes of the query on the wire.
    pub(super) query_bytes: usize,
}

/// A lookup that returns its outputs as rows.
fn rows_lookup(parameters: &CkksParameters, plan: LookupPlan, tables: &Subtables) -> anyhow::Result<Lookup> {
    Ok(Lookup::new(parameters, &tables.tables, plan, OutputForm::Rows, tables.bound(), None)?)
}

/// The index in subtable `t` that slot `slot` queries.
fn index(slot: usize, t: usize, columns: usize) -> usize {
    (slot * 31 + t * 17 + slot / 7) % columns
}

impl LookupFixture {
    pub(super) fn new(preset: &'static str, plan: LookupPlan, tables: &Subtables) -> anyhow::Result<Self> {
        let parameters = Preset::find(preset)?.build()?;
        let lookup = rows_lookup(&parameters, plan, tables)?;
        let encoder = Encoder::new(&parameters);
        let mut rng = SecretRng::insecure_from_seed(6);
        let secret = Arc::new(SecretKey::generate(parameters.rlwe(), &mut rng)?);
        let keys = EvaluationKeys::generate(&secret, &lookup.key_plan(), &mut rng)?;
        let list = |t: usize| (0..parameters.slots()).map(|slot| Some(index(slot, t, tables.columns()))).collect();
        let indices: Vec<Vec<Option<usize>>> = (0..tables.tables.len()).map(list).collect();
        let form = QueryCodec::of(&lookup);
        let key = ClientKey::Secret(Arc::clone(&secret));
        let bytes = form.encrypt(&Encryptor::insecure_from_seed(&parameters, key, 7), &indices)?;
        let query_bytes = form.byte_len();
        let (reader, client) = (QueryReader::new(&encoder, form)?, ClientId::new([0; 16]));
        let query = reader.read(&Evaluator::new(&encoder, &keys), client, &bytes)?;
        Ok(LookupFixture { preset, parameters, lookup, encoder, secret, keys, query, query_bytes })
    }

    /// Number of tokens looked up at once.
    pub(super) fn tokens(&self) -> f64 {
        self.parameters.slots() as f64
    }

    /// Seconds per token of VecGen and of the linear stage; the result is checked.
    pub(super) fn measure(&self, harness: &Harness<'_>, tables: &Subtables) -> anyhow::Result<[f64; 2]> {
        let (evaluator, stopwatch) = (Evaluator::new(&self.encoder, &self.keys), harness.stopwatch());
        let (generated, vectors) = stopwatch.time(|| self.lookup.generate(&evaluator, &self.query))?;
        let (outputs, linear) = stopwatch.time(|| self.lookup.combine(&evaluator, &generated))?;
        self.check(tables, &outputs)?;
        Ok([vectors, linear].map(|seconds| seconds / self.tokens()))
    }

    /// Compares all slots of the first and the last row.
    fn check(&self, tables: &Subtables, outputs: &[Ciphertext]) -> anyhow::Result<()> {
        for row in [0, outputs.len() - 1] {
            let slots = self.encoder.decrypt(&outputs[row], &self.secret)?;
            let expected = |slot: usize| tables.sum(row, |t| index(slot, t, tables.columns()));
            let distance = slots.iter().enumerate().map(|(slot, z)| (z - expected(slot)).norm());
            let found = distance.fold(0.0, larger_error) / tables.bound();
            if found.is_nan() || found > TOLERANCE {
                let case = format!("row {row}, plan {}, preset {}", self.lookup.plan(), self.preset);
                return Err(wrong(case, found, TOLERANCE));
            }
        }
        Ok(())
    }
}
