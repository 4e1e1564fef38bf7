//! The llama suite: the linear algebra and the polynomials of encrypted Llama models, whole passes, and blocks of the
//! published models.

mod agreement;
mod attention;
mod blocks;
mod chain;
mod client;
mod passes;
mod phases;
mod products;
mod random;
mod slim;
mod stories;

use crate::error::BenchError;
use crate::harness::Harness;

const PRODUCTS: &str = "products";
const SLIM: &str = "slim";
const ATTENTION: &str = "attention";
const PASSES: &str = "passes";
const SMALL_CHAIN: &str = "small-chain";
const CHAIN: &str = "chain";
const BLOCKS: &str = "blocks";
const SHARE: &str = "share";

pub(crate) const PARTS: [&str; 8] = [PRODUCTS, SLIM, ATTENTION, PASSES, SMALL_CHAIN, CHAIN, BLOCKS, SHARE];

pub(crate) fn run(harness: &mut Harness<'_>) -> Result<(), BenchError> {
    let quick = harness.options.quick;
    if harness.includes(PRODUCTS) {
        for case in if quick { products::QUICK } else { products::FULL } {
            products::run(harness, *case)?;
        }
    }
    if harness.includes(SLIM) {
        slim::run(harness, if quick { slim::QUICK } else { slim::FULL })?;
    }
    if harness.includes(ATTENTION) {
        attention::run(harness, &if quick { attention::QUICK } else { attention::FULL })?;
    }
    if harness.includes(PASSES) {
        passes::run(harness, if quick { passes::QUICK } else { passes::FULL })?;
    }
    // The quick chain is one in a small ring.
    if harness.includes(SMALL_CHAIN) && !quick {
        chain::run(harness, chain::SMALL)?;
    }
    if harness.includes(CHAIN) {
        chain::run(harness, if quick { chain::QUICK } else { chain::FULL })?;
    }
    if harness.includes(BLOCKS) {
        for case in if quick { blocks::QUICK } else { blocks::FULL } {
            blocks::run(harness, case)?;
        }
    }
    if harness.includes(SHARE) {
        blocks::run_share(harness, if quick { &blocks::QUICK[0] } else { &blocks::FULL[0] })?;
    }
    harness.peak_memory("keys and prepared data of the largest part");
    Ok(())
}
