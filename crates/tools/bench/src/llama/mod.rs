//! The llama suite: the linear algebra of encrypted Llama models.

mod products;

use crate::error::BenchError;
use crate::harness::Harness;

const PRODUCTS: &str = "products";

pub(crate) const PARTS: [&str; 1] = [PRODUCTS];

pub(crate) fn run(harness: &mut Harness<'_>) -> Result<(), BenchError> {
    if harness.includes(PRODUCTS) {
        for case in if harness.options.quick { products::QUICK } else { products::FULL } {
            products::run(harness, *case)?;
        }
    }
    Ok(())
}
