//! Tests of matrix products in the small ring, in an insecure ring.

use unspoken_ring::modular::primes_descending;
use unspoken_ring::{Basis, RingKind, RingLiteral, SecretRng};
use unspoken_rlwe::security::SecretDistribution;
use unspoken_rlwe::{
    Ciphertext, EncapsulationLiteral, EvaluationKeys, KeyKind, KeyPlan, Parameters, ParametersLiteral, RlweError,
    RowPlaces, SecretKey, SeededSmallRingKeys, SmallRing,
};

const DEGREE: usize = 2048;
const CHAIN: usize = 8;

fn literal(name: &str, degree: usize) -> ParametersLiteral {
    let mut primes = primes_descending(1 << 29, 1 << 30, 2 * degree as u32);
    let special = primes.by_ref().take(5).collect();
    let chain = primes.take(CHAIN).collect();
    ParametersLiteral {
        name: name.into(),
        ring: RingLiteral { degree, kind: RingKind::Standard, chain, terminal: vec![], special, digit_len: 2 },
        secret: SecretDistribution::UniformTernary,
        encapsulation: Some(EncapsulationLiteral { base: 2, primes: 5 }),
    }
}

struct Client {
    parameters: Parameters,
    secret: SecretKey,
    keys: EvaluationKeys,
    rng: SecretRng,
}

impl Client {
    fn new() -> Self {
        let parameters = Parameters::new(literal("insecure_test", DEGREE)).unwrap();
        let mut rng = SecretRng::insecure_from_seed(1);
        let secret = SecretKey::generate(&parameters, &mut rng).unwrap();
        let mut plan = KeyPlan::new();
        plan.require(KeyKind::Decapsulation { element: 1 }, CHAIN);
        let keys = EvaluationKeys::generate(&secret, &plan, &mut rng).unwrap();
        Client { parameters, secret, keys, rng }
    }

    fn encrypt(&mut self, coefficients: &[i64], chain: usize) -> Ciphertext {
        let ring = self.parameters.ring();
        let mut message = ring.from_i64(coefficients, Basis::chain(chain)).unwrap();
        ring.to_evaluation(&mut message).unwrap();
        self.secret.encrypt(&message, &mut self.rng).unwrap()
    }

    /// The coefficients of a ciphertext under the sparse secret.
    fn decrypt_sparse(&self, sparse: &Ciphertext) -> Vec<f64> {
        let ring = self.parameters.ring();
        let to = Basis::chain(CHAIN);
        let mut divisor = vec![0; DEGREE];
        divisor[0] = i64::from(ring.special()[0]) * i64::from(ring.special()[1]);
        let mut divisor = ring.from_i64(&divisor, to.with_special()).unwrap();
        ring.to_evaluation(&mut divisor).unwrap();
        let divisor = ring.into_subring(divisor, 1).unwrap();
        let raised = sparse.raise(&self.parameters, to).unwrap();
        let raised = raised.product_sum(ring, &[(1, &divisor)], &self.keys).unwrap().divide(ring, to).unwrap();
        let modulus = f64::from(ring.chain()[0]) * f64::from(ring.chain()[1]);
        let values = ring.to_f64(&self.secret.decrypt(&raised).unwrap()).unwrap();
        values.iter().map(|value| value - (value / modulus).round() * modulus).collect()
    }
}

/// Entries from -1,000 to 1,000.
fn weight(row: usize, column: usize) -> i128 {
    ((row * 7919 + column * 104_729 + 13) % 2001) as i128 - 1000
}

#[test]
fn matrices_multiply_the_rows_of_ciphertexts() {
    let mut client = Client::new();
    for (row_len, inputs, outputs) in [(128, 1, 16), (256, 2, 11), (64, 2, 70), (16, 1, 1)] {
        let small = SmallRing::new(&client.parameters, 512, row_len).unwrap();
        assert_eq!((small.rows(), small.rank(), small.row_len()), (DEGREE / row_len, 512 / row_len, row_len));
        let seeded = SeededSmallRingKeys::generate(&small, &client.secret, &mut client.rng).unwrap();
        let bytes = seeded.to_bytes(&small);
        assert_eq!(bytes.len(), SeededSmallRingKeys::byte_len(&small));
        let keys = SeededSmallRingKeys::from_bytes(&small, &bytes).unwrap().expand(&small).unwrap();
        let columns = inputs * small.rows();
        let value = |column: usize, c: usize| (((column * 31 + c * 17) % 255) as i64 - 127) << 22;
        let ciphertexts: Vec<Ciphertext> = (0..inputs)
            .map(|input| {
                let coefficient = |i: usize| value(input * small.rows() + i % small.rows(), i / small.rows());
                client.encrypt(&(0..DEGREE).map(coefficient).collect::<Vec<_>>(), 2)
            })
            .collect();
        // All rows of the inputs but the first, backwards; a row of zeros, then each row of the matrix twice.
        let read: Vec<usize> = (1..columns.max(2)).rev().map(|row| row % columns).collect();
        let places: Vec<Option<usize>> = std::iter::once(None).chain((0..2 * outputs).map(|o| Some(o / 2))).collect();
        let matrix = small.matrix(outputs, read.len(), weight);
        let places = RowPlaces { inputs: &read, outputs: &places };
        let products = small.product(&keys, &matrix, &places, &ciphertexts.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(products.len(), places.outputs.len().div_ceil(small.rows()));
        for (index, product) in products.iter().enumerate() {
            for (i, found) in client.decrypt_sparse(product).iter().enumerate() {
                let (place, c) = (index * small.rows() + i % small.rows(), i / small.rows());
                let (row, terms) = (places.outputs.get(place).copied().flatten(), read.iter().enumerate());
                let wanted: i128 = match row {
                    Some(row) => terms.map(|(column, read)| weight(row, column) * i128::from(value(*read, c))).sum(),
                    None => 0,
                };
                let error = (found - wanted as f64).abs();
                assert!(error < 2f64.powi(25), "place {place}, coefficient {c}: {found} instead of {wanted}");
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut client = Client::new();
    let small = SmallRing::new(&client.parameters, 512, 128).unwrap();
    let seeded = SeededSmallRingKeys::generate(&small, &client.secret, &mut client.rng).unwrap();
    let keys = seeded.expand(&small).unwrap();
    let zeros = vec![0; DEGREE];
    let [low, high] = [2, 3].map(|chain| client.encrypt(&zeros, chain));
    let matrix = small.matrix(4, 16, weight);
    let inputs: Vec<usize> = (0..16).collect();
    let outputs = [Some(0), None, Some(3)];
    let places = RowPlaces { inputs: &inputs, outputs: &outputs };
    assert!(small.product(&keys, &matrix, &places, &[&low]).is_ok());
    assert!(small.product(&keys, &matrix, &places, &[&high]).is_err());
    assert!(small.product(&keys, &matrix, &places, &[]).is_err());
    assert!(small.product(&keys, &matrix, &RowPlaces { inputs: &[16; 16], ..places }, &[&low]).is_err());
    assert!(small.product(&keys, &matrix, &RowPlaces { inputs: &inputs[1..], ..places }, &[&low]).is_err());
    assert!(small.product(&keys, &matrix, &RowPlaces { outputs: &[Some(4)], ..places }, &[&low]).is_err());
    // An equal ring is the same one.
    let same = SmallRing::new(&client.parameters, 512, 64).unwrap();
    assert!(small.product(&keys, &same.matrix(4, 16, weight), &places, &[&low]).is_ok());
    let other = SmallRing::new(&client.parameters, 1024, 64).unwrap();
    assert!(small.product(&keys, &other.matrix(4, 16, weight), &places, &[&low]).is_err());
    for (small_degree, row_len) in [(2048, 64), (512, 512), (512, 1024), (512, 48), (512, 8), (768, 64)] {
        let error = SmallRing::new(&client.parameters, small_degree, row_len).unwrap_err();
        assert!(matches!(error, RlweError::Encapsulation { .. }), "{error}");
    }
}

#[test]
fn damaged_keys_are_refused() {
    let mut client = Client::new();
    let [small, other] = [128, 64].map(|row_len| SmallRing::new(&client.parameters, 512, row_len).unwrap());
    let bytes = SeededSmallRingKeys::generate(&small, &client.secret, &mut client.rng).unwrap().to_bytes(&small);
    let refused =
        |ring: &SmallRing, bytes: &[u8]| SeededSmallRingKeys::from_bytes(ring, bytes).unwrap_err().to_string();
    assert!(refused(&other, &bytes).contains("degree 512 with rows of 64"), "{}", refused(&other, &bytes));
    assert!(refused(&small, &bytes[..bytes.len() - 1]).contains("more bytes"));
    assert!(refused(&small, &[&bytes[..], &[0]].concat()).contains("surplus"));
    assert!(refused(&small, &bytes[..30]).contains("more bytes"));
    let mut damaged = bytes.clone();
    damaged[64..72].fill(255);
    assert!(SeededSmallRingKeys::from_bytes(&small, &damaged).is_err());
}

#[test]
fn small_rings_are_counted_as_rings_of_their_degree() {
    // Two primes of the lowest level and one special prime: 90 bits. Degree 4,096 allows 106, degree 2,048 only 53.
    let mut literal = literal("wide", 1 << 16);
    literal.ring.chain.truncate(5);
    let parameters = Parameters::new(literal).unwrap();
    assert!(SmallRing::new(&parameters, 4096, 128).is_ok());
    let error = SmallRing::new(&parameters, 2048, 128).unwrap_err();
    assert!(matches!(error, RlweError::Insecure { .. }), "{error}");
}
