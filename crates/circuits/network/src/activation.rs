//! Functions of encrypted values.

use std::collections::{BTreeMap, BTreeSet};

use unspoken_ckks::{Arithmetic, CkksError, Complex64, Polynomial, SlotPolynomials, evaluate_slots, evaluate_to_scale};

use crate::design::Activation;
use crate::layout::Layout;

/// A function with its polynomials in the slots of one layout.
pub(crate) enum Prepared {
    /// A power by products.
    Power(u32),
    /// One polynomial for all slots.
    Same(Polynomial),
    /// The polynomials of the slots of each vector.
    Slots(Vec<SlotPolynomials>),
}

impl Prepared {
    pub(crate) fn new(activation: &Activation, layout: &Layout) -> Result<Self, CkksError> {
        Ok(match activation {
            Activation::Power(n) => Prepared::Power(*n),
            Activation::Same(polynomial) => Prepared::Same(polynomial.clone()),
            Activation::Each(all) => {
                Prepared::Slots((0..layout.vectors()).map(|v| of_slots(all, layout, v)).collect::<Result<_, _>>()?)
            }
        })
    }

    /// Levels that it uses.
    pub(crate) fn depth(&self) -> usize {
        match self {
            Prepared::Power(n) => n.next_power_of_two().trailing_zeros() as usize,
            Prepared::Same(polynomial) => polynomial.depth(),
            Prepared::Slots(vectors) => vectors.iter().map(SlotPolynomials::depth).max().unwrap_or(0),
        }
    }

    /// Bytes of memory of the coefficients of slots.
    pub(crate) fn prepared_bytes(&self, layout: &Layout) -> u64 {
        let Prepared::Slots(vectors) = self else { return 0 };
        let of_vector = |(index, vector): (usize, &SlotPolynomials)| {
            let coefficients = ((layout.elements(index).len() + 2) * size_of::<Complex64>()) << vector.depth();
            coefficients + layout.period() * layout.stride() * size_of::<usize>()
        };
        vectors.iter().enumerate().map(of_vector).sum::<usize>() as u64
    }

    /// The function of one vector of a value, at scale `scale` unless it is a power.
    pub(crate) fn evaluate<A: Arithmetic>(
        &self,
        arithmetic: &A,
        index: usize,
        input: &A::Vector,
        scale: f64,
    ) -> Result<A::Vector, CkksError> {
        match self {
            Prepared::Power(n) => power(arithmetic, input, *n),
            Prepared::Same(polynomial) => evaluate_to_scale(arithmetic, input, polynomial, scale),
            Prepared::Slots(vectors) => evaluate_slots(arithmetic, input, &vectors[index], scale),
        }
    }
}

/// The polynomials of one vector. One of the largest degree is always there, so that all vectors take the same levels.
fn of_slots(all: &[Polynomial], layout: &Layout, vector: usize) -> Result<SlotPolynomials, CkksError> {
    let largest = all.iter().max_by_key(|polynomial| polynomial.degree());
    let elements = layout.elements(vector);
    let mut own: Vec<Polynomial> = elements.iter().map(|(element, _)| all[*element].clone()).collect();
    own.extend(largest.cloned());
    own.push(Polynomial::chebyshev(&[], -1.0, 1.0)?);
    let numbered = elements.iter().enumerate().map(|(index, (_, position))| (*position, index));
    let slots = layout.in_all_rows(numbered, own.len() - 1);
    SlotPolynomials::new(&own, slots)
}

/// `input^n` by the fewest levels: each power is the product of the two halves of its exponent.
fn power<A: Arithmetic>(arithmetic: &A, input: &A::Vector, n: u32) -> Result<A::Vector, CkksError> {
    let (mut wanted, mut rest) = (BTreeSet::new(), vec![n]);
    while let Some(k) = rest.pop() {
        if k > 1 && wanted.insert(k) {
            rest.extend([k.div_ceil(2), k / 2]);
        }
    }
    let mut powers: BTreeMap<u32, A::Vector> = BTreeMap::from([(1, input.clone())]);
    for k in wanted {
        let product = arithmetic.multiply(&powers[&k.div_ceil(2)], &powers[&(k / 2)])?;
        powers.insert(k, product);
    }
    powers.remove(&n).ok_or(CkksError::Shape { operation: "power", found: n as usize, needed: "1 or more".into() })
}
