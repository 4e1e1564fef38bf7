//! Tests of scores from query to response.

use std::sync::atomic::AtomicBool;

use unspoken_ring::SecretRng;

use crate::client::PirSecret;
use crate::dense::scores::{ScoreResponse, ScoreShape, answer};
use crate::dense::{DenseTable, MaskSeed, RowsQuery};
use crate::error::SchemeError;
use crate::parameters::PirParameters;
use crate::preset::Preset;

const NORM: u32 = 127;

struct Fixture {
    parameters: PirParameters,
    shape: ScoreShape,
    table: DenseTable,
    secret: PirSecret,
    rng: SecretRng,
}

/// Numbers from -1 to 1.
fn random(seed: u64, count: usize) -> Vec<f32> {
    let mut bytes = vec![0; 2 * count];
    SecretRng::insecure_from_seed(seed).fill(&mut bytes);
    let numbers = bytes.chunks_exact(2).map(|two| i16::from_le_bytes([two[0], two[1]]));
    numbers.map(|number| f32::from(number) / 32768.0).collect()
}

/// The coordinates of a document: a vector of the largest norm, rounded towards zero.
fn document(shape: &ScoreShape, [block, group, column]: [usize; 3]) -> Vec<i8> {
    let seed = (block << 40 | group << 20 | column) as u64;
    let vector = random(seed, shape.width());
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.iter().map(|x| (x / length * shape.norm() as f32) as i8).collect()
}

impl Fixture {
    fn new(width: usize, blocks: usize, groups: usize) -> Self {
        let parameters = Preset::InsecureN11.build().unwrap();
        let shape = ScoreShape::new([width, blocks, groups], NORM, MaskSeed([width as u8; 16])).unwrap();
        let part = shape.part(&parameters, 0..groups).unwrap();
        let group_bits = part.shape().group_bits;
        let row = |cell: u64| {
            let (row, group) = ((cell >> group_bits) as usize, (cell & ((1 << group_bits) - 1)) as usize);
            let place = |column| document(&shape, [row / width, group, column])[row % width] as u8;
            let documents = (0..ScoreShape::cluster_documents(&parameters)).map(place);
            documents.chain([shape.check_coordinate() as u8]).collect::<Vec<u8>>()
        };
        let table = DenseTable::build_part(&parameters, part, row).unwrap();
        let mut rng = SecretRng::insecure_from_seed(1);
        let secret = PirSecret::generate(&parameters, &mut rng).unwrap();
        Fixture { parameters, shape, table, secret, rng }
    }

    fn query(&mut self, block: usize, vector: &[f32]) -> RowsQuery {
        let query = self.secret.score_query(&self.shape, block, vector, &mut self.rng).unwrap();
        let bytes = query.to_bytes(&self.parameters);
        assert_eq!(bytes.len(), RowsQuery::byte_len(&self.parameters, self.shape.rows()));
        RowsQuery::from_bytes(&self.parameters, self.shape.rows(), &bytes).unwrap()
    }

    fn answer(&self, queries: &[&RowsQuery]) -> Vec<Vec<ScoreResponse>> {
        let (groups, never) = (self.table.groups(), AtomicBool::new(false));
        let answered = answer(&self.parameters, &self.shape, 0..self.shape.groups(), &groups, queries, &never).unwrap();
        let read = |response: &ScoreResponse| {
            let bytes = response.to_bytes();
            assert_eq!(bytes.len(), ScoreResponse::byte_len(&self.parameters));
            ScoreResponse::from_bytes(&self.parameters, &bytes).unwrap()
        };
        answered.iter().map(|groups| groups.iter().map(read).collect()).collect()
    }
}

/// Scores of several blocks in one pass over three groups, which are no power of two, are the inner products with the
/// vector of length 1, and their error has the predicted deviation.
#[test]
fn scores_are_inner_products_and_their_error_is_as_predicted() {
    let mut fixture = Fixture::new(96, 3, 3);
    let shape = fixture.shape;
    let vectors: Vec<Vec<f32>> = (0..3).map(|block| random(1000 + block, 96)).collect();
    let queries: Vec<RowsQuery> = (0..3).map(|block| fixture.query(block, &vectors[block])).collect();
    let answered = fixture.answer(&queries.iter().collect::<Vec<_>>());
    let (mut squares, mut count) = (0.0, 0.0);
    for (block, (vector, responses)) in vectors.iter().zip(&answered).enumerate() {
        let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        for (group, response) in responses.iter().enumerate() {
            let scores = fixture.secret.scores(&shape, vector, response).unwrap();
            assert_eq!(scores.len(), 2047);
            for column in (0..2047).step_by(7) {
                let exact: f32 = document(&shape, [block, group, column])
                    .iter()
                    .zip(vector)
                    .map(|(&byte, x)| f32::from(byte) * x / length)
                    .sum();
                squares += f64::from(scores[column] - exact).powi(2);
                count += 1.0;
            }
        }
    }
    let measured = (squares / count).sqrt() / f64::from(NORM);
    let ratio = measured / shape.deviation(&fixture.parameters).unwrap();
    assert!((0.7..1.1).contains(&ratio), "{ratio:.3} times the predicted deviation, which is {measured:.6}");
}

#[test]
fn responses_to_other_queries_and_tables_are_refused() {
    let mut fixture = Fixture::new(32, 2, 1);
    let shape = fixture.shape;
    let (vector, other) = (random(1, 32), random(2, 32));
    let query = fixture.query(1, &vector);
    let response = fixture.answer(&[&query])[0].remove(0);
    assert!(fixture.secret.scores(&shape, &vector, &response).is_ok());
    let unreadable = |secret: &PirSecret, shape: &ScoreShape, vector: &[f32]| {
        matches!(secret.scores(shape, vector, &response), Err(SchemeError::Unreadable))
    };
    assert!(unreadable(&fixture.secret, &shape, &other));
    let stranger = PirSecret::generate(&fixture.parameters, &mut fixture.rng).unwrap();
    assert!(unreadable(&stranger, &shape, &vector));
    // The query has the masks of another table.
    let masks = ScoreShape::new([32, 2, 1], NORM, MaskSeed([9; 16])).unwrap();
    let query = fixture.secret.score_query(&masks, 1, &vector, &mut fixture.rng).unwrap();
    let response = fixture.answer(&[&query])[0].remove(0);
    assert!(matches!(fixture.secret.scores(&masks, &vector, &response), Err(SchemeError::Unreadable)));
}

#[test]
fn vectors_and_shapes_that_mean_nothing_are_refused() {
    let mut fixture = Fixture::new(32, 2, 1);
    let (parameters, shape) = (fixture.parameters.clone(), fixture.shape);
    let mut vector = random(1, 32);
    let mut ask = |block, vector: &[f32]| fixture.secret.score_query(&shape, block, vector, &mut fixture.rng);
    assert!(matches!(ask(2, &vector), Err(SchemeError::Index { pieces: 2 })));
    assert!(matches!(ask(0, &vector[1..]), Err(SchemeError::Format { .. })));
    assert!(matches!(ask(0, &[0.0; 32]), Err(SchemeError::Format { .. })));
    for wrong in [f32::NAN, f32::INFINITY] {
        vector[7] = wrong;
        assert!(matches!(ask(0, &vector), Err(SchemeError::Format { .. })));
    }
    // Lengths do not matter.
    for scale in [f32::MIN_POSITIVE, f32::MAX] {
        assert!(ask(0, &[scale; 32]).is_ok());
    }
    let masks = MaskSeed([0; 16]);
    for (sizes, norm) in [
        ([0, 1, 1], 127),
        ([32, 0, 1], 127),
        ([32, 1, 0], 127),
        ([32, 1 << 20, 1], 127),
        ([32, 1, 2000], 127),
        ([32, 1, 1], 5),
        ([32, 1, 1], 720),
    ] {
        let refused = ScoreShape::new(sizes, norm, masks);
        assert!(matches!(refused, Err(SchemeError::Range { .. })), "{sizes:?} {norm}");
    }
    assert!(shape.part(&parameters, 0..2).is_err());
    // A table of a million rows of the largest coordinates.
    let largest = ScoreShape::new([32, 1 << 15, 1], 718, masks).unwrap();
    assert!(largest.deviation(&parameters).unwrap() < 1.0 / 1024.0);
    assert!(RowsQuery::from_bytes(&parameters, shape.rows(), &[0; 100]).is_err());
    assert!(ScoreResponse::from_bytes(&parameters, &[0; 100]).is_err());
    let table = Fixture::new(32, 1, 1);
    let query = fixture.query(0, &random(1, 32));
    let refused = answer(&parameters, &table.shape, 0..1, &table.table.groups(), &[&query], &AtomicBool::new(false));
    assert!(matches!(refused, Err(SchemeError::Format { .. })));
}
