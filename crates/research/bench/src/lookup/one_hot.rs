//! HE-LRM's query form: the client sends one encryption per column, and the server only multiplies by the table.

use unspoken_ckks::{
    Arithmetic, Ciphertext, CkksError, CkksParameters, Complex64, Encoder, Evaluator, PreparedMatrix, Preset,
    SeededCiphertext,
};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, SecretKey};

use super::data::ClassifierData;
use crate::clock::alternate;
use crate::harness::Harness;
use crate::row::{Metric, params};

/// Levels of a one-hot query: the product with the table and its rescale.
const LEVEL: usize = 1;

/// Number of distinct encrypted coordinates, each used for several columns: the product needs the same arithmetic,
/// with slightly better memory locality.
const DISTINCT: usize = 16;

/// Bytes of a query in both forms, and the server's time for the product.
pub(super) fn run(harness: &mut Harness<'_>, data: &ClassifierData, preset: &Preset) -> anyhow::Result<()> {
    harness.progress("one-hot queries");
    let parameters = preset.build()?;
    let shape = data.model.encoder().shape();
    let batch = parameters.slots() / shape.max_tokens;
    let params = || {
        params! {
            "preset": preset.name, "subtables": shape.subtables, "columns": shape.columns, "level": LEVEL,
            "messages_per_query": batch,
        }
    };
    let per_message = |bytes: usize| bytes as f64 / batch as f64;
    let one_hot = shape.subtables * shape.columns * SeededCiphertext::byte_len(&parameters, LEVEL);
    let direct_level = unspoken_lookup::LookupPlan::LazyLast.depth(shape.columns.next_power_of_two());
    let direct = shape.subtables * SeededCiphertext::byte_len(&parameters, direct_level);
    let bytes = Metric::less("query_bytes_per_message", "bytes");
    let baseline = Some(("one-hot (HE-LRM's form), computed", per_message(one_hot)));
    harness.value(bytes, format!("direct query, {}", preset.name), per_message(direct), baseline, params());
    let seconds = matrix_seconds(harness, data, &parameters)?;
    let case = format!("one-hot query, matrix and rescale only, {}", preset.name);
    let mut params = params();
    params.extend(params! { "distinct_inputs": DISTINCT });
    let seconds: Vec<f64> = seconds.iter().map(|s| s / batch as f64).collect();
    harness.timing(Metric::less("time_per_message", "s"), case, &seconds, None, params);
    Ok(())
}

/// Seconds of all subtables' products for one query.
fn matrix_seconds(
    harness: &mut Harness<'_>,
    data: &ClassifierData,
    parameters: &CkksParameters,
) -> anyhow::Result<Vec<f64>> {
    let shape = data.model.encoder().shape();
    let mut rng = SecretRng::insecure_from_seed(3);
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
    let encoder = Encoder::new(parameters);
    let values = vec![1.0; parameters.slots()];
    let plain = encoder.encode_real(&values, LEVEL, parameters.scale())?;
    let encrypt = |_| Ok(encoder.encrypt(&plain, &secret, &mut rng)?.expand(parameters));
    let vectors: Vec<Ciphertext> = (0..DISTINCT).map(encrypt).collect::<anyhow::Result<_>>()?;
    let inputs: Vec<&Ciphertext> = (0..shape.columns).map(|k| &vectors[k % DISTINCT]).collect();
    let matrices = table_matrices(data, parameters, LEVEL, parameters.scale())?;
    let keys = EvaluationKeys::new();
    let evaluator = Evaluator::new(&encoder, &keys);
    let product = || -> anyhow::Result<Vec<Ciphertext>> {
        let sums = apply_tables(&evaluator, &matrices, &inputs)?;
        Ok(sums.iter().map(|sum| evaluator.rescale(sum)).collect::<Result<_, _>>()?)
    };
    let stopwatch = harness.stopwatch();
    let mut samples = alternate(harness.repetitions(), &mut [Box::new(|| stopwatch.seconds(product))])?;
    Ok(samples.swap_remove(0))
}

/// The score tables as real matrices for one-hot coordinates of scale `scale` at `level`, to be rescaled afterwards.
pub(super) fn table_matrices(
    data: &ClassifierData,
    parameters: &CkksParameters,
    level: usize,
    scale: f64,
) -> anyhow::Result<Vec<PreparedMatrix>> {
    let (tables, shape) = (data.model.tables(), data.model.encoder().shape());
    let inputs = vec![scale; shape.columns];
    // The entries use the bits of the modulus that a sum over all tokens leaves.
    let room = parameters.log2_modulus(level - 1) - tables.score_bound().log2() - 2.0;
    let output = room.min(scale.log2()).exp2() * parameters.level_modulus(level);
    let matrix = |t: usize| {
        let entry = |r: usize, c: usize| Complex64::from(tables.row(t, r).map_or(0.0, |row| row[c]));
        Ok(PreparedMatrix::new(parameters, level, &inputs, &vec![output; shape.classes], entry)?)
    };
    (0..shape.subtables).map(matrix).collect()
}

/// `sum_t matrix_t inputs`, with the same inputs for every subtable; not rescaled.
pub(super) fn apply_tables(
    evaluator: &Evaluator<'_>,
    matrices: &[PreparedMatrix],
    inputs: &[&Ciphertext],
) -> Result<Vec<Ciphertext>, CkksError> {
    let mut sums: Vec<Ciphertext> = Vec::new();
    for matrix in matrices {
        let rows = evaluator.matrix(matrix, inputs)?;
        sums = if sums.is_empty() {
            rows
        } else {
            sums.iter().zip(&rows).map(|(a, b)| evaluator.add(a, b)).collect::<Result<_, _>>()?
        };
    }
    Ok(sums)
}
