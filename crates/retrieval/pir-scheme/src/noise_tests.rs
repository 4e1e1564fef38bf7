//! Compares the noise of every stage of an answer with its prediction. `tests/pir.rs` does so for responses.

use std::sync::atomic::AtomicBool;

use unspoken_gsw::{LweCiphertext, Noise, Rgsw, RlweCiphertext};
use unspoken_ring::{Poly, SecretRng};

use crate::client::PirSecret;
use crate::database::Database;
use crate::expansion;
use crate::keys::PreparedKeys;
use crate::mode::Mode;
use crate::parameters::PirParameters;
use crate::preset::Preset;
use crate::query::Query;
use crate::server::{Rows, rotated_to_front, row_sums, selected, selectors};

/// Pieces of the test's table: enough for several rows, columns and places.
const PIECES: u64 = 2000;

/// Number of clients. The noise of keys varies from client to client, so the tests average over several.
const CLIENTS: u64 = 6;

struct Fixture {
    parameters: PirParameters,
    secret: PirSecret,
    database: Database,
    records: Vec<u8>,
    rng: SecretRng,
}

impl Fixture {
    fn new(client: u64) -> Self {
        let parameters = Preset::InsecureN11.build().unwrap();
        let mut rng = SecretRng::insecure_from_seed(100 + client);
        let length = parameters.piece_bytes();
        let mut records = vec![0; PIECES as usize * length];
        rng.fill(&mut records);
        // The content of records must not matter: records of every other client repeat one byte.
        if client % 2 == 1 {
            records.chunks_mut(length).enumerate().for_each(|(i, piece)| piece.fill(i as u8));
        }
        let secret = PirSecret::generate(&parameters, &mut rng).unwrap();
        let database = Database::new(&parameters, 0, &records).unwrap();
        Fixture { parameters, secret, database, records, rng }
    }

    fn keys(&mut self, mode: Mode) -> PreparedKeys {
        self.secret.keys(mode, &mut self.rng).unwrap().expand().unwrap()
    }

    fn bits(&mut self, keys: &PreparedKeys, index: u64) -> Vec<Rgsw> {
        let shape = self.database.shape();
        let query = self.secret.query(keys.mode(), shape, index, &mut self.rng).unwrap();
        expansion::expand(keys, shape, &query, &AtomicBool::new(false)).unwrap()
    }

    /// Mean square of a ciphertext's phase minus its message, as a fraction of the modulus.
    fn error(&self, ciphertext: &RlweCiphertext, message: &Poly) -> f64 {
        let ring = self.parameters.ring();
        let mut message = message.clone();
        ring.to_coefficients(&mut message).unwrap();
        let mut phase = self.secret.ring().phase(ciphertext).unwrap();
        ring.sub_assign(&mut phase, &message).unwrap();
        let errors = ring.to_f64(&phase).unwrap();
        let modulus = ring.log2_modulus().exp2();
        errors.iter().map(|error| (error / modulus).powi(2)).sum::<f64>() / errors.len() as f64
    }

    /// `delta` times the entry with this number.
    fn entry(&self, number: u64) -> Poly {
        let bytes = 4 * self.parameters.piece_bytes();
        let pieces = self.records.chunks(bytes).nth(number as usize).unwrap();
        let mut entry = crate::encode_entry(&self.parameters, 0, number, pieces).unwrap();
        self.parameters.ring().scale_assign(&mut entry, self.parameters.delta()).unwrap();
        entry
    }
}

fn assert_predicted(what: &str, squares: &[f64], predicted: Noise) {
    let measured = squares.iter().sum::<f64>() / squares.len() as f64;
    let ratio = (measured / predicted.0).sqrt();
    assert!((0.75..1.3).contains(&ratio), "{what}: {ratio:.3} times the predicted deviation");
}

#[test]
fn bits_taken_off_an_index_have_the_predicted_noise() {
    let bits = 20;
    let mut ratios = Vec::new();
    let parameters = Preset::InsecureN11.build().unwrap();
    let shape = crate::DatabaseShape::new(&parameters, 1 << bits).unwrap();
    let lwe = parameters.literal().bootstrap.lwe;
    let rounding = Noise::switching(lwe.dimension, (parameters.ring().degree() as f64).log2() + 1.0);
    for client in 0..CLIENTS {
        let mut fixture = Fixture::new(client);
        let keys = fixture.keys(Mode::Compact);
        let (key, switch) = keys.bootstrap.as_ref().zip(keys.compact.as_ref()).unwrap();
        let index = 0b1011_0010_1110_0101_0110 ^ client;
        let query = fixture.secret.query(Mode::Compact, shape, index, &mut fixture.rng).unwrap();
        let Query::Compact { seed, body } = query else { panic!("another query") };
        let mut rest = LweCiphertext::expand(body, (&seed, 0), fixture.parameters.ring().degree());
        for (bit, gadget) in (0..bits).zip(parameters.gadgets(shape)) {
            let above = bits - 1 - bit;
            let switched = switch.switch(&rest.shifted(above)).unwrap();
            let expected = ((index >> bit & 1) as u32) << 31;
            let phase = fixture.secret.bit_phase(&switched).unwrap();
            // If the switch rounded ties up, all phases with seventeen bits above would be off by 2^-6 and more.
            let error = f64::from(phase.wrapping_sub(expected).cast_signed()) / 32f64.exp2();
            assert!(error.abs() < 0.0125, "{above} bits above: {error}");
            // The first bits have the noise of the query and of rotations, each multiplied by a power of two.
            if bit < 2 {
                // The phase is measured before it is rounded to an exponent.
                let predicted = fixture.parameters.extracted_bit_noise(bits, bit).0 - rounding.0;
                ratios.push(error.powi(2) / predicted);
            }
            let rotated = key.rotate(&switched, gadget, expansion::half_place(&keys, above)).unwrap();
            if above > 0 {
                expansion::subtract_bit(key, &rotated, above, &mut rest).unwrap();
            }
        }
    }
    let ratio = (ratios.iter().sum::<f64>() / ratios.len() as f64).sqrt();
    // Only twelve values: the bounds are wide.
    assert!((0.5..1.6).contains(&ratio), "{ratio:.3} times the predicted deviation");
}

/// The largest index: its lowest bits are refreshed. Every bit must come out right, with the noise of its conversion.
fn largest_index_is_extracted(preset: Preset, refreshed: u32) {
    let parameters = preset.build().unwrap();
    let (ring, bits) = (parameters.ring(), crate::MAX_INDEX_BITS);
    let shape = crate::DatabaseShape::new(&parameters, 1 << bits).unwrap();
    let smaller = crate::DatabaseShape::new(&parameters, 1 << 22).unwrap();
    assert_eq!((parameters.refreshed_bits(smaller), parameters.refreshed_bits(shape)), (0, refreshed));
    assert!(parameters.check_failure(shape, Mode::Compact).is_ok());
    let mut rng = SecretRng::insecure_from_seed(7);
    let secret = PirSecret::generate(&parameters, &mut rng).unwrap();
    let keys = secret.keys(Mode::Compact, &mut rng).unwrap().expand().unwrap();
    let constant = |value: i128| {
        let mut message = ring.zero(ring.basis(), unspoken_ring::Domain::Evaluation);
        ring.add_constant_assign(&mut message, value).unwrap();
        message
    };
    let messages = [constant(0), constant(parameters.delta())];
    let zero_or_one = messages.each_ref().map(|message| secret.ring().encrypt(message, &mut rng).unwrap());
    for index in [0, (1 << bits) - 1, 0x0155_5555, 0x00E3_8A9C] {
        let query = secret.query(Mode::Compact, shape, index, &mut rng).unwrap();
        let found = expansion::expand(&keys, shape, &query, &AtomicBool::new(false)).unwrap();
        for (i, bit) in found.iter().enumerate() {
            let chosen = bit.select(ring, &zero_or_one[0], &zero_or_one[1]).unwrap();
            let mut phase = secret.ring().phase(&chosen).unwrap();
            let mut message = messages[(index >> i & 1) as usize].clone();
            ring.to_coefficients(&mut message).unwrap();
            ring.sub_assign(&mut phase, &message).unwrap();
            let errors = ring.to_f64(&phase).unwrap();
            let worst = errors.iter().fold(0.0, |worst: f64, error| worst.max(error.abs()));
            let of_row = i >= (bits - shape.row_bits) as usize;
            let noise =
                if of_row { Noise::bootstrapped_product(parameters.bootstrap()) } else { parameters.choice_noise() };
            let deviation = noise.log2_deviation().exp2();
            let deviations = worst / ring.log2_modulus().exp2() / deviation;
            assert!(deviations < 8.0, "bit {i} of {index:#x}: {deviations:.1} deviations");
        }
    }
}

#[test]
fn every_bit_of_the_largest_index_is_extracted() {
    largest_index_is_extracted(Preset::InsecureN11, 4);
}

#[test]
fn every_bit_of_the_largest_index_is_extracted_at_real_parameters() {
    largest_index_is_extracted(Preset::N11, 4);
}

#[test]
fn every_selection_has_the_predicted_noise() {
    let (mut products, mut choices) = (vec![], vec![]);
    let (mut nodes, mut sums, mut entries) = (vec![], vec![], vec![]);
    let parameters = Preset::InsecureN11.build().unwrap();
    let ring = parameters.ring();
    for (client, mode) in (0..CLIENTS).zip([Mode::Packed, Mode::Bits, Mode::Compact].into_iter().cycle()) {
        let mut fixture = Fixture::new(client);
        let shape = fixture.database.shape();
        let keys = fixture.keys(mode);
        let index = (617 * client + 5) % PIECES;
        let bits = fixture.bits(&keys, index);
        let (row, column, _) = shape.position(index);
        let (places, rest) = bits.split_at(shape.piece_bits as usize);
        let (columns, rows) = rest.split_at(shape.column_bits as usize);
        let pair = [fixture.entry(0), fixture.entry(1)];
        let ciphertexts = pair.each_ref().map(|m| fixture.secret.ring().encrypt(m, &mut fixture.rng).unwrap());
        for (i, bit) in bits.iter().enumerate() {
            let chosen = bit.select(ring, &ciphertexts[0], &ciphertexts[1]).unwrap();
            let error = fixture.error(&chosen, &pair[(index >> i & 1) as usize]);
            if i >= bits.len() - shape.row_bits as usize {
                products.push(error);
            } else if index >> i & 1 == 1 {
                // Most of the noise is due to the rounding to digits, times the bit.
                choices.push(error);
            }
        }
        let selectors = selectors(&parameters, shape, rows).unwrap();
        for (i, selector) in selectors.iter().enumerate() {
            let mut message = ring.zero(ring.basis(), unspoken_ring::Domain::Evaluation);
            if i == row {
                ring.add_constant_assign(&mut message, parameters.delta()).unwrap();
            }
            nodes.push(fixture.error(selector, &message));
        }
        let view = fixture.database.view();
        let rows = Rows::new(&parameters, selectors).unwrap();
        let found = row_sums(&parameters, shape, &view, 0..1 << shape.column_bits, &rows).unwrap();
        for (i, sum) in found.iter().enumerate() {
            let number = (row << shape.column_bits) + i;
            if (number as u64) < PIECES / 4 {
                sums.push(fixture.error(sum, &fixture.entry(number as u64)));
            }
        }
        let chosen =
            rotated_to_front(ring, vec![selected(ring, found, columns).unwrap()], &[places]).unwrap().remove(0);
        let number = (row << shape.column_bits) + column;
        let place = (index % 4) as u32;
        let mut message = fixture.entry(number as u64);
        ring.to_coefficients(&mut message).unwrap();
        let turned_message = ring.rotated(&message, 2 * ring.degree() as u32 - place).unwrap();
        entries.push(fixture.error(&chosen, &turned_message));
    }
    let shape = Fixture::new(0).database.shape();
    assert_predicted("product with a bit of a row", &products, Noise::bootstrapped_product(parameters.bootstrap()));
    assert_predicted("product with another bit", &choices, parameters.choice_noise());
    assert_predicted("selector", &nodes, parameters.selector_noise());
    assert_predicted("sum over rows", &sums, parameters.rows_noise(shape));
    assert_predicted("entry", &entries, parameters.selection_noise(shape));
}
