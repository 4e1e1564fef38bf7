//! All operations except products, for square, rectangular and tiled shapes, encrypted with exactly the counted keys.

use crate::circuit;
use crate::common::{COMPLEX, Client, LEVEL, Matrices, REAL, random, worst};
use ndarray::{Array2, Axis as Along};
use unspoken_ckks::{Evaluator, Simulator};
use unspoken_encrypted_matrix::{
    Axis, EncryptedMatrix, EncryptedMatrixError, Layout, LinearMap, MatrixVector, Method, Operand, Product, Sum,
    TileMask, add, encode_tiles, multiply, scale, subtract,
};
use unspoken_rlwe::EvaluationKeys;

const BITS: i32 = 26;

circuit!(Map(map: LinearMap), |this, a, inputs| this.map.apply(a, &inputs[0]));
circuit!(Summed(sum: Sum), |this, a, inputs| this.sum.apply(a, &inputs[0]));
circuit!(Vector(product: MatrixVector), |this, a, inputs| this.product.apply(a, &inputs[0], &inputs[1]));
circuit!(Arithmetics(), |_this, a, inputs| {
    // Levels and scales of operands differ: ((x + y) * x - 3 y) * (x - y) + x.
    let [x, y] = inputs else { panic!("two inputs") };
    let product = multiply(a, &add(a, x, y)?, x)?;
    let difference = subtract(a, &product, &scale(a, y, 3.0)?)?;
    add(a, &multiply(a, &difference, &subtract(a, x, y)?)?, x)
});
circuit!(MaskedProduct(product: Product, mask: TileMask, then: Product), |this, a, inputs| {
    let product = this.product.apply(a, &inputs[0], &inputs[1])?;
    let refused = this.then.apply(a, &product, &inputs[0]);
    let Err(EncryptedMatrixError::Layout { found, .. }) = refused else { panic!("not clean") };
    assert!(found.contains("outside its tiles"), "{found}");
    this.then.apply(a, &this.mask.apply(a, &product)?, &inputs[0])
});
circuit!(Masked(product: Product, then: LinearMap), |this, a, inputs| {
    this.then.apply(a, &this.product.apply(a, &inputs[0], &inputs[1])?)
});

/// Shapes below, equal to and above tiles of dimension 8.
const SHAPES: [(usize, usize); 6] = [(1, 1), (8, 8), (3, 5), (1, 11), (13, 2), (17, 9)];

fn layouts(client: &Client) -> [Layout; 2] {
    [1, 4].map(|blocks| Layout::new(client.parameters(), 8, blocks).unwrap())
}

fn each(matrices: &Matrices, change: impl Fn(&Array2<f64>) -> Array2<f64>) -> Matrices {
    matrices.iter().map(change).collect()
}

fn check_map(
    client: &mut Client,
    layout: Layout,
    shape: (usize, usize),
    map: impl Fn(&Client, Operand) -> LinearMap,
    expected: impl Fn(&Array2<f64>) -> Array2<f64>,
) {
    let input = random(shape, 3, 1);
    let ready = map(client, Operand { shape, level: LEVEL, scale: client.parameters().scale() });
    let depth = ready.depth();
    let run = client.run(layout, &[&input], LEVEL + 1, &Map { map: ready }).unwrap();
    let error = worst(&run.matrices, &each(&input, expected));
    assert!(error < 2f64.powi(-BITS), "{shape:?}: 2^{:.1}", error.log2());
    assert_eq!(run.level, LEVEL - depth);
    assert!(run.result.is_clean());
    // Clean means that every slot without an entry is zero.
    let exact = encode_tiles(layout, &run.matrices).unwrap();
    for (found, exact) in run.slots.iter().zip(exact.tiles()) {
        assert!(found.iter().zip(exact).all(|(f, e)| (f - e.re).abs() < 2f64.powi(-BITS)));
    }
}

#[test]
fn transposes() {
    for preset in [REAL, COMPLEX] {
        let mut client = Client::new(preset);
        for layout in layouts(&client) {
            for (shape, depth) in SHAPES.into_iter().zip([1, 2, 3, 1, 2, 3]) {
                let map = |c: &Client, input| {
                    let map = LinearMap::transpose(c.parameters(), layout, input, depth).unwrap();
                    assert_eq!((map.depth(), map.output_shape()), (depth, (shape.1, shape.0)));
                    map
                };
                check_map(&mut client, layout, shape, map, |m| m.t().to_owned());
            }
        }
    }
}

#[test]
fn rows_and_columns_in_any_order() {
    let mut client = Client::new(REAL);
    let picks = |extent: usize| {
        let reversed: Vec<usize> = (0..extent).rev().collect();
        let rotated = (0..extent).map(|i| (i * 5 + 3) % extent).collect();
        let repeated = (0..extent + 4).map(|i| i / 2 % extent).collect();
        [(0..extent).collect(), reversed, rotated, repeated, vec![extent - 1]]
    };
    for layout in layouts(&client) {
        for shape in SHAPES {
            for pick in picks(shape.0) {
                let map = |c: &Client, input| LinearMap::rows(c.parameters(), layout, input, &pick).unwrap();
                check_map(&mut client, layout, shape, map, |m| m.select(Along(0), &pick));
            }
            for pick in picks(shape.1) {
                let map = |c: &Client, input| LinearMap::columns(c.parameters(), layout, input, &pick).unwrap();
                check_map(&mut client, layout, shape, map, |m| m.select(Along(1), &pick));
            }
        }
    }
}

#[test]
fn reshapes() {
    let mut client = Client::new(REAL);
    let shapes = [((1, 1), (1, 1)), ((8, 8), (4, 16)), ((8, 8), (1, 64)), ((6, 4), (3, 8)), ((17, 9), (9, 17))];
    for layout in layouts(&client) {
        for (shape, to) in shapes.into_iter().chain([((64, 1), (8, 8)), ((3, 5), (15, 1)), ((5, 12), (4, 15))]) {
            let map = |c: &Client, input| {
                let map = LinearMap::reshape(c.parameters(), layout, input, to).unwrap();
                assert_eq!((map.depth(), map.output_shape()), (1, to));
                // Within a tile there is a diagonal for each pair of a row before and a row after with common entries.
                let keys = map.key_plan().len();
                let one_tile = layout.grid(shape) == (1, 1) && layout.grid(to) == (1, 1);
                assert!(!one_tile || keys < shape.0 + to.0, "{shape:?} to {to:?}: {keys}");
                map
            };
            let reshaped = |m: &Array2<f64>| Array2::from_shape_vec(to, m.iter().copied().collect()).unwrap();
            check_map(&mut client, layout, shape, map, reshaped);
        }
        let input = Operand { shape: (4, 6), level: LEVEL, scale: client.parameters().scale() };
        let error = LinearMap::reshape(client.parameters(), layout, input, (5, 5)).err().unwrap().to_string();
        assert!(error.contains("(4, 6) to (5, 5); needed a shape with as many entries"), "{error}");
    }
}

#[test]
fn reshapes_in_tiles_of_one_row() {
    let mut client = Client::new(REAL);
    let layout = Layout::of_vectors(client.parameters(), 16).unwrap();
    for (shape, to) in [((1, 24), (2, 12)), ((3, 20), (1, 60)), ((1, 12), (1, 12)), ((4, 5), (10, 2))] {
        let map = |c: &Client, input| LinearMap::reshape(c.parameters(), layout, input, to).unwrap();
        let reshaped = |m: &Array2<f64>| Array2::from_shape_vec(to, m.iter().copied().collect()).unwrap();
        check_map(&mut client, layout, shape, map, reshaped);
    }
}

#[test]
fn products_with_plaintexts() {
    let mut client = Client::new(REAL);
    for layout in layouts(&client) {
        for (shape, other) in SHAPES.into_iter().zip([1, 8, 12, 4, 3, 20]) {
            let weights = random((other, shape.0), 1, 7).remove(0);
            let map = |c: &Client, input| LinearMap::times_left(c.parameters(), layout, input, &weights).unwrap();
            check_map(&mut client, layout, shape, map, |m| weights.dot(m));
            let weights = random((shape.1, other), 1, 7).remove(0);
            let map = |c: &Client, input| LinearMap::times_right(c.parameters(), layout, input, &weights).unwrap();
            check_map(&mut client, layout, shape, map, |m| m.dot(&weights));
        }
        let zero = Array2::zeros((9, 8));
        let map = |c: &Client, input| LinearMap::times_left(c.parameters(), layout, input, &zero).unwrap();
        check_map(&mut client, layout, (8, 3), map, |m| zero.dot(m));
    }
}

#[test]
fn sums() {
    let mut client = Client::new(REAL);
    let scale = client.parameters().scale();
    for layout in layouts(&client) {
        for shape in SHAPES {
            let input = random(shape, 2, 1);
            for axis in [Axis::Rows, Axis::Columns, Axis::Both] {
                let sum = Sum::new(client.parameters(), layout, axis, LEVEL, scale).unwrap();
                let run = client.run(layout, &[&input], LEVEL + 1, &Summed { sum }).unwrap();
                let expected = each(&input, |m| {
                    let rows =
                        if axis == Axis::Columns { m.clone() } else { m.sum_axis(Along(0)).insert_axis(Along(0)) };
                    if axis == Axis::Rows { rows } else { rows.sum_axis(Along(1)).insert_axis(Along(1)) }
                });
                assert!(worst(&run.matrices, &expected) < 2f64.powi(-BITS + 2), "{axis:?} {shape:?}");
                assert!(run.result.is_clean() && run.level == LEVEL - 1);
            }
        }
    }
}

#[test]
fn matrices_times_vectors() {
    let mut client = Client::new(REAL);
    for layout in layouts(&client) {
        for shape in SHAPES {
            let (a, x) = (random(shape, 2, 1), random((1, shape.1), 2, 2));
            let input = |shape| Operand { shape, level: LEVEL, scale: client.parameters().scale() };
            let product = MatrixVector::new(client.parameters(), layout, input(shape), input((1, shape.1))).unwrap();
            let run = client.run(layout, &[&a, &x], LEVEL, &Vector { product }).unwrap();
            let expected: Matrices = a.iter().zip(&x).map(|(a, x)| a.dot(&x.t())).collect();
            assert!(worst(&run.matrices, &expected) < 2f64.powi(-BITS + 2), "{shape:?}");
            assert!(run.result.is_clean() && run.level == LEVEL - 2);
        }
    }
}

#[test]
fn entry_by_entry() {
    for preset in [REAL, COMPLEX] {
        let mut client = Client::new(preset);
        let layout = layouts(&client)[0];
        let (x, y) = (random((9, 3), 4, 1), random((9, 3), 4, 2));
        let run = client.run(layout, &[&x, &y], LEVEL, &Arithmetics {}).unwrap();
        let expected: Matrices = x.iter().zip(&y).map(|(x, y)| ((x + y) * x - 3.0 * y) * (x - y) + x).collect();
        let error = worst(&run.matrices, &expected);
        assert!(error < 2f64.powi(-BITS), "2^{:.1}", error.log2());
        // One level for each product, and one where the levels are equal and the scales differ.
        assert_eq!(run.level, LEVEL - 3);
    }
}

#[test]
fn products_chain_once_cleaned_and_maps_clean_by_themselves() {
    let mut client = Client::new(REAL);
    let layout = layouts(&client)[1];
    let scale = client.parameters().scale();
    let method = Method::Expanded { radix: 4, step: 2 };
    let (a, b) = (random((9, 9), 2, 1), random((9, 9), 2, 2));
    let ready = |level| Product::new(client.parameters(), layout, method, level, [scale, scale]).unwrap();
    let (product, then) = (ready(8), ready(5));
    let mask = TileMask::new(client.parameters(), layout, 6, scale).unwrap();
    let run = client.run(layout, &[&a, &b], 8, &MaskedProduct { product, mask, then }).unwrap();
    let expected: Matrices = a.iter().zip(&b).map(|(a, b)| a.dot(b).dot(a)).collect();
    assert!(worst(&run.matrices, &expected) < 2f64.powi(-20));

    let ready = |level| Product::new(client.parameters(), layout, method, level, [scale, scale]).unwrap();
    let input = Operand { shape: (9, 9), level: 6, scale };
    let (product, then) = (ready(8), LinearMap::transpose(client.parameters(), layout, input, 1).unwrap());
    let run = client.run(layout, &[&a, &b], 8, &Masked { product, then }).unwrap();
    let expected: Matrices = a.iter().zip(&b).map(|(a, b)| a.dot(b).t().to_owned()).collect();
    assert!(worst(&run.matrices, &expected) < 2f64.powi(-22));
    assert!(run.result.is_clean());
}

#[test]
fn refusals_say_what_was_found_and_what_would_do() {
    let mut client = Client::new(REAL);
    let layout = layouts(&client)[0];
    let parameters = client.parameters().clone();
    let scale = parameters.scale();
    let message = |error: EncryptedMatrixError| error.to_string();
    let input = |shape, level| Operand { shape, level, scale };

    assert!(message(Layout::new(&parameters, 6, 1).unwrap_err()).contains("power of two"));
    assert!(message(Layout::new(&parameters, 8, 16).unwrap_err()).contains("from 1 to the dimension, 8"));
    assert!(message(Layout::new(&parameters, 1 << 40, 1).unwrap_err()).contains("smaller tiles"));
    assert!(encode_tiles(layout, &[]).is_err());
    assert!(message(encode_tiles(layout, &[Array2::zeros((0, 3))]).unwrap_err()).contains("no entries"));
    let many = vec![Array2::zeros((2, 2)); layout.parallel() + 1];
    assert!(message(encode_tiles(layout, &many).unwrap_err()).contains("room for 1 to 32"));
    let mixed = [Array2::zeros((2, 2)), Array2::zeros((2, 3))];
    assert!(message(encode_tiles(layout, &mixed).unwrap_err()).contains("(2, 2) and (2, 3)"));
    assert!(EncryptedMatrix::from_tiles(layout, (9, 9), 1, vec![(); 3]).is_err());

    let weights = Array2::ones((2, 3));
    let error = LinearMap::times_left(&parameters, layout, input((4, 5), 3), &weights).err().unwrap();
    assert_eq!(message(error), "matmul: (2, 3) @ (4, 5): inner dimensions 3 and 4 differ");
    let error = LinearMap::rows(&parameters, layout, input((4, 5), 3), &[4]).err().unwrap();
    assert!(message(error).contains("index 4 is out of bounds"));
    assert!(LinearMap::columns(&parameters, layout, input((4, 5), 3), &[]).is_err());
    let error = LinearMap::transpose(&parameters, layout, input((4, 5), 0), 1).err().unwrap();
    assert!(matches!(error, EncryptedMatrixError::Depth { found: 0, needed: 1, .. }), "{error}");
    let error = LinearMap::transpose(&parameters, layout, input((4, 5), 2), 3).err().unwrap();
    assert!(message(error).contains("depth 1 needs one level"));
    assert!(LinearMap::transpose(&parameters, layout, input((4, 5), 5), 4).is_err());
    let error = Product::new(&parameters, layout, Method::Jkls { hoisted: true }, 2, [scale, scale]).err().unwrap();
    assert!(matches!(error, EncryptedMatrixError::Depth { found: 2, needed: 3, .. }), "{error}");
    assert!(Product::new(&parameters, layout, Method::Original { hoisted: true }, 4, [scale, scale]).is_err());
    assert!(Product::new(&parameters, layout, Method::Expanded { radix: 3, step: 1 }, 4, [scale, scale]).is_err());

    let simulator = Simulator::counting(&client.encoder);
    let of = |layout, shape, batch| crate::common::simulated(&simulator, layout, &random(shape, batch, 1), LEVEL);
    let (a, b) = (of(layout, (2, 3), 1), of(layout, (4, 5), 1));
    let product = Product::new(&parameters, layout, Method::Jkls { hoisted: true }, LEVEL, [scale, scale]).unwrap();
    assert!(message(product.apply(&simulator, &a, &b).unwrap_err()).contains("inner dimensions 3 and 4 differ"));
    assert!(message(add(&simulator, &a, &b).unwrap_err()).contains("(2, 3) and (4, 5)"));
    assert!(message(add(&simulator, &a, &of(layout, (2, 3), 2)).unwrap_err()).contains("1 and 2 matrices"));
    let other = Layout::new(&parameters, 4, 2).unwrap();
    assert!(message(add(&simulator, &a, &of(other, (2, 3), 1)).unwrap_err()).contains("one layout"));
    assert!(product.apply(&simulator, &of(other, (2, 3), 1), &of(other, (3, 2), 1)).is_err());

    // The error names all missing keys at once.
    let a = client.encrypt(layout, &random((8, 8), 1, 1), LEVEL);
    let none = EvaluationKeys::new();
    let map = LinearMap::transpose(&parameters, layout, input((8, 8), LEVEL), 1).unwrap();
    let error = map.apply(&Evaluator::new(&client.encoder, &none), &a).unwrap_err();
    assert!(message(error).matches("Galois key").count() > 3);
}
