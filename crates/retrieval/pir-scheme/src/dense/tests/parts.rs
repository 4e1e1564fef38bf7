//! Tests of answers that are added from the parts of a table.

use super::*;
use crate::dense::failure::{log2_failure, unreadable};
use crate::dense::{PartialResponse, partial_answer};
use crate::parameters::MAX_LOG2_FAILURE;

/// The shards of a table, as they come out of a split.
fn shards(fixture: &Fixture, split: DenseSplit) -> Vec<DenseTable> {
    let cell_bytes = fixture.shape.cell_bytes();
    let build = |number| {
        let part = split.part(&fixture.parameters, number).unwrap();
        DenseTable::build_part(&fixture.parameters, part, |cell| content(false, cell_bytes, cell)).unwrap()
    };
    (0..split.parts()).map(build).collect()
}

/// The partial responses of shards to a query of each client, read from their bytes: by shard, then by client.
fn partials(fixture: &Fixture, shards: &[DenseTable], queries: &[DenseQuery]) -> Vec<Vec<PartialResponse>> {
    let parameters = &fixture.parameters;
    let pairs: Vec<_> = fixture.clients.iter().zip(queries).map(|((_, keys), query)| (keys, query)).collect();
    let read = |partial: &PartialResponse| {
        let bytes = partial.to_bytes(parameters);
        assert_eq!(bytes.len(), PartialResponse::byte_len(parameters));
        PartialResponse::from_bytes(parameters, &bytes).unwrap()
    };
    let answer = |shard: &DenseTable| {
        let (planes, never) = ([shard.groups()], AtomicBool::new(false));
        let answers = partial_answer(parameters, shard.part(), &planes, &pairs, &never).unwrap();
        answers.iter().map(|planes| read(&planes[0])).collect()
    };
    shards.iter().map(answer).collect()
}

/// The response to the query of each client, added from the partial responses of all shards.
fn merged(fixture: &Fixture, partials: &[Vec<PartialResponse>]) -> Vec<DenseResponse> {
    let of = |client: usize| partials.iter().map(|shard: &Vec<PartialResponse>| shard[client].clone()).collect();
    let each = (0..fixture.clients.len()).map(of);
    each.map(|all: Vec<_>| DenseResponse::merged(&fixture.parameters, fixture.shape, &all).unwrap()).collect()
}

fn extracted(fixture: &Fixture, client: usize, response: &DenseResponse) -> Vec<u8> {
    fixture.clients[client].0.dense_extract(response, fixture.shape).unwrap().to_vec()
}

#[test]
fn answers_added_from_shards_are_those_of_the_whole_table() {
    // The numbers of shards and, for each, of the ranges of rows and of groups.
    for (cells, cell_bytes, group_bits, splits) in [
        (7000, 2048, 0, &[(2, 2, 1), (3, 3, 1)][..]),
        (8200, 1024, 1, &[(1, 1, 1), (4, 2, 2)]),
        (4000, 512, 2, &[(3, 1, 3)]),
    ] {
        let mut fixture = Fixture::new(cells, cell_bytes, group_bits, 2, false);
        for &(count, row_parts, group_parts) in splits {
            let split = DenseSplit::new(&fixture.parameters, fixture.shape, count).unwrap();
            assert_eq!((split.row_parts, split.group_parts, split.parts()), (row_parts, group_parts, count));
            let shards = shards(&fixture, split);
            for asked in [[0, cells - 1], [cells / 2, cells / 3], [2047, 2048]] {
                let queries = fixture.queries(&asked);
                let responses = merged(&fixture, &partials(&fixture, &shards, &queries));
                let whole = fixture.answers(&queries, &[fixture.table.groups()]);
                for (client, (response, cell)) in responses.iter().zip(asked).enumerate() {
                    let expected = content(false, cell_bytes, cell);
                    assert_eq!(extracted(&fixture, client, response), expected, "{count} shards, cell {cell}");
                    assert_eq!(extracted(&fixture, client, &whole[client][0]), expected, "cell {cell}");
                }
            }
        }
    }
}

#[test]
fn parts_need_not_be_of_one_size_and_every_cell_is_in_one_of_them() {
    let fixture = Fixture::new(30_000, 512, 1, 1, false);
    let (parameters, shape) = (&fixture.parameters, fixture.shape);
    let part = |rows, groups| DensePart::new(parameters, shape, rows, groups).unwrap();
    // All groups of the first block, and the rest in two pieces.
    let parts = [part(0..2048, 0..2), part(2048..shape.rows(), 0..1), part(2048..shape.rows(), 1..2)];
    let mut seen = vec![0; shape.cells() as usize];
    for part in &parts {
        for group in part.groups() {
            part.cells_of(parameters, group).for_each(|(cell, _)| seen[cell as usize] += 1);
        }
    }
    assert!(seen.iter().all(|&times| times == 1));
    let build = |part: &DensePart| DenseTable::build_part(parameters, part.clone(), |cell| content(false, 512, cell));
    let shards: Vec<DenseTable> = parts.iter().map(|part| build(part).unwrap()).collect();
    let mut fixture = fixture;
    for cell in [0, 8 * 2048 - 1, 8 * 2048, 8 * 2048 + 4, 29_999] {
        let queries = fixture.queries(&[cell]);
        let response = &merged(&fixture, &partials(&fixture, &shards, &queries))[0];
        assert_eq!(extracted(&fixture, 0, response), content(false, 512, cell), "cell {cell}");
    }
}

#[test]
fn without_the_shard_of_a_cell_an_answer_is_zeros() {
    let mut fixture = Fixture::new(9000, 1024, 0, 1, false);
    let split = DenseSplit::new(&fixture.parameters, fixture.shape, 3).unwrap();
    let shards = shards(&fixture, split);
    // A cell of the second shard.
    let queries = fixture.queries(&[4500]);
    let mut partials = partials(&fixture, &shards, &queries);
    partials.remove(1);
    let response = &merged(&fixture, &partials)[0];
    // All that is left is encryptions of zero: nobody but whoever adds can know that one is missing.
    assert_eq!(extracted(&fixture, 0, response), vec![0; 1024]);
}

#[test]
fn the_noise_of_added_answers_is_as_predicted() {
    let mut fixture = Fixture::new(40_000, 256, 1, 8, false);
    let whole = response_noise(&fixture.parameters, DenseSplit::whole(fixture.shape)).unwrap();
    for (row_parts, group_parts) in [(1, 2), (2, 1)] {
        let split = DenseSplit { shape: fixture.shape, row_parts, group_parts };
        let shards = shards(&fixture, split);
        let queries = fixture.queries(&[1, 2, 3, 5000, 5001, 9999, 12_000, 32_767]);
        let responses = merged(&fixture, &partials(&fixture, &shards, &queries));
        let squares: Vec<f64> = responses.iter().enumerate().map(|(i, response)| fixture.noise(i, response)).collect();
        let measured = squares.iter().sum::<f64>() / squares.len() as f64;
        let predicted = response_noise(&fixture.parameters, split).unwrap();
        let ratio = (measured / predicted.0).sqrt();
        assert!((0.6..1.3).contains(&ratio), "{split:?}: {ratio:.3} times the predicted deviation");
        assert!(predicted > whole);
    }
}

#[test]
fn noise_bounds_the_number_of_shards() {
    let parameters = Preset::N11.build().unwrap();
    // 8 GiB: 128 groups of 2^15 rows.
    let shape = DenseShape::new(&parameters, 1 << 25, 256).unwrap();
    assert_eq!((shape.groups(), shape.rows()), (128, 1 << 15));
    for count in [2, 3, 8, 128] {
        let split = DenseSplit::new(&parameters, shape, count).unwrap();
        assert_eq!(split.row_parts, 1);
        assert!(log2_failure(&parameters, split).unwrap() <= MAX_LOG2_FAILURE);
        assert!(response_noise(&parameters, split).unwrap().times(6.0) <= unreadable(&parameters, shape).unwrap());
    }
    assert!(matches!(DenseSplit::new(&parameters, shape, 256), Err(SchemeError::Range { .. })));
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let mut fixture = Fixture::new(9000, 1024, 0, 1, false);
    let (parameters, shape) = (fixture.parameters.clone(), fixture.shape);
    for (rows, groups) in [
        (1..2048, 0..1),
        (0..2047, 0..1),
        (0..0, 0..1),
        (0..shape.rows() + 1, 0..1),
        (6144..shape.rows(), 0..1),
        (0..2048, 0..0),
        (0..2048, 0..2),
        (0..2048, 1..2),
    ] {
        let refused = DensePart::new(&parameters, shape, rows.clone(), groups.clone());
        assert!(matches!(refused, Err(SchemeError::Range { .. })), "{rows:?} {groups:?}");
    }
    for count in [0, 4, 5, 1000] {
        let refused = DenseSplit::new(&parameters, shape, count);
        assert!(matches!(refused, Err(SchemeError::Range { .. })), "{count} shards");
    }
    let split = DenseSplit::new(&parameters, shape, 3).unwrap();
    assert!(matches!(split.part(&parameters, 3), Err(SchemeError::Range { .. })));
    // A table of another part.
    let (shards, queries) = (shards(&fixture, split), fixture.queries(&[3]));
    let (pairs, never) = ([(&fixture.clients[0].1, &queries[0])], AtomicBool::new(false));
    let last = split.part(&parameters, 2).unwrap();
    let refused = partial_answer(&parameters, &last, &[shards[0].groups()], &pairs, &never);
    assert!(matches!(refused, Err(SchemeError::Table { .. })), "{refused:?}");
    // Bytes that are no partial response.
    let bytes = partials(&fixture, &shards[..1], &queries)[0][0].to_bytes(&parameters);
    for wrong in [&bytes[1..], &[&bytes[..], &[0]].concat()[..], &[]] {
        assert!(matches!(PartialResponse::from_bytes(&parameters, wrong), Err(SchemeError::Format { .. })));
    }
    assert!(PartialResponse::from_bytes(&parameters, &vec![0xFF; bytes.len()]).is_err());
    assert!(matches!(DenseResponse::merged(&parameters, shape, &[]), Err(SchemeError::Format { .. })));
}
