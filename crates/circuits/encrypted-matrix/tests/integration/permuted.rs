//! Selections of entries of row vectors in tiles of one row, encrypted, and their keys; bounds of values.

use std::collections::BTreeMap;

use crate::common::{Client, Matrices, REAL, random, worst};
use ndarray::{Array2, Axis as Along};
use unspoken_ckks::{CostModel, Evaluator};
use unspoken_encrypted_matrix::{
    Axis, Budget, EncryptedMatrixError, Graph, Layout, Operand, Operation, PlanCache, VectorPermutation, plan,
};
use unspoken_permute::{Candidate, Operations, Packing, Permutation, PermutationTask, Verdict};

const LEVEL: usize = 6;
const DEEP: &str = "insecure_n11_real_depth17_scale30";

/// A graph of one input row with these operations one after the other.
fn chain(length: usize, operations: &[Operation]) -> Graph {
    let mut graph = Graph::new();
    let mut last = graph.input("x", (1, length)).unwrap();
    for operation in operations {
        last = graph.push(operation.clone(), &[last]).unwrap();
    }
    graph
}

fn select(values: &Matrices, columns: &[usize]) -> Matrices {
    values.iter().map(|row| row.select(Along(1), columns)).collect()
}

fn run(client: &mut Client, layout: Layout, graph: &Graph, input: &Matrices) -> (Matrices, usize, usize) {
    let program = plan(&client.encoder, graph, layout, LEVEL, Budget::default()).unwrap();
    let keys = client.keys(program.key_plan());
    let encrypted = client.encrypt(layout, input, LEVEL);
    let result = program.run(&Evaluator::new(&client.encoder, &keys), &[encrypted]).unwrap();
    (client.decrypt(&result), program.key_plan().len(), program.output_level())
}

/// Different for each seed, without structure.
fn shuffled(length: usize, seed: u64) -> Vec<usize> {
    Permutation::random(length, seed).unwrap().source().iter().map(|&source| source as usize).collect()
}

#[test]
fn entries_are_selected_in_every_vector_of_the_batch() {
    let mut client = Client::new(REAL);
    for (length, tile) in [(1, 1), (5, 8), (64, 64), (100, 128), (700, 1024)] {
        let layout = Layout::of_vectors(client.parameters(), tile).unwrap();
        let batch = layout.parallel().min(3);
        let input = random((1, length), batch, 1);
        let permutation = shuffled(length, 2);
        let part: Vec<usize> = permutation[..length.div_ceil(3)].to_vec();
        let reversed: Vec<usize> = (0..length).rev().collect();
        let rotated: Vec<usize> = (0..length).map(|index| (index + 1) % length).collect();
        let repeated: Vec<usize> = (0..length).map(|index| index / 2).collect();
        for columns in [permutation, part, reversed, rotated, repeated] {
            if columns.len() > 200 && columns[..2] == [0, 0] {
                continue; // Too many diagonals for a selection with repeated entries.
            }
            // The sum shows that everything outside the selection is zero.
            let operations = [Operation::Columns(columns.clone()), Operation::Sum(Axis::Columns)];
            let expected = select(&input, &columns);
            let (found, _, level) = run(&mut client, layout, &chain(length, &operations[..1]), &input);
            assert!(worst(&found, &expected) < 2f64.powi(-20), "{length} {columns:?}");
            // A rotation of a full tile is free.
            let rotates =
                length == tile && (1..length).all(|to| columns.get(to) == Some(&((columns[0] + to) % length)));
            assert_eq!(level == LEVEL, rotates, "{length} {columns:?}");
            let (found, _, _) = run(&mut client, layout, &chain(length, &operations), &input);
            let sums: Matrices = expected.iter().map(|row| Array2::from_elem((1, 1), row.sum())).collect();
            assert!(worst(&found, &sums) < 2f64.powi(-18), "{length} {columns:?}");
        }
    }
}

#[test]
fn a_permutation_needs_the_keys_of_the_planner() {
    let client = Client::new(REAL);
    let (parameters, length) = (client.parameters(), 1000);
    let layout = Layout::of_vectors(parameters, 1024).unwrap();
    let permutation = shuffled(length, 3);
    let program =
        plan(&client.encoder, &chain(length, &[Operation::Columns(permutation.clone())]), layout, 5, Budget::default());
    let program = program.unwrap();
    let source = permutation.iter().chain(&(length..1024).collect::<Vec<_>>()).map(|&index| index as u32).collect();
    let source = Permutation::new(source).unwrap();
    let task = PermutationTask { input_level: 5, ..PermutationTask::new(&source, Packing::Repeated, parameters, 0) };
    let explanation = task.explain(parameters, &CostModel::nominal(parameters)).unwrap();
    let allowed = explanation.rows().iter().filter(|row| row.verdict == Verdict::Allowed).map(|row| &row.candidate);
    // Interleaved vectors fill the slots: no copies are free, and networks are not used.
    let of_stages = |candidate: &&Candidate| matches!(candidate.plan.program(), Operations::Stages(_));
    let best = allowed.into_iter().find(of_stages).unwrap();
    // Rotations of interleaved vectors coincide more often.
    let (keys, of_the_planner) = (program.key_plan().len(), best.estimate.keys.len());
    assert!(keys <= of_the_planner && keys + 3 > of_the_planner && keys < 60, "{keys} {of_the_planner}");
    assert!(program.explain().contains("permute a vector in"), "{}", program.explain());
    // Square tiles need several ciphertexts and many keys.
    let square = Layout::new(parameters, 32, 1).unwrap();
    let graph = chain(length, &[Operation::Columns(permutation)]);
    let square = plan(&client.encoder, &graph, square, 5, Budget::default()).unwrap();
    assert!(square.key_plan().len() > program.key_plan().len());
    assert!(square.seconds() > 3.0 * program.seconds(), "{} {}", square.seconds(), program.seconds());
}

#[test]
fn vectors_of_several_full_tiles_are_permuted() {
    let mut client = Client::new(DEEP);
    let slots = client.parameters().slots();
    let layout = Layout::of_vectors(client.parameters(), slots).unwrap();
    let length = 2 * slots - 5;
    let input = random((1, length), 1, 1);
    let permutation = shuffled(length, 4);
    let part = permutation[..slots + 7].to_vec();
    let reversed: Vec<usize> = (0..length).rev().collect();
    let rotated: Vec<usize> = (0..length).map(|index| (index + 3) % length).collect();
    for (columns, name) in [
        (permutation, "permute a long"),
        (reversed, "permute a long"),
        (rotated, "pick columns"),
        (part, "permute a long"),
    ] {
        let mut operations = vec![Operation::Columns(columns.clone())];
        let mut expected = select(&input, &columns);
        let mut limit = 2f64.powi(-7);
        if columns.len() < length {
            // The sum shows that everything outside the selection is zero.
            operations.push(Operation::Sum(Axis::Columns));
            expected = expected.iter().map(|row| Array2::from_elem((1, 1), row.sum())).collect();
            limit = 0.5;
        }
        let program = plan(&client.encoder, &chain(length, &operations), layout, 17, Budget::default()).unwrap();
        assert!(program.explain().contains(name), "{}", program.explain());
        let keys = client.keys(program.key_plan());
        let encrypted = client.encrypt(layout, &input, 17);
        let found = program.run(&Evaluator::new(&client.encoder, &keys), &[encrypted]).unwrap();
        let found = worst(&client.decrypt(&found), &expected);
        assert!(found < limit, "{name} {}: {found}", columns.len());
    }
}

#[test]
fn plans_of_permutations_are_kept_and_read_again() {
    let client = Client::new(DEEP);
    let slots = client.parameters().slots();
    for (dim, length, count) in [(64, 60, 1), (slots, slots + 5, 4)] {
        let layout = Layout::of_vectors(client.parameters(), dim).unwrap();
        let graph = chain(length, &[Operation::Columns(shuffled(length, 3))]);
        let directory = tempfile::tempdir().unwrap();
        let cache = PlanCache::new(directory.path());
        let planned = |cache| plan(&client.encoder, &graph, layout, 17, Budget { cache, ..Budget::default() }).unwrap();
        let files = || {
            let files = std::fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap());
            files.map(|file| (file.path(), file.metadata().unwrap().modified().unwrap())).collect::<BTreeMap<_, _>>()
        };
        let without = planned(None);
        assert!(files().is_empty());
        let searched = planned(Some(&cache));
        let kept = files();
        assert!((1..=count).contains(&kept.len()), "{kept:?}");
        let read = planned(Some(&cache));
        assert_eq!(files(), kept, "nothing is written again");
        for program in [searched, read] {
            assert_eq!(program.explain(), without.explain());
            assert_eq!(program.key_plan(), without.key_plan());
        }
    }
}

#[test]
fn what_tiles_of_one_row_cannot_do_is_refused() {
    let client = Client::new(REAL);
    let layout = Layout::of_vectors(client.parameters(), 8).unwrap();
    let row = Operand { shape: (1, 8), level: 3, scale: client.parameters().scale() };
    let refused = |input: Operand, indices: &[usize]| {
        VectorPermutation::plan(client.parameters(), layout, input, indices, 9, None)
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    assert!(refused(row, &[0, 8]).contains("index 8 is out of bounds"));
    assert!(refused(row, &[1, 1]).contains("index 1 twice"));
    assert!(refused(Operand { shape: (2, 8), ..row }, &[1]).contains("one row"));
    assert!(refused(Operand { shape: (1, 9), ..row }, &[1]).contains("one row"));
    assert!(refused(Operand { level: 0, ..row }, &[1, 0]).contains("needs 1 levels"));
    for operation in [Operation::Transpose, Operation::TimesLeft(Array2::ones((2, 1))), Operation::Rows(vec![0])] {
        let graph = chain(8, &[operation]);
        let error = plan(&client.encoder, &graph, layout, 3, Budget::default()).map(|_| ()).unwrap_err();
        assert!(
            matches!(&error, EncryptedMatrixError::Layout { needed, .. } if needed.contains("square tiles")),
            "{error}"
        );
    }
    assert!(Layout::of_vectors(client.parameters(), 3).is_err());
    assert!(Layout::of_vectors(client.parameters(), 1 << 20).is_err());
    assert!(Layout::with_tile(client.parameters(), (2, 4), 1).is_err());
    assert!(Layout::with_tile(client.parameters(), (1, 4), 2).is_err());
}

#[test]
fn bounds_hold_for_every_step_and_name_the_one_that_overflows() {
    let client = Client::new(REAL);
    let parameters = client.parameters();
    for blocks in [1, 2] {
        let layout = Layout::new(parameters, 4, blocks).unwrap();
        let mut graph = Graph::new();
        let a = graph.input("a", (3, 3)).unwrap();
        let square = graph.push(Operation::MatMul, &[a, a]).unwrap();
        let difference = graph.push(Operation::Subtract, &[square, a]).unwrap();
        graph.push(Operation::TimesRight(Array2::from_elem((3, 2), -0.5)), &[difference]).unwrap();
        let program = plan(&client.encoder, &graph, layout, 9, Budget::default()).unwrap();
        let bounds = program.bounds(parameters, 10.0, 2).unwrap();
        assert_eq!((bounds.overflow, bounds.excess_bits), (None, 0.0));
        // (3 * 100 + 10) * 3 / 2.
        assert!((bounds.output - 465.0).abs() < 1e-6, "{}", bounds.output);
        let large = program.bounds(parameters, 1e70, 1).unwrap();
        let overflow = large.overflow.unwrap();
        assert!(overflow.step.contains("matmul") && overflow.excess_bits > 1.0, "{overflow:?}");
        assert!(large.excess_bits >= overflow.excess_bits);
    }
}
