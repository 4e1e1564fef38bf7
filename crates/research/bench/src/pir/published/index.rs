//! From an encrypted index to RGSW ciphertexts of its bits: the published decomposition beside ours.

use std::cell::RefCell;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rayon::ThreadPool;
use serde_json::{Map, Value};
use unspoken_pir_scheme::{DatabaseShape, Mode, PirParameters, PirSecret, PreparedKeys, SeededKeys, expand};
use unspoken_ring::SecretRng;
use unspoken_rlwe::security::binary_security_bits;

use super::decomposition::{self, Rotations};
use super::keys::{Client, Keys, decrypted};
use super::paper;
use super::parameters::{Decomposition, bootstrap_bytes};
use crate::clock::{Repetitions, TimedOperation, alternate, median};
use crate::error::wrong;
use crate::harness::Harness;
use crate::row::{Metric, params};

const EXPANSION: Metric = Metric::less("index_expansion_time", "s");
const PHASES: [Metric; 3] = [
    Metric::less("published_digits_time", "s"),
    Metric::less("published_bits_time", "s"),
    Metric::less("published_conversion_time", "s"),
];
const ROTATIONS: Metric = Metric::less("blind_rotations", "rotations");
const FAILURE: Metric = Metric::less("log2_failure", "bits");
const KEY_BYTES: Metric = Metric::less("index_key_bytes", "bytes");
const PUBLISHED: &str = "published digits and bits";
const PRINTED: &str = "the paper's text";

/// Seconds of one expansion; for the published form, seconds of its phases.
#[derive(Clone, Copy, Default)]
struct Sample {
    seconds: f64,
    phases: [Duration; 3],
    rotations: Rotations,
}

/// Medians of seconds that other parts use.
#[derive(Clone, Copy)]
pub(super) struct IndexTimes {
    pub(super) bits: u32,
    /// Our expansion of a compact query.
    pub(super) compact: f64,
    /// Our expansion of a packed query.
    pub(super) packed: f64,
}

/// What the paper's own sets have: security of its keys, bytes by its formulas, and a failure probability.
pub(super) fn paper_sets(harness: &mut Harness<'_>) {
    for (case, dimension, log2_ratio) in paper::keys() {
        let bits = binary_security_bits(dimension, log2_ratio);
        let params = params! { "dimension": dimension, "log2_ratio": log2_ratio, "of": "the paper's sets" };
        harness.value(Metric::more("security_bits", "bits"), case, bits, Some(("needed", 128.0)), params);
    }
    let params = params! { "formulas": "Table 6, keys of Tables 3 and 4, ceil(log_B Q) levels" };
    let printed = Some((PRINTED, paper::PRINTED_BYTES));
    harness.value(KEY_BYTES, "the paper's sets, by its formulas", paper::bytes(), printed, params);
    let params = params! { "of": "roundings of the floors alone", "printed": "at most -40" };
    harness.value(FAILURE, "the paper's sets, 25 bits, roundings alone", paper::rounding_log2_failure(), None, params);
}

/// Measures both expansions in turn on one thread. Every bit is decrypted and compared.
pub(super) fn run(
    harness: &mut Harness<'_>,
    repetitions: Repetitions,
    bits: u32,
    pir: &PirParameters,
) -> anyhow::Result<IndexTimes> {
    harness.progress(format!("published: keys for {bits} bits"));
    let parameters = Decomposition::find(pir, bits)?;
    let published = RefCell::new(Published::new(&parameters)?);
    let compact = RefCell::new(Ours::new(pir, Mode::Compact, bits)?);
    let packed = RefCell::new(Ours::new(pir, Mode::Packed, bits)?);
    harness.progress(format!("published: {bits} bits in turn"));
    let pool = &harness.single_thread;
    let mut operations: Vec<TimedOperation<'_, Sample>> = vec![
        Box::new(|| compact.borrow_mut().measure(pool)),
        Box::new(|| published.borrow_mut().measure(pool)),
        Box::new(|| packed.borrow_mut().measure(pool)),
    ];
    let samples = alternate(repetitions, &mut operations)?;
    drop(operations);
    let seconds = |samples: &[Sample]| samples.iter().map(|sample| sample.seconds).collect::<Vec<f64>>();
    let case = format!("{bits} bits");
    let mut common = described(&parameters);
    common.insert("repetitions".into(), samples[0].len().into());
    let (ours, theirs) = (seconds(&samples[0]), seconds(&samples[1]));
    harness.row(EXPANSION, &case, &ours, Some((PUBLISHED, &theirs)), common.clone());
    for (i, metric) in PHASES.into_iter().enumerate() {
        let phase: Vec<f64> = samples[1].iter().map(|sample| sample.phases[i].as_secs_f64()).collect();
        harness.row(metric, &case, &phase, None, common.clone());
    }
    let rotations = samples[1].first().map_or_else(Rotations::default, |sample| sample.rotations);
    counts(harness, &parameters, rotations, &common)?;
    Ok(IndexTimes { bits, compact: median(&ours), packed: median(&seconds(&samples[2])) })
}

/// Blind rotations, bytes of keys and failure probabilities, ours and the published form's.
fn counts(
    harness: &mut Harness<'_>,
    parameters: &Decomposition,
    rotations: Rotations,
    common: &Map<String, Value>,
) -> anyhow::Result<()> {
    let (pir, bits) = (&parameters.pir, parameters.index_bits);
    let case = format!("{bits} bits");
    let ours = bits + pir.refreshed_bits(shape(pir, bits)?);
    let all = Some((PUBLISHED, f64::from(rotations.all())));
    harness.value(ROTATIONS, format!("{case}, with the circuit bootstraps"), f64::from(ours), all, common.clone());
    let counted = f64::from(rotations.digits + rotations.bits);
    let alone = format!("{case}, the published decomposition alone");
    let for_each_digit = f64::from(3 * parameters.digits);
    harness.value(
        ROTATIONS,
        &alone,
        counted,
        Some(("3 for each digit, as the paper counts", for_each_digit)),
        common.clone(),
    );
    let printed = f64::from(paper::printed_rotations(bits));
    harness.value(ROTATIONS, alone, counted, Some(("the same with digits of 5 bits", printed)), common.clone());
    let wire = SeededKeys::byte_len(pir, Mode::Compact) - response_bytes(pir);
    let published = Some((PUBLISHED, parameters.key_bytes() as f64));
    harness.value(KEY_BYTES, format!("{case}, on the wire"), wire as f64, published, common.clone());
    let published = Some((PUBLISHED, parameters.table_six_bytes()));
    let counted = format!("{case}, as the paper counts");
    harness.value(KEY_BYTES, counted, bootstrap_bytes(pir), published, common.clone());
    harness.value(FAILURE, format!("{case}, published"), parameters.log2_failure(), None, common.clone());
    let ours = pir.log2_failure(shape(pir, bits)?, Mode::Compact);
    let params = params! { "preset": pir.name() };
    harness.value(FAILURE, format!("{case}, ours, with the rest of the answer"), ours, None, params);
    Ok(())
}

/// Bytes of the keys of the response, and of the header: what a stream of keys has beyond the keys of the expansion.
fn response_bytes(pir: &PirParameters) -> u64 {
    SeededKeys::byte_len(pir, Mode::Packed) - unspoken_gsw::SeededConversionKey::byte_len(pir.bootstrap())
}

/// The parameters of the published form, for records.
fn described(parameters: &Decomposition) -> Map<String, Value> {
    let security = parameters.pir.secured_objects().iter().map(|object| object.security_bits).fold(f64::MAX, f64::min);
    params! {
        "preset": parameters.pir.name(), "digits": parameters.digits, "digit_bits": parameters.digit_bits,
        "digit_gadget": [parameters.floor.log2_base() as usize, parameters.floor.levels()],
        "bit_gadget": [parameters.bits.log2_base() as usize, parameters.bits.levels()],
        "evaluation_keys": 3, "switch_keys": 1, "security_bits": security, "threads": 1, "clock": "wall",
        "backend": parameters.pir.ring().backend().name(),
    }
}

/// The shape whose indices have `bits` bits.
fn shape(pir: &PirParameters, bits: u32) -> anyhow::Result<DatabaseShape> {
    Ok(DatabaseShape::new(pir, 1 << bits)?)
}

/// Another index each time.
fn next_index(asked: &mut u32, bits: u32) -> u32 {
    *asked += 1;
    asked.wrapping_mul(0x9e37_79b1) >> (u32::BITS - bits)
}

fn check(what: &str, found: u32, index: u32) -> anyhow::Result<()> {
    let differ = (found ^ index).count_ones();
    match differ {
        0 => Ok(()),
        _ => Err(wrong(format!("{what}, bits that differ"), differ.into(), 0.0)),
    }
}

/// A client of the published form and its keys.
struct Published {
    client: Client,
    keys: Keys,
    asked: u32,
}

impl Published {
    fn new(parameters: &Decomposition) -> anyhow::Result<Self> {
        let mut client = Client::new(parameters, 36)?;
        let keys = client.keys()?;
        Ok(Published { client, keys, asked: 0 })
    }

    fn measure(&mut self, pool: &ThreadPool) -> anyhow::Result<Sample> {
        let index = next_index(&mut self.asked, self.keys.parameters.index_bits);
        let query = self.client.query(index);
        let started = Instant::now();
        let found = pool.install(|| decomposition::expand(&self.keys, &query))?;
        let seconds = started.elapsed().as_secs_f64();
        check(PUBLISHED, decrypted(&self.client.ring, &found.bits)?, index)?;
        let phases = [found.digits_time, found.bits_time, found.conversion_time];
        Ok(Sample { seconds, phases, rotations: found.rotations })
    }
}

/// A client of ours and its keys.
struct Ours {
    secret: PirSecret,
    keys: PreparedKeys,
    shape: DatabaseShape,
    rng: SecretRng,
    asked: u32,
}

impl Ours {
    fn new(pir: &PirParameters, mode: Mode, bits: u32) -> anyhow::Result<Self> {
        let mut rng = SecretRng::insecure_from_seed(37);
        let secret = PirSecret::generate(pir, &mut rng)?;
        let keys = secret.keys(mode, &mut rng)?.expand()?;
        Ok(Ours { secret, keys, shape: shape(pir, bits)?, rng, asked: 0 })
    }

    fn measure(&mut self, pool: &ThreadPool) -> anyhow::Result<Sample> {
        let (mode, index) = (self.keys.mode(), next_index(&mut self.asked, self.shape.index_bits()));
        let query = self.secret.query(mode, self.shape, index.into(), &mut self.rng)?;
        let started = Instant::now();
        let found = pool.install(|| expand(&self.keys, self.shape, &query, &AtomicBool::new(false)))?;
        let seconds = started.elapsed().as_secs_f64();
        check("our expansion", decrypted(self.secret.ring(), &found)?, index)?;
        Ok(Sample { seconds, ..Sample::default() })
    }
}
