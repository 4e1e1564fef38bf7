//! A product of a matrix with an encrypted vector, as private nearest-neighbour search of others computes scores: the
//! rows of the matrix are the documents, the vector is the query, and the product has one slot for each document.
//!
//! Apple's uses BFV, with baby steps and giant steps over the diagonals of the matrix. Here it is CKKS of our engine,
//! with the same steps, double-hoisted, and two documents in each complex slot, as many as a BFV ciphertext of that
//! degree holds. It scores all documents of the matrix: there are no clusters.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use unspoken_ckks::{Arithmetic, Ciphertext, Complex64, Encoder, Evaluator, LinearPlan, LinearTransform, Preset};
use unspoken_pir_scheme::dense::scores::{ScoreResponse, ScoreShape, answer};
use unspoken_pir_scheme::dense::{DenseTable, MaskSeed, RowsQuery};
use unspoken_pir_scheme::{PirParameters, PirSecret};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, SecretKey};

use super::Case;
use crate::clock::alternate;
use crate::error::{larger_error, wrong};
use crate::harness::Harness;
use crate::row::{Metric, params};

/// Coordinates of a vector, and slots after which a query repeats.
const WIDTH: usize = 384;
const PERIOD: usize = 512;

/// Euclidean norm of all rows, at most: coordinates are from -16 to 16.
const NORM: u32 = 314;

/// Largest allowed error of a score, as a part of the norm.
const TOLERANCE: f64 = 1.0 / 256.0;

const DIAGONALS: &str = "matrix product in CKKS, diagonals";

/// A matrix of documents in both schemes, and a query to each.
struct Fixture {
    scores: Scores,
    product: Product,
    /// The scores of all documents of the product. Ours has a few less: its groups are full.
    exact: Vec<f64>,
}

/// Ours: a table of one block.
struct Scores {
    parameters: PirParameters,
    shape: ScoreShape,
    table: DenseTable,
    secret: PirSecret,
    query: RowsQuery,
    vector: Vec<f32>,
}

struct Product {
    encoder: Encoder,
    secret: SecretKey,
    keys: EvaluationKeys,
    transform: LinearTransform,
    query: Ciphertext,
    query_bytes: usize,
}

/// A coordinate of a document.
fn coordinate(document: usize, place: usize) -> i8 {
    ((document * 7919 + place * 104_729 + document * place) % 33) as i8 - 16
}

/// A coordinate of the query, of length about 1.
fn query_coordinate(place: usize) -> f64 {
    ((place * 31 + 7) as f64).sin() / (WIDTH as f64 / 2.0).sqrt()
}

pub(super) fn run(harness: &mut Harness<'_>, case: &Case) -> anyhow::Result<()> {
    harness.progress(format!("a product of a matrix with an encrypted vector, {}", case.product));
    let fixture = Fixture::new(case)?;
    fixture.check()?;
    let stopwatch = harness.stopwatch();
    let ours = || stopwatch.seconds(|| fixture.scores.answer());
    let theirs = || stopwatch.seconds(|| fixture.product.answer());
    let samples = alternate(case.repetitions, &mut [Box::new(ours), Box::new(theirs)])?;
    report(harness, case, &fixture, &samples)
}

fn report(harness: &mut Harness<'_>, case: &Case, fixture: &Fixture, samples: &[Vec<f64>]) -> anyhow::Result<()> {
    let (scores, product) = (&fixture.scores, &fixture.product);
    let documents = fixture.exact.len();
    let params = params! {
        "documents": documents, "width": WIDTH, "preset": case.product, "groups": scores.shape.groups(),
        "our_documents": scores.documents(),
    };
    let name = format!("{documents} x {WIDTH}, all scored");
    harness.timing(
        Metric::less("product_time", "s"),
        &name,
        &samples[0],
        Some((DIAGONALS, &samples[1])),
        params.clone(),
    );
    let each = |samples: &[f64], count: usize| samples.iter().map(|all| all * 1e6 / count as f64).collect::<Vec<f64>>();
    let (ours, theirs) = (each(&samples[0], scores.documents()), each(&samples[1], documents));
    let metric = Metric::less("product_time_per_document", "us");
    harness.timing(metric, &name, &ours, Some((DIAGONALS, &theirs)), params.clone());
    let mut row = |metric, ours: f64, theirs: f64| {
        harness.value(metric, &name, ours, Some((DIAGONALS, theirs)), params.clone());
    };
    let (pir, groups) = (&scores.parameters, scores.shape.groups());
    let memory = (product.transform.prepared_bytes() as f64, product.keys.bytes() as f64);
    row(Metric::less("product_memory", "bytes"), scores.table.memory_bytes() as f64, memory.0);
    row(Metric::less("product_key_bytes", "bytes"), 0.0, memory.1);
    row(
        Metric::less("product_query_bytes", "bytes"),
        scores.query.to_bytes(pir).len() as f64,
        product.query_bytes as f64,
    );
    let answer = product.answer()?;
    let parameters = product.encoder.parameters();
    // Two components of residues of 30 bits.
    let limbs = parameters.limbs(Evaluator::new(&product.encoder, &product.keys).level(&answer));
    let theirs = 2 * parameters.ring().degree() * limbs * 30 / 8;
    row(Metric::less("product_answer_bytes", "bytes"), (groups * ScoreResponse::byte_len(pir)) as f64, theirs as f64);
    Ok(())
}

impl Fixture {
    fn new(case: &Case) -> anyhow::Result<Self> {
        let product = Product::new(case.product)?;
        let documents = 2 * product.encoder.parameters().slots();
        let score = |document: usize| -> f64 {
            (0..WIDTH).map(|place| f64::from(coordinate(document, place)) * query_coordinate(place)).sum()
        };
        let exact = (0..documents).map(score).collect();
        Ok(Fixture { scores: Scores::new(&case.preset.build()?, documents)?, product, exact })
    }

    /// Compares all scores with exact ones.
    fn check(&self) -> anyhow::Result<()> {
        let worst = |found: &[f64]| {
            let errors = found.iter().zip(&self.exact).map(|(found, exact)| (found - exact).abs() / f64::from(NORM));
            errors.fold(0.0, larger_error)
        };
        for (name, found) in [("scores", self.scores.read()?), ("product in CKKS", self.product.read()?)] {
            let (error, length) = (worst(&found), found.len());
            if length == 0 || error.is_nan() || error > TOLERANCE {
                return Err(wrong(format!("{name} of {length} documents"), error, TOLERANCE));
            }
        }
        Ok(())
    }
}

impl Scores {
    fn new(parameters: &PirParameters, documents: usize) -> anyhow::Result<Self> {
        let room = ScoreShape::cluster_documents(parameters);
        let groups = documents / room;
        let shape = ScoreShape::new([WIDTH, 1, groups], NORM, MaskSeed([5; 16]))?;
        let part = shape.part(parameters, 0..groups)?;
        // Cells are numbered row by row, with room for a power of two of groups.
        let of_row = groups.next_power_of_two() as u64;
        let cell = |number: u64| -> Vec<u8> {
            let (row, group) = ((number / of_row) as usize, (number % of_row) as usize);
            let place = |column: usize| coordinate(group * room + column, row).cast_unsigned();
            (0..room).map(place).chain([shape.check_coordinate().cast_unsigned()]).collect()
        };
        let table = DenseTable::build_part(parameters, part, cell)?;
        let mut rng = SecretRng::insecure_from_seed(3);
        let secret = PirSecret::generate(parameters, &mut rng)?;
        let vector: Vec<f32> = (0..WIDTH).map(|place| query_coordinate(place) as f32).collect();
        let query = secret.score_query(&shape, 0, &vector, &mut rng)?;
        Ok(Scores { parameters: parameters.clone(), shape, table, secret, query, vector })
    }

    fn answer(&self) -> anyhow::Result<Vec<ScoreResponse>> {
        let (groups, never) = (0..self.shape.groups(), AtomicBool::new(false));
        let all = answer(&self.parameters, &self.shape, groups, &self.table.groups(), &[&self.query], &never)?;
        Ok(all.concat())
    }

    /// The scores of all documents, for the query as it is.
    fn read(&self) -> anyhow::Result<Vec<f64>> {
        let length = self.vector.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        let mut found = Vec::new();
        for response in self.answer()? {
            let scores = self.secret.scores(&self.shape, &self.vector, &response)?;
            found.extend(scores.iter().map(|&score| f64::from(score) * length));
        }
        Ok(found)
    }

    fn documents(&self) -> usize {
        self.shape.groups() * ScoreShape::cluster_documents(&self.parameters)
    }
}

impl Product {
    fn new(preset: &str) -> anyhow::Result<Self> {
        let parameters = Preset::find(preset)?.build()?;
        let (slots, level, scale) = (parameters.slots(), 1, parameters.scale());
        let mut rng = SecretRng::insecure_from_seed(4);
        let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
        let encoder = Encoder::new(&parameters);
        let diagonal = |turn: usize| -> Vec<Complex64> {
            let entry = |slot: usize| match (slot + turn) % PERIOD {
                place if place < WIDTH => {
                    let [re, im] = [2 * slot, 2 * slot + 1].map(|document| f64::from(coordinate(document, place)));
                    Complex64::new(re, im)
                }
                _ => Complex64::default(),
            };
            (0..slots).map(entry).collect()
        };
        let diagonals: BTreeMap<usize, Vec<Complex64>> = (0..PERIOD).map(|turn| (turn, diagonal(turn))).collect();
        let plan = LinearPlan::new(&parameters, diagonals, level, scale, scale)?;
        let keys = EvaluationKeys::generate(&secret, &plan.key_plan(), &mut rng)?;
        let transform = LinearTransform::new(&encoder, plan)?;
        let value = |slot: usize| match slot % PERIOD {
            place if place < WIDTH => Complex64::from(query_coordinate(place)),
            _ => Complex64::default(),
        };
        let values: Vec<Complex64> = (0..slots).map(value).collect();
        let encrypted = encoder.encrypt(&encoder.encode(&values, level, scale)?, &secret, &mut rng)?;
        let query_bytes = encrypted.to_bytes(&parameters).len();
        let query = encrypted.expand(&parameters);
        Ok(Product { encoder, secret, keys, transform, query, query_bytes })
    }

    fn answer(&self) -> anyhow::Result<Ciphertext> {
        Ok(Evaluator::new(&self.encoder, &self.keys).linear(&self.transform, &self.query)?)
    }

    fn read(&self) -> anyhow::Result<Vec<f64>> {
        let slots = self.encoder.decrypt(&self.answer()?, &self.secret)?;
        Ok(slots.iter().flat_map(|slot| [slot.re, slot.im]).collect())
    }
}
