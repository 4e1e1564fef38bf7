//! Tests that every operation marks results computed from a secret polynomial secret, and no other results.

use std::collections::BTreeSet;

use unspoken_ring::modular::primes_descending;
use unspoken_ring::{
    Backend, Basis, DeviceCopy, Difference, DigitGadget, DigitKey, DigitTerm, Domain, GadgetDigits, GadgetKey, Image,
    ImageInput, KeyRows, OrbitShape, Poly, Ring, RingKind, RingLiteral, RnsDigits, Seed, Stored, TableShape,
};

const DEGREE: usize = 512;
const CHAIN: usize = 2;

/// An operation on polynomials: its operands, and the polynomials that it makes or changes.
struct Operation {
    /// The methods of [`Ring`] that it covers.
    methods: &'static [&'static str],
    /// The basis and the domain of each operand.
    operands: Vec<(Basis, Domain)>,
    run: fn(&Ring, Vec<Poly>) -> Vec<Poly>,
}

fn ring_of_degree(degree: usize) -> Ring {
    let primes: Vec<u32> = primes_descending(1 << 25, 1 << 27, 1 << 11).take(CHAIN + 2).collect();
    let [terminal, special] = [CHAIN, CHAIN + 1].map(|i| vec![primes[i]]);
    let (kind, chain) = (RingKind::Standard, primes[..CHAIN].to_vec());
    let literal = RingLiteral { degree, kind, chain, terminal, special, digit_len: 2 };
    Ring::new(literal, Backend::detect()).unwrap()
}

fn taken<const N: usize>(operands: Vec<Poly>) -> [Poly; N] {
    operands.try_into().unwrap()
}

fn gadget(ring: &Ring) -> DigitGadget {
    ring.digit_gadget(CHAIN, 9, 2).unwrap()
}

/// A key of two rows, made of the polynomials in turn.
fn digit_key(ring: &Ring, a: &Poly, b: &Poly) -> DigitKey {
    ring.digit_key(gadget(ring), &[[a, b], [b, a]]).unwrap()
}

fn digits(ring: &Ring, operand: &Poly) -> GadgetDigits {
    ring.digits(gadget(ring), &[operand]).unwrap()
}

fn gadget_key(ring: &Ring, a: &Poly, b: &Poly) -> GadgetKey {
    ring.gadget_key(CHAIN, &[[a, b], [b, a]]).unwrap()
}

fn decomposed(ring: &Ring, operand: &Poly) -> RnsDigits {
    ring.decompose(operand).unwrap()
}

/// Every operation that makes a polynomial from another, or changes one with another.
fn operations() -> Vec<Operation> {
    let values = (Basis::chain(CHAIN), Domain::Evaluation);
    let coefficients = (Basis::chain(CHAIN), Domain::Coefficient);
    let extended = (Basis::extended(CHAIN), Domain::Evaluation);
    let key = (Basis::extended(CHAIN).with_terminal(1), Domain::Evaluation);
    let mut operations = Vec::new();
    let mut add = |methods, operands: &[(Basis, Domain)], run| {
        operations.push(Operation { methods, operands: operands.to_vec(), run });
    };
    add(&["restricted"], &[values], |ring, polys| vec![ring.restricted(&polys[0], Basis::chain(1)).unwrap()]);
    add(&["embed_from"], &[coefficients], |ring, polys| {
        vec![ring_of_degree(2 * DEGREE).embed_from(ring, &polys[0]).unwrap()]
    });
    add(&["to_evaluation"], &[coefficients], |ring, polys| {
        let [mut a] = taken(polys);
        ring.to_evaluation(&mut a).unwrap();
        vec![a]
    });
    add(&["to_coefficients"], &[values], |ring, polys| {
        let [mut a] = taken(polys);
        ring.to_coefficients(&mut a).unwrap();
        vec![a]
    });
    add(&["add"], &[values, values], |ring, polys| vec![ring.add(&polys[0], &polys[1]).unwrap()]);
    add(&["sub"], &[values, values], |ring, polys| vec![ring.sub(&polys[0], &polys[1]).unwrap()]);
    add(&["mul"], &[values, values], |ring, polys| vec![ring.mul(&polys[0], &polys[1]).unwrap()]);
    add(&["add_assign"], &[values, values], |ring, polys| {
        let [mut a, b] = taken(polys);
        ring.add_assign(&mut a, &b).unwrap();
        vec![a]
    });
    add(&["sub_assign"], &[values, values], |ring, polys| {
        let [mut a, b] = taken(polys);
        ring.sub_assign(&mut a, &b).unwrap();
        vec![a]
    });
    add(&["mul_assign"], &[values, values], |ring, polys| {
        let [mut a, b] = taken(polys);
        ring.mul_assign(&mut a, &b).unwrap();
        vec![a]
    });
    add(&["mul_add_assign"], &[values, values, values], |ring, polys| {
        let [mut acc, a, b] = taken(polys);
        ring.mul_add_assign(&mut acc, &a, &b).unwrap();
        vec![acc]
    });
    add(&["neg_assign"], &[values], |ring, polys| {
        let [mut a] = taken(polys);
        ring.neg_assign(&mut a).unwrap();
        vec![a]
    });
    add(&["scale_assign"], &[values], |ring, polys| {
        let [mut a] = taken(polys);
        ring.scale_assign(&mut a, 3).unwrap();
        vec![a]
    });
    add(&["unscale_assign"], &[values], |ring, polys| {
        let [mut a] = taken(polys);
        ring.unscale_assign(&mut a, 3).unwrap();
        vec![a]
    });
    add(&["mul_imaginary_assign"], &[values], |ring, polys| {
        let [mut a] = taken(polys);
        ring.mul_imaginary_assign(&mut a).unwrap();
        vec![a]
    });
    add(&["add_constant_assign"], &[values], |ring, polys| {
        let [mut a] = taken(polys);
        ring.add_constant_assign(&mut a, 3).unwrap();
        vec![a]
    });
    add(&["tensor"], &[values, values, values, values], |ring, polys| {
        let [a, b, c, d] = taken(polys);
        ring.tensor([&a, &b], [&c, &d], Basis::chain(CHAIN)).unwrap().into()
    });
    add(&["automorphism"], &[values], |ring, polys| vec![ring.automorphism(&polys[0], 5).unwrap()]);
    add(&["automorphism"], &[coefficients], |ring, polys| vec![ring.automorphism(&polys[0], 5).unwrap()]);
    add(&["automorphism_sum"], &[values], |ring, polys| vec![ring.automorphism_sum(&polys[0], &[1, 5]).unwrap()]);
    add(&["rotated"], &[coefficients], |ring, polys| vec![ring.rotated(&polys[0], 3).unwrap()]);
    add(&["divide_round"], &[extended], |ring, polys| {
        let divided = [Basis::extended(CHAIN), Basis::chain(CHAIN), Basis::chain(1)];
        divided.map(|to| ring.divide_round(&polys[0], to).unwrap()).into()
    });
    add(&["rescale_round"], &[extended], |ring, polys| {
        vec![ring.rescale_round(&polys[0], Basis::chain(1).with_terminal(1)).unwrap()]
    });
    add(&["extend_basis"], &[values], |ring, polys| {
        vec![ring.extend_basis(&polys[0], Basis::extended(CHAIN)).unwrap()]
    });
    add(&["lift_special"], &[values], |ring, polys| vec![ring.lift_special(&polys[0]).unwrap()]);
    add(&["add_lifted_assign"], &[extended, values], |ring, polys| {
        let [mut acc, a] = taken(polys);
        ring.add_lifted_assign(&mut acc, &a).unwrap();
        vec![acc]
    });
    add(&["add_gadget_message"], &[extended, extended], |ring, polys| {
        let [mut target, message] = taken(polys);
        ring.add_gadget_message(&mut target, &message, 0).unwrap();
        vec![target]
    });
    add(&["gadget_product", "gadget_key"], &[values, key, key], |ring, polys| {
        ring.gadget_product(&polys[0], &gadget_key(ring, &polys[1], &polys[2])).unwrap().into()
    });
    add(&["gadget_product_hoisted", "decompose"], &[values, key, key], |ring, polys| {
        let key = gadget_key(ring, &polys[1], &polys[2]);
        ring.gadget_product_hoisted(&decomposed(ring, &polys[0]), &key).unwrap().into()
    });
    add(&["hoisted_sum"], &[values, key, key], |ring, polys| {
        let key = gadget_key(ring, &polys[1], &polys[2]);
        ring.hoisted_sum(&decomposed(ring, &polys[0]), &[(&key, 1), (&key, 5)]).unwrap().into()
    });
    add(&["digit_product", "digits", "digit_key"], &[coefficients, values, values], |ring, polys| {
        ring.digit_product(&digits(ring, &polys[0]), &digit_key(ring, &polys[1], &polys[2])).unwrap().into()
    });
    add(&["add_rotated_differences"], &[coefficients, values, values], |ring, polys| {
        let zero = || ring.zero(Basis::chain(CHAIN), Domain::Evaluation);
        let (key, mut acc) = (digit_key(ring, &polys[1], &polys[2]), [zero(), zero()]);
        ring.add_rotated_differences(&mut acc, &digits(ring, &polys[0]), &[(3, &key)]).unwrap();
        acc.into()
    });
    add(&["product_sums"], &[values, values, values], |ring, polys| {
        let [a, b, factor] = taken(polys);
        ring.product_sums(&[[&a, &b]], &[&[(0, factor)]]).unwrap().into_iter().flatten().collect()
    });
    add(&["hoisted_product_sums", "only_digit", "into_subring"], &[key; 6], |ring, polys| {
        let [digit, body, mask, first, second, factor] = taken(polys);
        let mut builder = ring.gadget_key_builder(CHAIN, KeyRows::One).unwrap();
        builder.push([&body, &mask]).unwrap();
        let (key, factor) = (builder.finish().unwrap(), ring.into_subring(factor, 1).unwrap());
        let (digit, sums) = (ring.only_digit(digit).unwrap(), vec![vec![(0, &factor)].into()]);
        let input = ImageInput { digits: &digit, added: [&first, &second] };
        let image = Image { input, key: Some(&key), galois: 5 };
        let sums = ring.hoisted_product_sums(&[image], sums).unwrap();
        sums.into_iter().flatten().collect()
    });
    add(&["sum_of_multiples"], &[values, values], |ring, polys| {
        vec![ring.sum_of_multiples(&[(&polys[0], 3), (&polys[1], -2)], Basis::chain(CHAIN)).unwrap()]
    });
    add(&["matrix_product"], &[values, values], |ring, polys| {
        let matrix = ring.real_matrix(Basis::chain(CHAIN), 3, 2, |r, c| (r + c) as i128);
        ring.matrix_product(&matrix, &[&polys[0], &polys[1]]).unwrap()
    });
    add(&["table_factors", "table_sums"], &[values, values], |ring, polys| {
        let shape = TableShape { rows: 1, columns: 2, chain: CHAIN };
        let words = vec![7; ring.table_words(shape)];
        let factors = ring.table_factors(CHAIN, &[[&polys[0], &polys[1]]]).unwrap();
        let copy = DeviceCopy::default();
        let sums = ring.table_sums(shape, Stored::new(&words, &copy), 0..2, &factors).unwrap();
        sums.into_iter().flatten().collect()
    });
    add(&["orbit_sums"], &[values, values], |ring, polys| {
        let shape = OrbitShape { factors: 3, chain: CHAIN };
        let (words, copy) = (vec![7; 2 * ring.orbit_words(shape)], DeviceCopy::default());
        let keys = [&polys[0], &polys[1]].map(|key| ring.orbit_table(key).unwrap());
        let [first, second] = keys.each_ref().map(std::slice::from_ref);
        ring.orbit_sums(shape, Stored::new(&words, &copy), &[first, second]).unwrap()
    });
    add(&["digit_products"], &[values, values, values, values], |ring, polys| {
        let key = digit_key(ring, &polys[0], &polys[1]);
        let operands = vec![Difference { plus: Some(&polys[2]), minus: None }];
        let term = DigitTerm { operands, key: &key, plus: [Some(&polys[3]); 2], galois: 5 };
        ring.digit_products(&[term]).unwrap().into_iter().flatten().collect()
    });
    add(&["add_each"], &[values, values], |ring, polys| {
        let [a, b] = taken(polys);
        let mut sums = [a];
        ring.add_each(&mut sums, &[b]).unwrap();
        sums.into()
    });
    add(&["add_multiples"], &[values, values, values], |ring, polys| {
        let [a, b, factor] = taken(polys);
        let mut sums = [a];
        ring.add_multiples(&mut sums, &factor, &[&b]).unwrap();
        sums.into()
    });
    add(&["multiples"], &[values, values], |ring, polys| ring.multiples(&polys[0], &[&polys[1]]).unwrap());
    add(&["split_each"], &[values, values], |ring, polys| {
        let [a, b] = taken(polys);
        let (mut sums, mut differences, factor) = ([a], [b], ring.uniform(&Seed([6; 32]), 0, Basis::chain(CHAIN)));
        ring.split_each(&mut sums, &mut differences, &factor).unwrap();
        sums.into_iter().chain(differences).collect()
    });
    add(&["galois_sums", "galois_sum"], &[values], |ring, polys| {
        let sums = ring.galois_sums(&vec![polys[0].clone(); DEGREE]).unwrap();
        vec![ring.galois_sum(&sums, 5).unwrap()]
    });
    add(&["digit_value"], &[coefficients], |ring, polys| {
        let gadget = ring.digit_gadget(CHAIN, 9, 1).unwrap();
        vec![ring.digit_value(&ring.digits(gadget, &[&polys[0]]).unwrap()).unwrap()]
    });
    add(&["merge_from", "split_from"], &[coefficients, coefficients], |ring, polys| {
        let large = ring_of_degree(2 * DEGREE);
        let merged = large.merge_from(ring, &polys).unwrap();
        let mut results = ring.split_from(&large, &merged).unwrap();
        results.push(merged);
        results
    });
    add(&["pack_module_rows"], &[coefficients, coefficients], |ring, polys| {
        let rows = ring.module_rows(&[[&polys[0], &polys[1]]], 64).unwrap();
        let matrix = ring.real_matrix(Basis::chain(CHAIN), 2, rows.count(), |r, c| (r + c) as i128);
        let products = ring.module_product(&matrix, &rows).unwrap();
        let source = |row: usize| (row < 2).then_some(row);
        let (body, masks) = ring.pack_module_rows(&products, source).unwrap();
        [vec![body], masks].concat()
    });
    operations
}

fn operands(ring: &Ring, operation: &Operation) -> Vec<Poly> {
    let make = |(i, &(basis, domain)): (usize, &(Basis, Domain))| {
        let mut poly = ring.uniform(&Seed([1; 32]), i as u32, basis);
        if domain == Domain::Coefficient {
            ring.to_coefficients(&mut poly).unwrap();
        }
        poly
    };
    operation.operands.iter().enumerate().map(make).collect()
}

#[test]
fn results_are_secret_where_an_operand_is() {
    let ring = ring_of_degree(DEGREE);
    for operation in operations() {
        let methods = operation.methods;
        let public = (operation.run)(&ring, operands(&ring, &operation));
        assert!(!public.is_empty() && !public.iter().any(Poly::is_secret), "{methods:?} of public polynomials");
        for secret in 0..operation.operands.len() {
            let mut operands = operands(&ring, &operation);
            operands[secret].mark_secret();
            let results = (operation.run)(&ring, operands);
            assert!(results.iter().all(Poly::is_secret), "{methods:?} forgets that operand {secret} is secret");
        }
    }
}

/// Reads the source for every method that returns or changes a polynomial, and checks that none is missing above.
#[test]
fn every_operation_is_in_the_table() {
    const SOURCES: [&str; 17] = [
        include_str!("../../src/batch.rs"),
        include_str!("../../src/byte_table.rs"),
        include_str!("../../src/coefficients.rs"),
        include_str!("../../src/digits.rs"),
        include_str!("../../src/division.rs"),
        include_str!("../../src/fused.rs"),
        include_str!("../../src/gadget.rs"),
        include_str!("../../src/gadget_key.rs"),
        include_str!("../../src/hoisted.rs"),
        include_str!("../../src/matrix.rs"),
        include_str!("../../src/modulus_switch.rs"),
        include_str!("../../src/module_rows.rs"),
        include_str!("../../src/orbit.rs"),
        include_str!("../../src/product_sums.rs"),
        include_str!("../../src/ring.rs"),
        include_str!("../../src/subring.rs"),
        include_str!("../../src/table.rs"),
    ];
    /// Methods that make polynomials from integers, bytes or a seed alone. The last three are tested below.
    const FROM_NOTHING: [&str; 15] = [
        "zero",
        "uniform",
        "from_i32",
        "from_i64",
        "from_i128",
        "evaluate_i32",
        "evaluate_i64",
        "from_values",
        "read_residues",
        "read_some_residues",
        "complex_constant",
        "byte_sums",
        "evaluate_secret_i32",
        "evaluate_f64",
        "evaluate_subring_f64",
    ];
    const ALWAYS_SECRET: [&str; 2] = ["small_minus_uniform_product", "small_products"];
    // The builder that `gadget_key` uses, and the short form, which has a test of its own.
    const COVERED: [&str; 5] =
        ["gadget_key_builder", "seeded_gadget_key_builder", "push", "finish", "short_gadget_key"];
    let mut known: BTreeSet<&str> = operations().iter().flat_map(|operation| operation.methods).copied().collect();
    known.extend(FROM_NOTHING.into_iter().chain(ALWAYS_SECRET).chain(COVERED));
    let kinds = ["Poly", "RnsDigits", "GadgetDigits", "DigitKey", "GadgetKey"];
    let mut found = BTreeSet::new();
    for source in SOURCES {
        for declaration in source.split("    pub fn ").skip(1) {
            let signature = declaration.split('{').next().unwrap();
            let name = signature.split(['(', '<']).next().unwrap();
            let changes = signature.contains("&mut Poly") || signature.contains("&mut [Poly");
            let output = signature.split_once("->").map_or("", |(_, output)| output);
            // Accessors return references to existing polynomials.
            let makes = !output.contains("&Poly") && kinds.iter().any(|kind| output.contains(kind));
            if changes || makes {
                found.insert(name);
            }
        }
    }
    assert!(found.len() > 40, "{found:?}");
    let missing: Vec<_> = found.difference(&known).collect();
    assert!(missing.is_empty(), "operations that no test of secret marks covers: {missing:?}");
}

#[test]
fn copies_and_encryption_keep_secrets_until_they_are_declared_public() {
    let ring = ring_of_degree(DEGREE);
    let (basis, seed) = (Basis::chain(CHAIN), Seed([2; 32]));
    let small = vec![1; DEGREE];
    let public = ring.uniform(&seed, 0, basis);
    assert!(!public.clone().is_secret());

    // The small coefficients are an error or a secret, even if the polynomials are public.
    let mut body = ring.small_minus_uniform_product(&small, (&seed, 1), &public, basis).unwrap();
    assert!(body.is_secret() && body.clone().is_secret());
    let products = ring.small_products(&small, [&public, &public], [&small, &small], basis).unwrap();
    assert!(products.iter().all(Poly::is_secret));
    assert!(ring.evaluate_secret_i32(&small, basis).unwrap().is_secret());
    assert!(ring.evaluate_f64(&[0.5; DEGREE], 40, basis).unwrap().is_secret());
    assert!(!ring.evaluate_subring_f64(&[0.5; DEGREE / 16], 40, basis, 16).unwrap().is_secret(), "of public weights");

    body.declare_public();
    assert!(!body.is_secret() && !ring.add(&body, &public).unwrap().is_secret());
}

#[test]
fn short_forms_of_secret_keys_are_secret() {
    let primes: Vec<u32> = primes_descending(1 << 25, 1 << 27, 1 << 11).take(6).collect();
    let literal = RingLiteral {
        degree: DEGREE,
        kind: RingKind::Standard,
        chain: primes[..2].to_vec(),
        terminal: vec![],
        special: primes[2..].to_vec(),
        digit_len: 2,
    };
    let ring = Ring::new(literal, Backend::detect()).unwrap();
    let poly = |stream| ring.uniform(&Seed([1; 32]), stream, Basis::extended(2));
    for secret in [false, true] {
        let (mut body, mask) = (poly(0), poly(1));
        if secret {
            body.mark_secret();
        }
        let short = ring.short_gadget_key(&ring.gadget_key(2, &[[&body, &mask]]).unwrap()).unwrap();
        let factor = ring.uniform(&Seed([1; 32]), 2, Basis::chain(1));
        let products = ring.gadget_product(&factor, &short).unwrap();
        assert!(products.iter().all(|product| product.is_secret() == secret));
    }
}
