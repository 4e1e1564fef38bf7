//! Matrices with one ciphertext per row.

#[path = "../../../circuits/encrypted-matrix/tests/integration/common/mod.rs"]
mod common;

use common::{COMPLEX, Client, REAL, random, worst};
use ndarray::Array2;
use unspoken_ckks::{Arithmetic, Ciphertext, Evaluator};
use unspoken_papers::{EncryptedRows, RowsProduct};
use unspoken_rlwe::EvaluationKeys;

fn encrypt(client: &mut Client, matrix: &Array2<f64>, level: usize) -> EncryptedRows<Ciphertext> {
    let seeded = EncryptedRows::encrypt(&client.encoder, &client.secret, matrix, level, &mut client.rng);
    seeded.unwrap().expand(client.encoder.parameters())
}

#[test]
fn plaintext_products_need_no_key_and_chain() {
    for preset in [REAL, COMPLEX] {
        let mut client = Client::new(preset);
        let (parameters, none) = (client.parameters().clone(), EvaluationKeys::new());
        let degree = parameters.ring().degree();
        for (rows, inner, columns) in [(1, 1, 1), (3, 5, 17), (9, 4, degree)] {
            let x = random((inner, columns), 1, 1).remove(0);
            let (first, second) = (random((rows, inner), 1, 2).remove(0), random((2, rows), 1, 3).remove(0));
            let encrypted = encrypt(&mut client, &x, 4);
            let evaluator = Evaluator::new(&client.encoder, &none);
            let product = RowsProduct::new(&parameters, &first, 3, parameters.scale()).unwrap();
            let once = product.apply(&evaluator, &encrypted).unwrap();
            assert_eq!((evaluator.level(&once.rows()[0]), product.output_level()), (2, 2));
            let product = RowsProduct::new(&parameters, &second, 2, evaluator.scale(&once.rows()[0])).unwrap();
            let twice = product.apply(&evaluator, &once).unwrap();
            let error = worst(
                &vec![twice.decrypt(&client.encoder, &client.secret).unwrap()],
                &vec![second.dot(&first).dot(&x)],
            );
            assert!(error < 2f64.powi(-28), "2^{:.1}", error.log2());
        }
    }
}

#[test]
fn refusals() {
    let mut client = Client::new(REAL);
    let parameters = client.parameters().clone();
    let scale = parameters.scale();
    assert!(EncryptedRows::<()>::from_rows(3, vec![]).is_err());
    assert!(RowsProduct::new(&parameters, &Array2::zeros((0, 2)), 3, scale).is_err());
    assert!(RowsProduct::new(&parameters, &Array2::ones((2, 2)), 0, scale).is_err());
    let product = RowsProduct::new(&parameters, &Array2::ones((2, 2)), 3, scale).unwrap();
    let x = encrypt(&mut client, &Array2::ones((3, 4)), 3);
    let none = EvaluationKeys::new();
    let error = product.apply(&Evaluator::new(&client.encoder, &none), &x).unwrap_err().to_string();
    assert_eq!(error, "matmul: (2, 2) @ (3, 4): inner dimensions 2 and 3 differ");
}
