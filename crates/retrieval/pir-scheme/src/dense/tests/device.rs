//! A device gives the responses of the processor. The kernels run on the processor, too.

use super::*;

use unspoken_ring::Poly;

use crate::dense::{DenseSplit, partial_answer};

static STOP: AtomicBool = AtomicBool::new(false);

/// The same clients and the same table on a device.
struct There {
    parameters: PirParameters,
    table: DenseTable,
    keys: Vec<PreparedKeys>,
}

impl There {
    fn new(fixture: &mut Fixture) -> Self {
        let parameters = fixture.parameters.on_device(&unspoken_device_shim::device(1 << 30)).unwrap();
        let cell = |cell| content(false, fixture.shape.cell_bytes(), cell);
        let table = DenseTable::build(&parameters, fixture.shape, cell).unwrap();
        let mut keys = Vec::new();
        for (secret, here) in &mut fixture.clients {
            let mut bundle = Vec::new();
            secret.keys(Mode::Packed, &mut fixture.rng).unwrap().write(&mut bundle).unwrap();
            // Both have the same keys.
            *here = PreparedKeys::read(&fixture.parameters, &mut bundle.as_slice()).unwrap();
            keys.push(PreparedKeys::read(&parameters, &mut bundle.as_slice()).unwrap());
        }
        There { parameters, table, keys }
    }

    fn query(&self, query: &DenseQuery, fixture: &Fixture) -> DenseQuery {
        let bytes = query.to_bytes(&fixture.parameters);
        DenseQuery::from_bytes(&self.parameters, fixture.shape, &bytes).unwrap()
    }
}

/// A change of a cell in a view of its group, with the packing of the changed bytes.
fn changed(parameters: &PirParameters, table: &DenseTable, cell: u64) -> (usize, [Arc<CellChange>; 1], Packing) {
    let (shape, part) = (table.shape(), table.part());
    let (group, at) = shape.place_of(parameters, cell).unwrap();
    let (old, new) = (content(false, shape.cell_bytes(), cell), vec![0xA5; shape.cell_bytes()]);
    let mut bytes = table.groups()[group].bytes.items.to_vec();
    part.write_cell(parameters, &mut bytes, at, &new).unwrap();
    let packing = Packing::new(parameters, part, &bytes).unwrap();
    (group, [Arc::new(CellChange::new(shape, at, &old, &new))], packing)
}

fn with_change<'a>(
    table: &'a DenseTable,
    (group, changes, packing): &'a (usize, [Arc<CellChange>; 1], Packing),
) -> Vec<GroupView<'a>> {
    let mut groups = table.groups();
    groups[*group] = GroupView { changes, packing: packing.view(), ..groups[*group] };
    groups
}

#[test]
fn responses_from_a_device_have_the_same_bits() {
    for (cells, cell_bytes, group_bits, clients) in [(700, 256, 2, 3), (40, 2048, 0, 1)] {
        let mut fixture = Fixture::new(cells, cell_bytes, group_bits, clients, false);
        let there = There::new(&mut fixture);
        let numbers: Vec<u64> = (0..clients as u64).map(|client| (client * 311 + 5) % cells).collect();
        let queries = fixture.queries(&numbers);
        let changes = [(&fixture.parameters, &fixture.table), (&there.parameters, &there.table)]
            .map(|(parameters, table)| changed(parameters, table, 5));
        let wanted = fixture.answers(&queries, &[fixture.table.groups(), with_change(&fixture.table, &changes[0])]);
        let queries: Vec<DenseQuery> = queries.iter().map(|query| there.query(query, &fixture)).collect();
        let pairs: Vec<_> = there.keys.iter().zip(&queries).collect();
        let planes = [there.table.groups(), with_change(&there.table, &changes[1])];
        let before = there.parameters.ring().fetched_polynomials();
        let found = answer(&there.parameters, fixture.shape, &planes, &pairs, &STOP).unwrap();
        assert!(found == wanted, "{cells} cells");
        let fetched = there.parameters.ring().fetched_polynomials() - before;
        assert_eq!(fetched, 2 * 2 * clients as u64, "both components of each response");
        let secret = &fixture.clients[0].0;
        let read = found[0].iter().map(|response| secret.dense_extract(response, fixture.shape).unwrap().to_vec());
        assert_eq!(read.collect::<Vec<_>>(), [content(false, cell_bytes, 5), vec![0xA5; cell_bytes]]);
    }
}

#[test]
fn tables_are_copied_to_a_device_once() {
    let mut fixture = Fixture::new(700, 256, 1, 1, false);
    let there = There::new(&mut fixture);
    let query = there.query(&fixture.queries(&[3])[0], &fixture);
    let pairs = [(&there.keys[0], &query)];
    let device = there.parameters.ring().device().unwrap();
    let copied = |planes: &[Vec<GroupView<'_>>]| {
        let before = device.copied_bytes()[0];
        answer(&there.parameters, fixture.shape, planes, &pairs, &STOP).unwrap();
        device.copied_bytes()[0] - before
    };
    let groups = there.table.groups();
    let packing = (Packing::word_count(&there.parameters) * size_of::<u32>()) as u64;
    let first = copied(std::slice::from_ref(&groups));
    assert!(first > 2 * packing, "{first}");
    let again = copied(&[groups]);
    assert!(again < packing / 8, "{again}");
    let change = changed(&there.parameters, &there.table, 3);
    let after = copied(&[with_change(&there.table, &change)]);
    assert!(after > packing && after < 2 * packing, "one packing: {after}");
    assert!(copied(&[with_change(&there.table, &change)]) < packing / 8);
}

#[test]
fn partial_responses_from_a_device_have_the_same_bits() {
    let mut fixture = Fixture::new(9000, 1024, 1, 1, false);
    let there = There::new(&mut fixture);
    let query = fixture.queries(&[8000]).remove(0);
    let query_there = there.query(&query, &fixture);
    let split = DenseSplit::new(&fixture.parameters, fixture.shape, 4).unwrap();
    for number in 0..4 {
        let part = split.part(&fixture.parameters, number).unwrap();
        let partial = |parameters: &PirParameters, keys: &PreparedKeys, query: &DenseQuery| {
            let cell = |cell| content(false, 1024, cell);
            let table = DenseTable::build_part(parameters, part.clone(), cell).unwrap();
            let planes = [table.groups()];
            let responses = partial_answer(parameters, &part, &planes, &[(keys, query)], &STOP).unwrap();
            responses[0][0].to_bytes(parameters)
        };
        let wanted = partial(&fixture.parameters, &fixture.clients[0].1, &query);
        assert!(partial(&there.parameters, &there.keys[0], &query_there) == wanted, "part {number}");
    }
}

#[test]
fn parameters_are_on_a_device_once() {
    let (parameters, device) = (Preset::InsecureN11.build().unwrap(), unspoken_device_shim::device(1 << 26));
    let there = parameters.on_device(&device).unwrap();
    let poly = there.ring().zero(there.ring().basis(), unspoken_ring::Domain::Evaluation);
    let is_of = |parameters: &PirParameters, poly: &Poly| parameters.ring().check_own("test", poly).is_ok();
    assert!(is_of(&parameters.on_device(&device).unwrap(), &poly));
    assert!(is_of(&there.on_device(&device).unwrap(), &poly));
    assert!(!is_of(&there.on_device(&unspoken_device_shim::device(1 << 26)).unwrap(), &poly));
    assert!(!is_of(&parameters, &poly) && parameters.fingerprint() == there.fingerprint());
    assert!(parameters.on_device(&unspoken_device_shim::device(1 << 10)).is_err());
}
