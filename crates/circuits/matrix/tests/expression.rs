//! Expressions: shapes, plans, refusals, and runs with exactly the planned keys.

mod common;

use common::{Client, Matrices, REAL, random, worst};
use ndarray::{Array2, Axis as Along};
use unspoken_ckks::{Evaluator, Simulator};
use unspoken_matrix::{Axis, Budget, Expression, Layout, MatrixError, Method, plan};
use unspoken_rlwe::EvaluationKeys;

fn input(index: usize, shape: (usize, usize)) -> Expression {
    Expression::input(index, shape).unwrap()
}

/// Plans, makes exactly the planned keys, runs encrypted; the matrices and the level.
fn run(
    client: &mut Client,
    expression: &Expression,
    layout: Layout,
    level: usize,
    inputs: &[&Matrices],
) -> (Matrices, usize) {
    let program = plan(&client.encoder, expression, layout, level, Budget::default()).unwrap();
    let keys = client.keys(program.key_plan());
    let encrypted: Vec<_> = inputs.iter().map(|m| client.encrypt(layout, m, level)).collect();
    let evaluator = Evaluator::new(&client.encoder, &keys);
    let result = program.run(&evaluator, &encrypted).unwrap();
    assert_eq!(result.shape(), expression.shape());
    assert_eq!(result.form(&evaluator).unwrap().0, program.output_level());
    assert!(program.seconds() > 0.0);

    let simulator = Simulator::new(&client.encoder, 3);
    let simulated: Vec<_> = inputs.iter().map(|m| common::simulated(&simulator, layout, m, level)).collect();
    let [noisy, exact] = common::opened(&program.run(&simulator, &simulated).unwrap());
    let error = worst(&noisy, &exact);
    assert!(error > 0.0 && error < 2f64.powi(-18), "simulated: 2^{:.1}", error.log2());
    assert_eq!(simulator.overflows(), []);
    (client.decrypt(&result), program.output_level())
}

#[test]
fn a_network_of_everything() {
    let mut client = Client::new(REAL);
    for blocks in [1, 2, 8] {
        let layout = Layout::new(client.parameters(), 8, blocks).unwrap();
        let (a, b, x) = (random((9, 5), 2, 1), random((5, 10), 2, 2), random((1, 9), 2, 3));
        let weights = random((4, 9), 1, 4).remove(0);
        let (ea, eb, ex) = (input(0, (9, 5)), input(1, (5, 10)), input(2, (1, 9)));
        let product = ea.matmul(&eb).unwrap();
        let picked = product.transpose().rows(&[3, 1, 9, 9]).unwrap();
        let mixed = picked.add(&ea.transpose().rows(&[4, 3, 2, 1]).unwrap()).unwrap();
        let weighted = mixed.times_right(&weights.t().to_owned()).unwrap();
        let vector = mixed.times_vector(&ex).unwrap();
        let ones = Array2::ones((1, 4));
        let wide = vector.times_right(&ones).unwrap().subtract(&weighted.scale(0.5)).unwrap();
        let result = wide.multiply(&weighted).unwrap();
        let expected: Matrices = (0..2)
            .map(|p| {
                let mixed =
                    a[p].dot(&b[p]).t().select(Along(0), &[3, 1, 9, 9]) + a[p].t().select(Along(0), &[4, 3, 2, 1]);
                let weighted = mixed.dot(&weights.t());
                (mixed.dot(&x[p].t()).dot(&ones) - 0.5 * &weighted) * &weighted
            })
            .collect();
        let (found, level) = run(&mut client, &result, layout, 9, &[&a, &b, &x]);
        let error = worst(&found, &expected);
        assert!(error < 2f64.powi(-20), "{blocks}: 2^{:.1}", error.log2());
        assert!(level > 0);
    }
}

#[test]
fn products_chain() {
    let mut client = Client::new(REAL);
    for (blocks, shape) in [(1, (3, 3)), (2, (9, 9)), (4, (4, 4))] {
        let layout = Layout::new(client.parameters(), 4, blocks).unwrap();
        let a = random(shape, 3, 1);
        let square = input(0, shape).matmul(&input(0, shape)).unwrap();
        let fourth = square.matmul(&square).unwrap().sum(Axis::Columns);
        let expected: Matrices =
            a.iter().map(|a| a.dot(a).dot(&a.dot(a)).sum_axis(Along(1)).insert_axis(Along(1))).collect();
        let (found, _) = run(&mut client, &fourth, layout, 9, &[&a]);
        let error = worst(&found, &expected);
        assert!(error < 2f64.powi(-18), "{blocks}: 2^{:.1}", error.log2());
    }
}

#[test]
fn shared_parts_are_evaluated_once_and_double_transposes_not_at_all() {
    let client = Client::new(REAL);
    let layout = Layout::new(client.parameters(), 8, 2).unwrap();
    let tensors = |expression: &Expression| {
        plan(&client.encoder, expression, layout, 9, Budget::default()).unwrap().cost().tensors
    };
    let (a, b) = (input(0, (8, 8)), input(1, (8, 8)));
    let product = a.matmul(&b).unwrap();
    let twice = product.add(&product.transpose()).unwrap();
    assert_eq!(tensors(&twice), tensors(&product));
    let again = product.add(&a.matmul(&b).unwrap()).unwrap();
    assert_eq!(tensors(&again), 2 * tensors(&product));
    let plan_of = |e: &Expression| plan(&client.encoder, e, layout, 9, Budget::default()).unwrap().explain();
    let (chain, mask) = (plan_of(&product.matmul(&product).unwrap()), "clean of #2, (8, 8), level 6");
    assert_eq!(chain.matches("clean").count(), 1, "one mask for both factors: {chain}");
    assert!(chain.contains(mask) && chain.contains("#4: matmul by expanded"), "{chain}");
    let back = a.transpose().transpose();
    assert!(plan(&client.encoder, &back, layout, 0, Budget::default()).unwrap().key_plan().is_empty());
}

#[test]
fn shapes_are_checked_as_expressions_are_written() {
    let (a, b) = (input(0, (2, 3)), input(1, (4, 5)));
    let message = |result: Result<Expression, MatrixError>| result.unwrap_err().to_string();
    assert_eq!(message(a.matmul(&b)), "matmul: (2, 3) @ (4, 5): inner dimensions 3 and 4 differ");
    assert_eq!(message(a.add(&b)), "add: shapes (2, 3) and (4, 5) differ");
    assert!(message(a.subtract(&b)).starts_with("subtract"));
    assert!(message(a.multiply(&b)).starts_with("multiply"));
    assert!(message(a.times_vector(&b)).contains("(1, 3)"));
    assert!(message(a.rows(&[0, 2])).contains("index 2 is out of bounds for a matrix of 2 rows"));
    assert!(message(a.columns(&[])).contains("no columns"));
    assert!(message(a.times_left(&Array2::zeros((2, 3)))).contains("inner dimensions 3 and 2"));
    assert!(message(a.times_right(&Array2::zeros((2, 3)))).contains("inner dimensions 3 and 2"));
    assert!(message(Expression::input(0, (0, 4))).contains("no entries"));
    assert_eq!(a.matmul(&b.rows(&[0, 1, 2]).unwrap()).unwrap().shape(), (2, 5));
}

#[test]
fn levels_that_are_not_there() {
    let client = Client::new(REAL);
    let layout = Layout::new(client.parameters(), 16, 1).unwrap();
    let a = input(0, (16, 16));
    let square = a.matmul(&a).unwrap();
    // The faster method of three levels where there are three, the shallower of two where there are two.
    let methods = |level| plan(&client.encoder, &square, layout, level, Budget::default()).unwrap().methods();
    assert_eq!(methods(5), [Method::Jkls { hoisted: true }]);
    assert!(matches!(methods(2)[..], [Method::Expanded { .. }]));
    let error = plan(&client.encoder, &square, layout, 1, Budget::default()).err().unwrap();
    assert!(matches!(error, MatrixError::Depth { found: 1, needed: 2, .. }), "{error}");
    let deep = (0..5).fold(square, |power, _| power.matmul(&a).unwrap());
    let error = plan(&client.encoder, &deep, layout, 9, Budget::default()).err().unwrap();
    assert!(matches!(error, MatrixError::Depth { found: 9, needed: 10, .. }), "{error}");
    assert!(error.to_string().contains("deeper"), "{error}");
}

#[test]
fn budgets_of_keys() {
    let client = Client::new(REAL);
    let layout = Layout::new(client.parameters(), 16, 1).unwrap();
    let square = input(0, (16, 16)).matmul(&input(0, (16, 16))).unwrap();
    let planned = |most_keys| plan(&client.encoder, &square, layout, 5, Budget { most_keys });
    let (free, bound) = (planned(None).unwrap(), planned(Some(30)).unwrap());
    assert!(bound.key_plan().len() <= 31 && free.key_plan().len() > 31);
    assert!(bound.seconds() > free.seconds());
    let error = planned(Some(2)).err().unwrap().to_string();
    assert!(error.contains("room for 2 rotation keys") && error.contains("at least"), "{error}");
}

#[test]
fn runs_refuse_what_was_not_planned_and_name_every_missing_key() {
    let mut client = Client::new(REAL);
    let layout = Layout::new(client.parameters(), 4, 2).unwrap();
    let expression = input(0, (4, 4)).matmul(&input(1, (4, 2))).unwrap();
    let program = plan(&client.encoder, &expression, layout, 6, Budget::default()).unwrap();
    let simulator = Simulator::counting(&client.encoder);
    let of = |shape, layout, level| common::simulated(&simulator, layout, &random(shape, 1, 1), level);
    let refused = |inputs: &[_]| program.run(&simulator, inputs).unwrap_err().to_string();
    assert!(refused(&[of((4, 4), layout, 6)]).contains("input 1 is missing"));
    assert!(refused(&[of((4, 4), layout, 6), of((4, 3), layout, 6)]).contains("shape (4, 3)"));
    assert!(refused(&[of((4, 4), layout, 6), of((4, 2), layout, 5)]).contains("at level 5"));
    let other = Layout::new(client.parameters(), 4, 1).unwrap();
    assert!(refused(&[of((4, 4), layout, 6), of((4, 2), other, 6)]).contains("layout"));
    let two = input(0, (4, 4)).add(&input(0, (4, 3)).times_right(&Array2::ones((3, 4))).unwrap()).unwrap();
    let error = plan(&client.encoder, &two, layout, 6, Budget::default()).err().unwrap().to_string();
    assert!(error.contains("two shapes"), "{error}");

    let inputs = [(4, 4), (4, 2)].map(|shape| client.encrypt(layout, &random(shape, 1, 1), 6));
    let none = EvaluationKeys::new();
    let error = program.run(&Evaluator::new(&client.encoder, &none), &inputs).unwrap_err().to_string();
    assert_eq!(error.matches("Galois key").count() + 1, program.key_plan().len(), "{error}");
    assert!(error.contains("relinearisation key"), "{error}");
}
