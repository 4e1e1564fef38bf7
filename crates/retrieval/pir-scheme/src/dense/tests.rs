//! Tests of dense tables from query to response.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use unspoken_gsw::Noise;
use unspoken_ring::{SecretRng, Stored};

use crate::client::PirSecret;
use crate::dense::answer::{Words, packed_groups};
use crate::dense::failure::{packing_noise, response_noise, rows_noise};
use crate::dense::{
    CellChange, CellPlace, DensePart, DenseQuery, DenseResponse, DenseShape, DenseSplit, DenseTable, GroupView,
    LastFactors, MaskSeed, PLAINTEXT_BITS, Packing, PackingView, answer,
};
use crate::error::SchemeError;
use crate::keys::PreparedKeys;
use crate::mode::Mode;
use crate::parameters::PirParameters;
use crate::preset::Preset;
use crate::server::Watch;

mod device;
mod parts;

struct Fixture {
    parameters: PirParameters,
    shape: DenseShape,
    table: DenseTable,
    clients: Vec<(PirSecret, PreparedKeys)>,
    rng: SecretRng,
}

/// The content of a cell: pseudorandom bytes that depend on its number, or one extreme byte everywhere.
fn content(extreme: bool, length: usize, cell: u64) -> Vec<u8> {
    if extreme {
        return vec![0x80; length];
    }
    let mut bytes = vec![0; length];
    SecretRng::insecure_from_seed(cell).fill(&mut bytes);
    bytes
}

impl Fixture {
    fn new(cells: u64, cell_bytes: usize, group_bits: u32, clients: usize, extreme: bool) -> Self {
        let parameters = Preset::InsecureN11.build().unwrap();
        let mut rng = SecretRng::insecure_from_seed(cells);
        let shape = DenseShape::new(&parameters, cells, cell_bytes).unwrap();
        let mut shape = shape.with_masks(MaskSeed([cells as u8; 16]));
        let places = shape.places(&parameters) as u64;
        shape.group_bits = group_bits;
        shape.rows = cells.div_ceil(places << group_bits) as usize;
        let table = DenseTable::build(&parameters, shape, |cell| content(extreme, cell_bytes, cell)).unwrap();
        let client = |_| {
            let secret = PirSecret::generate(&parameters, &mut rng).unwrap();
            let keys = secret.keys(Mode::Packed, &mut rng).unwrap().expand().unwrap();
            (secret, keys)
        };
        let clients = (0..clients).map(client).collect();
        Fixture { parameters, shape, table, clients, rng }
    }

    /// The responses to one query of each client, in one pass over the table.
    fn ask(&mut self, cells: &[u64]) -> Vec<DenseResponse> {
        let queries = self.queries(cells);
        self.answers(&queries, &[self.table.groups()]).into_iter().flatten().collect()
    }

    /// A query of each client, read from its bytes.
    fn queries(&mut self, cells: &[u64]) -> Vec<DenseQuery> {
        let (parameters, shape) = (&self.parameters, self.shape);
        let query = |((secret, _), &cell): (&(PirSecret, PreparedKeys), &u64)| {
            let bytes = secret.dense_query(shape, cell, &mut self.rng).unwrap().to_bytes(parameters);
            assert_eq!(bytes.len(), DenseQuery::byte_len(parameters, shape));
            DenseQuery::from_bytes(parameters, shape, &bytes).unwrap()
        };
        self.clients.iter().zip(cells).map(query).collect()
    }

    /// The responses to a query of each client from some planes, read from their bytes.
    fn answers(&self, queries: &[DenseQuery], planes: &[Vec<GroupView<'_>>]) -> Vec<Vec<DenseResponse>> {
        let (parameters, shape) = (&self.parameters, self.shape);
        let pairs: Vec<_> = self.clients.iter().zip(queries).map(|((_, keys), query)| (keys, query)).collect();
        let responses = answer(parameters, shape, planes, &pairs, &AtomicBool::new(false)).unwrap();
        let read = |response: DenseResponse| {
            let bytes = response.to_bytes();
            assert_eq!(bytes.len(), DenseResponse::byte_len(parameters, shape));
            DenseResponse::from_bytes(parameters, shape, &bytes).unwrap()
        };
        responses.into_iter().map(|planes| planes.into_iter().map(read).collect()).collect()
    }

    fn noise(&self, client: usize, response: &DenseResponse) -> f64 {
        let units = self.clients[client].0.dense_units(response, self.shape).unwrap();
        let squares: f64 = units.iter().map(|unit| (unit - unit.round()).powi(2)).sum();
        squares / units.len() as f64 * (-2.0 * f64::from(PLAINTEXT_BITS)).exp2()
    }
}

#[test]
fn every_cell_comes_back_whatever_its_length() {
    for (cells, cell_bytes, group_bits) in [(1, 32, 0), (700, 256, 1), (4100, 1024, 0), (40, 2048, 3), (5, 2048, 0)] {
        let mut fixture = Fixture::new(cells, cell_bytes, group_bits, 1, false);
        for cell in [0, cells / 3, cells - 1] {
            let response = &fixture.ask(&[cell])[0];
            let found = fixture.clients[0].0.dense_extract(response, fixture.shape).unwrap();
            assert_eq!(*found, content(false, cell_bytes, cell), "cell {cell} of {cells}");
        }
    }
}

#[test]
fn many_clients_share_a_pass() {
    let mut fixture = Fixture::new(3000, 512, 1, 6, false);
    let cells = [0, 2999, 17, 1500, 17, 4];
    for (client, (response, &cell)) in fixture.ask(&cells).iter().zip(&cells).enumerate() {
        let found = fixture.clients[client].0.dense_extract(response, fixture.shape).unwrap();
        assert_eq!(*found, content(false, 512, cell), "client {client}");
        // Nobody else can read it.
        let other = &fixture.clients[(client + 1) % 6].0;
        assert!(matches!(other.dense_extract(response, fixture.shape), Err(SchemeError::Unreadable)));
    }
}

#[test]
fn changed_cells_are_seen_and_planes_share_a_query() {
    let mut fixture = Fixture::new(3000, 512, 1, 1, false);
    let (parameters, shape) = (fixture.parameters.clone(), fixture.shape);
    let whole = DensePart::whole(shape);
    let changed = [(2999, b"new".to_vec()), (0, vec![7; 512]), (4, vec![0x80; 512])];
    let mut bytes: Vec<Vec<u8>> = fixture.table.groups().iter().map(|group| group.bytes.items.to_vec()).collect();
    let mut changes = vec![Vec::new(); shape.groups()];
    for (cell, new) in &changed {
        let (group, at) = shape.place_of(&parameters, *cell).unwrap();
        whole.write_cell(&parameters, &mut bytes[group], at, new).unwrap();
        changes[group].push(Arc::new(CellChange::new(shape, at, &content(false, 512, *cell), new)));
    }
    let packings: Vec<Packing> = bytes.iter().map(|bytes| Packing::new(&parameters, &whole, bytes).unwrap()).collect();
    // The packings were written and are read again.
    let last = |packing: &Packing| LastFactors::from_bytes(&parameters, &packing.last().to_bytes(&parameters)).unwrap();
    let last: Vec<LastFactors> = packings.iter().map(last).collect();
    for (cell, expected) in [(2999, [&b"new"[..], &[0; 509]].concat()), (0, vec![7; 512]), (1, content(false, 512, 1))]
    {
        let queries = fixture.queries(&[cell]);
        let mut after = fixture.table.groups();
        for (group, view) in after.iter_mut().enumerate() {
            let packing = PackingView { last: &last[group], ..packings[group].view() };
            *view = GroupView { changes: &changes[group], packing, ..*view };
        }
        let responses = &fixture.answers(&queries, &[fixture.table.groups(), after])[0];
        let secret = &fixture.clients[0].0;
        let found = responses.iter().map(|response| secret.dense_extract(response, shape).unwrap().to_vec());
        assert_eq!(found.collect::<Vec<_>>(), [content(false, 512, cell), expected], "cell {cell}");
    }
    let at = shape.place_of(&parameters, 0).unwrap().1;
    assert!(matches!(whole.write_cell(&parameters, &mut bytes[0], at, &[0; 513]), Err(SchemeError::Range { .. })));
    assert!(matches!(shape.place_of(&parameters, 3000), Err(SchemeError::Index { .. })));
    assert!(LastFactors::from_bytes(&parameters, &[0; 10]).is_err());
    assert!(matches!(Packing::new(&parameters, &whole, &bytes[0][1..]), Err(SchemeError::Table { .. })));
}

/// The masks of a database are its own; the masks of tables without their own stay as they were.
#[test]
fn queries_are_answered_from_tables_with_their_masks_alone() {
    let mut fixture = Fixture::new(40, 2048, 0, 1, false);
    let (parameters, own) = (fixture.parameters.clone(), fixture.shape);
    let shared = DenseShape { masks: None, ..own };
    let other = own.with_masks(MaskSeed([9; 16]));
    let secret = &fixture.clients[0].0;
    let ask = |asked: DenseShape, answering: DenseShape, rng: &mut SecretRng| {
        let table = DenseTable::build(&parameters, answering, |cell| content(false, 2048, cell)).unwrap();
        let query = secret.dense_query(asked, 7, rng).unwrap();
        let pairs = [(&fixture.clients[0].1, &query)];
        let mut responses = answer(&parameters, answering, &[table.groups()], &pairs, &AtomicBool::new(false)).unwrap();
        secret.dense_extract(&responses[0].remove(0), asked)
    };
    for asked in [own, shared, other] {
        for answering in [own, shared, other] {
            let found = ask(asked, answering, &mut fixture.rng);
            match asked == answering {
                true => assert_eq!(*found.unwrap(), content(false, 2048, 7)),
                false => assert!(matches!(found, Err(SchemeError::Unreadable)), "{asked:?} {answering:?}"),
            }
        }
    }
}

/// All items but the first.
fn cut<T>(stored: Stored<'_, T>) -> Stored<'_, T> {
    Stored { items: &stored.items[1..], ..stored }
}

#[test]
fn tables_of_another_shape_are_refused() {
    let mut fixture = Fixture::new(700, 256, 1, 1, false);
    let (parameters, shape) = (fixture.parameters.clone(), fixture.shape);
    let queries = fixture.queries(&[3]);
    let pairs = [(&fixture.clients[0].1, &queries[0])];
    let groups = fixture.table.groups();
    let outside = CellPlace { row: shape.rows(), place: 0 };
    let change = [Arc::new(CellChange::new(shape, outside, &[], &[]))];
    let short = PackingView { words: cut(groups[0].packing.words), ..groups[0].packing };
    let wrong = [
        vec![groups[0]],
        vec![groups[0], GroupView { bytes: cut(groups[1].bytes), ..groups[1] }],
        vec![GroupView { changes: &change, ..groups[0] }, groups[1]],
        vec![GroupView { packing: short, ..groups[0] }, groups[1]],
    ];
    for plane in wrong {
        let refused = answer(&parameters, shape, &[plane], &pairs, &AtomicBool::new(false));
        assert!(matches!(refused, Err(SchemeError::Table { .. })), "{refused:?}");
    }
}

/// The noise of packed ciphertexts, before selection and rounding hide it.
#[test]
fn noise_of_rows_and_packing_is_as_predicted() {
    // With few rows the packing has two thirds of the noise, with many the rows have nearly all.
    for rows in [2000, 1 << 15] {
        let mut fixture = Fixture::new(rows, 2048, 0, 1, false);
        let (parameters, shape) = (fixture.parameters.clone(), fixture.shape);
        let (ring, cell, part) = (parameters.ring(), rows / 2, DensePart::whole(shape));
        let secret = &fixture.clients[0].0;
        let query = secret.dense_query(shape, cell, &mut fixture.rng).unwrap();
        let never = AtomicBool::new(false);
        let words = Words::new(&parameters, &part, &[&query.rows]).unwrap();
        let (groups, mut ended) = (fixture.table.groups(), |_| ());
        let mut watch = Watch { cancel: &never, ended: &mut ended };
        let packed = packed_groups(&parameters, &part, &groups, &words, &mut watch).unwrap();
        let mut phase = secret.ring().phase(&packed[0][0]).unwrap();
        let unit = parameters.scale(PLAINTEXT_BITS);
        let bytes = content(false, 2048, cell);
        let message: Vec<i128> = bytes.iter().map(|&byte| i128::from(byte as i8) * unit).collect();
        ring.sub_assign(&mut phase, &ring.from_i128(&message, ring.basis()).unwrap()).unwrap();
        let errors = ring.to_f64(&phase).unwrap();
        let squares: f64 = errors.iter().map(|error| (error / ring.log2_modulus().exp2()).powi(2)).sum();
        let bytes_square = (256.0 * 256.0 - 1.0) / 12.0;
        let predicted = rows_noise(&parameters, shape, bytes_square).plus(packing_noise(&parameters).unwrap());
        let ratio = (squares / 2048.0 / predicted.0).sqrt();
        assert!((0.92..1.08).contains(&ratio), "{rows} rows: {ratio:.3} times the predicted deviation");
    }
}

#[test]
fn noise_is_as_predicted_for_any_content() {
    for extreme in [false, true] {
        let mut fixture = Fixture::new(1 << 14, 256, 1, 8, extreme);
        let responses = fixture.ask(&[1, 2, 3, 5000, 5001, 9999, 12_000, 16_383]);
        let squares: Vec<f64> = responses.iter().enumerate().map(|(i, response)| fixture.noise(i, response)).collect();
        let predicted = response_noise(&fixture.parameters, DenseSplit::whole(fixture.shape)).unwrap();
        let measured = Noise(squares.iter().sum::<f64>() / squares.len() as f64);
        let ratio = (measured.0 / predicted.0).sqrt();
        assert!((0.7..1.3).contains(&ratio), "extreme content {extreme}: {ratio:.3} times the predicted deviation");
    }
}

#[test]
fn shapes_and_queries_that_do_not_fit_are_refused() {
    let mut fixture = Fixture::new(700, 256, 0, 1, false);
    let parameters = fixture.parameters.clone();
    for (cells, bytes) in [(0, 256), (1, 31), (1, 48), (1, 4096)] {
        assert!(
            matches!(DenseShape::new(&parameters, cells, bytes), Err(SchemeError::Range { .. })),
            "{cells} {bytes}"
        );
    }
    let (secret, keys) = &fixture.clients[0];
    assert!(matches!(secret.dense_query(fixture.shape, 700, &mut fixture.rng), Err(SchemeError::Index { .. })));
    let query = secret.dense_query(fixture.shape, 3, &mut fixture.rng).unwrap();
    let bytes = query.to_bytes(&parameters);
    for wrong in [&bytes[1..], &[&bytes[..], &[0]].concat()[..], &[]] {
        assert!(matches!(DenseQuery::from_bytes(&parameters, fixture.shape, wrong), Err(SchemeError::Format { .. })));
    }
    // A residue above its prime, in the last polynomial.
    let mut large = bytes.clone();
    let end = bytes.len() - query.selection.to_bytes().len();
    large[end - 16..end].fill(0xFF);
    assert!(DenseQuery::from_bytes(&parameters, fixture.shape, &large).is_err());
    let shape = DenseShape { cells: 6000, rows: 750, ..fixture.shape };
    let other = secret.dense_query(shape, 3, &mut fixture.rng).unwrap();
    let stop = AtomicBool::new(false);
    let planes = [fixture.table.groups()];
    let refused = answer(&parameters, fixture.shape, &planes, &[(keys, &other)], &stop);
    assert!(matches!(refused, Err(SchemeError::Format { .. })));
    let stopped = answer(&parameters, fixture.shape, &planes, &[(keys, &query)], &AtomicBool::new(true));
    assert!(matches!(stopped, Err(SchemeError::Interrupted)));
    assert!(DenseResponse::from_bytes(&parameters, fixture.shape, &[0; 10]).is_err());
}

#[test]
fn shapes_keep_queries_short_and_packings_smaller_than_the_data() {
    let parameters = Preset::InsecureN11.build().unwrap();
    for (cells, cell_bytes) in [(1u64 << 20, 256), (1 << 22, 256), (1 << 25, 256), (97_584, 512)] {
        let shape = DenseShape::new(&parameters, cells, cell_bytes).unwrap();
        assert!(shape.rows <= 1 << 15, "{shape:?}");
        assert!(shape.table_bytes(&parameters) as u64 >= cells * cell_bytes as u64);
        assert!(DenseQuery::byte_len(&parameters, shape) < 147_000);
        assert_eq!(shape.word_bits(), 26);
        let wide = DenseShape::wide(&parameters, cells, cell_bytes).unwrap();
        assert!(wide.rows <= 1 << 14 && wide.groups() == 2 * shape.groups(), "{wide:?}");
        assert!(DenseQuery::byte_len(&parameters, wide) < 94_500);
    }
    let more_rows =
        DenseShape { cells: (1 << 15) + 1, cell_bytes: 2048, rows: (1 << 15) + 1, group_bits: 0, masks: None };
    assert_eq!(more_rows.word_bits(), crate::dense::QUERY_BITS);
}
