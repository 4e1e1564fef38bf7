//! All product methods, compared with the definition, encrypted with exactly the counted keys.

use crate::circuit;
use crate::common::{COMPLEX, Client, LEVEL, Matrices, REAL, random, worst};
use unspoken_encrypted_matrix::{Layout, Method, Product};

circuit!(Multiply(product: Product), |this, a, inputs| this.product.apply(a, &inputs[0], &inputs[1]));

fn products(a: &Matrices, b: &Matrices) -> Matrices {
    a.iter().zip(b).map(|(a, b)| a.dot(b)).collect()
}

/// Multiplies random matrices, encrypted one level above the level of the product.
fn check(
    client: &mut Client,
    layout: Layout,
    method: Method,
    (rows, inner, columns): (usize, usize, usize),
    batch: usize,
) {
    let (a, b) = (random((rows, inner), batch, 1), random((inner, columns), batch, 2));
    let scale = client.parameters().scale();
    let product = Product::new(client.parameters(), layout, method, LEVEL, [scale, scale]).unwrap();
    assert_eq!((product.method(), product.output_level()), (method, LEVEL - method.depth()));
    let run = client.run(layout, &[&a, &b], LEVEL + 1, &Multiply { product }).unwrap();
    let error = worst(&run.matrices, &products(&a, &b));
    let case = format!("{method} d={} m={} {rows}x{inner}x{columns}", layout.dim(), layout.blocks());
    assert!(error < 2f64.powi(-24), "{case}: 2^{:.1}", error.log2());
    assert_eq!(run.level, LEVEL - method.depth(), "{case}");
    assert!((run.scale / scale - 1.0).abs() < 1e-13, "{case}");
    assert_eq!(run.result.is_clean(), layout.blocks() == 1);
}

#[test]
fn every_method_in_every_space() {
    for preset in [REAL, COMPLEX] {
        let mut client = Client::new(preset);
        for (d, blocks) in [(1, 1), (2, 1), (2, 2), (4, 1), (4, 2), (4, 4), (8, 1), (8, 2), (8, 8)] {
            let layout = Layout::new(client.parameters(), d, blocks).unwrap();
            for method in Method::all(layout) {
                check(&mut client, layout, method, (d, d, d), layout.parallel());
            }
        }
    }
}

#[test]
fn any_shape_in_tiles() {
    let mut client = Client::new(REAL);
    let shapes = [(1, 1, 1), (3, 5, 2), (1, 9, 1), (5, 4, 11), (8, 3, 4), (10, 10, 10)];
    for (blocks, methods) in [
        (1, vec![Method::Expanded { radix: 4, step: 1 }, Method::Jkls { hoisted: true }]),
        (2, vec![Method::Expanded { radix: 2, step: 2 }]),
        (4, vec![Method::Expanded { radix: 4, step: 4 }, Method::Original { hoisted: false }]),
    ] {
        let layout = Layout::new(client.parameters(), 4, blocks).unwrap();
        for method in methods {
            for shape in shapes {
                check(&mut client, layout, method, shape, 3);
            }
        }
    }
}
