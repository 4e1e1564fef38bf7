//! Graphs: shapes, plans, errors, and runs with exactly the planned keys.

use crate::common::{Client, Matrices, REAL, random, worst};
use ndarray::{Array2, Axis as Along};
use unspoken_ckks::{Evaluator, Simulator};
use unspoken_encrypted_matrix::{Axis, Budget, EncryptedMatrixError, Graph, Layout, Method, Operation, plan};
use unspoken_ring::Basis;
use unspoken_rlwe::EvaluationKeys;

/// A graph with an input of each shape, named by its number.
fn inputs(shapes: &[(usize, usize)]) -> Graph {
    let mut graph = Graph::new();
    for (number, &shape) in shapes.iter().enumerate() {
        assert_eq!(graph.input(&number.to_string(), shape).unwrap(), number);
    }
    graph
}

fn push(graph: &mut Graph, operation: Operation, operands: &[usize]) -> usize {
    graph.push(operation, operands).unwrap()
}

/// Plans a graph, generates exactly the planned keys, runs it encrypted, and returns the decrypted matrices.
fn run(client: &mut Client, graph: &Graph, layout: Layout, level: usize, inputs: &[&Matrices]) -> Matrices {
    let program = plan(&client.encoder, graph, layout, level, Budget::default()).unwrap();
    let keys = client.keys(program.key_plan());
    let encrypted: Vec<_> = inputs.iter().map(|m| client.encrypt(layout, m, level)).collect();
    let evaluator = Evaluator::new(&client.encoder, &keys);
    let result = program.run(&evaluator, &encrypted).unwrap();
    assert_eq!(result.shape(), graph.nodes().last().unwrap().shape());
    assert_eq!(result.level_and_scale(&evaluator).unwrap().0, program.output_level());
    assert!(program.seconds() > 0.0);

    let simulator = Simulator::new(&client.encoder, 3);
    let simulated: Vec<_> = inputs.iter().map(|m| crate::common::simulated(&simulator, layout, m, level)).collect();
    let [noisy, exact] = crate::common::opened(&program.run(&simulator, &simulated).unwrap());
    let error = worst(&noisy, &exact);
    assert!(error > 0.0 && error < 2f64.powi(-18), "simulated: 2^{:.1}", error.log2());
    assert_eq!(simulator.overflows(), []);
    client.decrypt(&result)
}

#[test]
fn a_network_of_everything() {
    let mut client = Client::new(REAL);
    for blocks in [1, 2, 8] {
        let layout = Layout::new(client.parameters(), 8, blocks).unwrap();
        let (a, b, x) = (random((9, 5), 2, 1), random((5, 10), 2, 2), random((1, 9), 2, 3));
        let weights = random((4, 9), 1, 4).remove(0);
        let offset = random((4, 4), 1, 5).remove(0);
        let mut graph = inputs(&[(9, 5), (5, 10), (1, 9)]);
        let product = push(&mut graph, Operation::MatMul, &[0, 1]);
        let transposed = push(&mut graph, Operation::Transpose, &[product]);
        let picked = push(&mut graph, Operation::Rows(vec![3, 1, 9, 9]), &[transposed]);
        let transposed = push(&mut graph, Operation::Transpose, &[0]);
        let others = push(&mut graph, Operation::Rows(vec![4, 3, 2, 1]), &[transposed]);
        let mixed = push(&mut graph, Operation::Add, &[picked, others]);
        let weighted = push(&mut graph, Operation::TimesRight(weights.t().to_owned()), &[mixed]);
        let vector = push(&mut graph, Operation::MatrixVector, &[mixed, 2]);
        let ones = Array2::ones((1, 4));
        let wide = push(&mut graph, Operation::TimesRight(ones.clone()), &[vector]);
        let half = push(&mut graph, Operation::Scale(0.5), &[weighted]);
        let difference = push(&mut graph, Operation::Subtract, &[wide, half]);
        let constant = push(&mut graph, Operation::Constant(offset.clone()), &[]);
        let moved = push(&mut graph, Operation::Add, &[weighted, constant]);
        push(&mut graph, Operation::Multiply, &[difference, moved]);
        let expected: Matrices = (0..2)
            .map(|p| {
                let mixed =
                    a[p].dot(&b[p]).t().select(Along(0), &[3, 1, 9, 9]) + a[p].t().select(Along(0), &[4, 3, 2, 1]);
                let weighted = mixed.dot(&weights.t());
                (mixed.dot(&x[p].t()).dot(&ones) - 0.5 * &weighted) * (&weighted + &offset)
            })
            .collect();
        let found = run(&mut client, &graph, layout, 9, &[&a, &b, &x]);
        let error = worst(&found, &expected);
        assert!(error < 2f64.powi(-20), "{blocks}: 2^{:.1}", error.log2());
    }
}

#[test]
fn products_chain() {
    let mut client = Client::new(REAL);
    for (blocks, shape) in [(1, (3, 3)), (2, (9, 9)), (4, (4, 4))] {
        let layout = Layout::new(client.parameters(), 4, blocks).unwrap();
        let a = random(shape, 3, 1);
        let mut graph = inputs(&[shape]);
        let square = push(&mut graph, Operation::MatMul, &[0, 0]);
        let fourth = push(&mut graph, Operation::MatMul, &[square, square]);
        push(&mut graph, Operation::Sum(Axis::Columns), &[fourth]);
        let expected: Matrices =
            a.iter().map(|a| a.dot(a).dot(&a.dot(a)).sum_axis(Along(1)).insert_axis(Along(1))).collect();
        let found = run(&mut client, &graph, layout, 9, &[&a]);
        let error = worst(&found, &expected);
        assert!(error < 2f64.powi(-18), "{blocks}: 2^{:.1}", error.log2());
    }
}

#[test]
fn shared_nodes_are_computed_once_and_double_transposes_not_at_all() {
    let client = Client::new(REAL);
    let layout = Layout::new(client.parameters(), 8, 2).unwrap();
    let planned = |graph: &Graph, level| plan(&client.encoder, graph, layout, level, Budget::default()).unwrap();
    let mut product = inputs(&[(8, 8), (8, 8)]);
    push(&mut product, Operation::MatMul, &[0, 1]);
    let tensors = planned(&product, 9).cost().tensors;
    let mut twice = product.clone();
    push(&mut twice, Operation::Transpose, &[2]);
    push(&mut twice, Operation::Add, &[2, 3]);
    assert_eq!(planned(&twice, 9).cost().tensors, tensors);
    let mut again = product.clone();
    push(&mut again, Operation::MatMul, &[0, 1]);
    push(&mut again, Operation::Add, &[2, 3]);
    assert_eq!(planned(&again, 9).cost().tensors, 2 * tensors);
    let mut chain = product.clone();
    push(&mut chain, Operation::MatMul, &[2, 2]);
    let chain = planned(&chain, 9).explain();
    assert_eq!(chain.matches("clean").count(), 1, "one mask for both factors: {chain}");
    assert!(chain.contains("clean of #2, (8, 8), level 6") && chain.contains("#4: matmul by expanded"), "{chain}");
    let mut back = product;
    push(&mut back, Operation::Transpose, &[0]);
    push(&mut back, Operation::Transpose, &[3]);
    let back = planned(&back, 0);
    assert!(back.key_plan().is_empty());
    assert_eq!(back.explain(), "#0: input 0, (8, 8), level 0", "what the result does not need is not computed");
}

#[test]
fn shapes_are_checked_as_nodes_are_added() {
    let graph = inputs(&[(2, 3), (4, 5)]);
    let message = |operation, operands: &[usize]| graph.clone().push(operation, operands).unwrap_err().to_string();
    assert_eq!(message(Operation::MatMul, &[0, 1]), "matmul: (2, 3) @ (4, 5): inner dimensions 3 and 4 differ");
    assert_eq!(message(Operation::Add, &[0, 1]), "add: shapes (2, 3) and (4, 5) differ");
    assert!(message(Operation::Subtract, &[0, 1]).starts_with("subtract"));
    assert!(message(Operation::Multiply, &[0, 1]).starts_with("multiply"));
    assert!(message(Operation::MatrixVector, &[0, 1]).contains("(1, 3)"));
    let rows = message(Operation::Rows(vec![0, 2]), &[0]);
    assert!(rows.contains("index 2 is out of bounds for a matrix of 2 rows"), "{rows}");
    assert!(message(Operation::Columns(vec![]), &[0]).contains("no columns"));
    assert!(message(Operation::TimesLeft(Array2::zeros((2, 3))), &[0]).contains("inner dimensions 3 and 2"));
    assert!(message(Operation::TimesRight(Array2::zeros((2, 3))), &[0]).contains("inner dimensions 3 and 2"));
    assert!(message(Operation::TimesLeft(Array2::zeros((0, 2))), &[0]).contains("no entries"));
    assert!(message(Operation::Constant(Array2::zeros((0, 4))), &[]).contains("no entries"));
    assert!(graph.clone().input("2", (0, 4)).unwrap_err().to_string().contains("no entries"));
}

#[test]
fn nodes_that_cannot_be_are_refused() {
    let graph = inputs(&[(2, 3), (2, 3)]);
    let message = |operation, operands: &[usize]| graph.clone().push(operation, operands).unwrap_err().to_string();
    assert!(message(Operation::Add, &[0, 2]).contains("operand 2 of node 2; needed the number of an earlier node"));
    assert!(message(Operation::Add, &[0]).contains("1 operands of add; needed 2"));
    assert!(message(Operation::Scale(f64::NAN), &[0]).contains("the number NaN; needed finite numbers"));
    let infinite = Array2::from_elem((3, 1), f64::INFINITY);
    assert!(message(Operation::TimesRight(infinite.clone()), &[0]).contains("finite numbers"));
    assert!(message(Operation::Constant(infinite), &[]).contains("finite numbers"));
    for name in ["", "0", &"x".repeat(1025)] {
        let error = graph.clone().input(name, (1, 1)).unwrap_err().to_string();
        assert!(error.contains("another name for each input"), "{error}");
    }
    let client = Client::new(REAL);
    let layout = Layout::new(client.parameters(), 4, 1).unwrap();
    let error = plan(&client.encoder, &Graph::new(), layout, 6, Budget::default()).err().unwrap().to_string();
    assert!(error.contains("no nodes"), "{error}");
}

#[test]
fn levels_that_are_not_there() {
    let client = Client::new(REAL);
    let layout = Layout::new(client.parameters(), 16, 1).unwrap();
    let mut square = inputs(&[(16, 16)]);
    push(&mut square, Operation::MatMul, &[0, 0]);
    // With three levels the faster method, which uses three; with two levels the shallower one.
    let methods = |level| plan(&client.encoder, &square, layout, level, Budget::default()).unwrap().methods();
    assert_eq!(methods(5), [Method::Jkls { hoisted: true }]);
    assert!(matches!(methods(2)[..], [Method::Expanded { .. }]));
    let error = plan(&client.encoder, &square, layout, 1, Budget::default()).err().unwrap();
    assert!(matches!(error, EncryptedMatrixError::Depth { found: 1, needed: 2, .. }), "{error}");
    let mut deep = square;
    for power in 1..6 {
        push(&mut deep, Operation::MatMul, &[power, 0]);
    }
    let error = plan(&client.encoder, &deep, layout, 9, Budget::default()).err().unwrap();
    assert!(matches!(error, EncryptedMatrixError::Depth { found: 9, needed: 10, .. }), "{error}");
    assert!(error.to_string().contains("deeper"), "{error}");
}

#[test]
fn budgets_of_keys() {
    let client = Client::new(REAL);
    let layout = Layout::new(client.parameters(), 16, 1).unwrap();
    let mut square = inputs(&[(16, 16)]);
    push(&mut square, Operation::MatMul, &[0, 0]);
    let planned = |most_keys| plan(&client.encoder, &square, layout, 5, Budget { most_keys, ..Budget::default() });
    let (free, bound) = (planned(None).unwrap(), planned(Some(30)).unwrap());
    assert!(bound.key_plan().len() <= 31 && free.key_plan().len() > 31);
    assert!(bound.seconds() > free.seconds());
    let error = planned(Some(2)).err().unwrap().to_string();
    assert!(error.contains("room for 2 rotation keys") && error.contains("at least"), "{error}");
}

#[test]
fn memory_is_estimated_from_above() {
    let client = Client::new(REAL);
    let layout = Layout::new(client.parameters(), 8, 1).unwrap();
    let polynomial =
        |level| client.parameters().ring().poly_bytes(Basis::chain(client.parameters().chain(level))) as u64;
    let planned = |rows| {
        // No two weights are equal: diagonals that repeat take less memory.
        let weights = Array2::from_shape_fn((rows, rows), |(i, j)| (i * rows + j) as f64);
        let mut graph = inputs(&[(rows, rows), (rows, rows)]);
        let product = push(&mut graph, Operation::MatMul, &[0, 1]);
        push(&mut graph, Operation::TimesLeft(weights), &[product]);
        plan(&client.encoder, &graph, layout, 6, Budget::default()).unwrap()
    };
    let (small, large) = (planned(8), planned(16));
    // Inputs and result have one tile, then four.
    assert!(small.working_bytes() > 2 * 3 * polynomial(6));
    assert!(large.working_bytes() > 2 * 12 * polynomial(6));
    assert!(large.working_bytes() > small.working_bytes());
    // At least eight diagonals of the weights, and four times this number.
    assert!(small.prepared_bytes() > 8 * polynomial(3));
    assert!(large.prepared_bytes() - small.prepared_bytes() > 3 * 8 * polynomial(3));
    let additive = |graph: &Graph| plan(&client.encoder, graph, layout, 6, Budget::default()).unwrap().prepared_bytes();
    let mut graph = inputs(&[(8, 8)]);
    push(&mut graph, Operation::Add, &[0, 0]);
    assert_eq!(additive(&graph), 0);
}

#[test]
fn runs_refuse_what_was_not_planned_and_name_every_missing_key() {
    let mut client = Client::new(REAL);
    let layout = Layout::new(client.parameters(), 4, 2).unwrap();
    let mut graph = inputs(&[(4, 4), (4, 2)]);
    push(&mut graph, Operation::MatMul, &[0, 1]);
    let program = plan(&client.encoder, &graph, layout, 6, Budget::default()).unwrap();
    let simulator = Simulator::counting(&client.encoder);
    let of = |shape, layout, level| crate::common::simulated(&simulator, layout, &random(shape, 1, 1), level);
    let refused = |inputs: &[_]| program.run(&simulator, inputs).unwrap_err().to_string();
    assert!(refused(&[of((4, 4), layout, 6)]).contains("input 1 is missing"));
    assert!(refused(&[of((4, 4), layout, 6), of((4, 3), layout, 6)]).contains("shape (4, 3)"));
    assert!(refused(&[of((4, 4), layout, 6), of((4, 2), layout, 5)]).contains("at level 5"));
    let other = Layout::new(client.parameters(), 4, 1).unwrap();
    assert!(refused(&[of((4, 4), layout, 6), of((4, 2), other, 6)]).contains("layout"));
    let inputs = [(4, 4), (4, 2)].map(|shape| client.encrypt(layout, &random(shape, 1, 1), 6));
    let none = EvaluationKeys::new();
    let error = program.run(&Evaluator::new(&client.encoder, &none), &inputs).unwrap_err().to_string();
    assert_eq!(error.matches("Galois key").count() + 1, program.key_plan().len(), "{error}");
    assert!(error.contains("relinearisation key"), "{error}");
}
