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
mod subject;

use self::subject::Subject;
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
const PREFILL: &str = "prefill";
const STEPS: &str = "steps";

pub(crate) const PARTS: [&str; 10] =
    [PRODUCTS, SLIM, ATTENTION, PASSES, SMALL_CHAIN, CHAIN, BLOCKS, SHARE, PREFILL, STEPS];

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
        run_chain(harness, chain::SMALL)?;
    }
    if harness.includes(CHAIN) {
        run_chain(harness, if quick { chain::QUICK } else { chain::FULL })?;
    }
    if harness.includes(BLOCKS) {
        for case in if quick { blocks::QUICK } else { blocks::FULL } {
            blocks::run(harness, case)?;
        }
    }
    if harness.includes(SHARE) {
        blocks::run_share(harness, if quick { &blocks::QUICK[0] } else { &blocks::FULL[0] })?;
    }
    for (part, case) in [(PREFILL, chain::PREFILL), (STEPS, chain::STEPS)] {
        run_prepared(harness, part, case)?;
    }
    harness.peak_memory("keys and prepared data of the largest part");
    Ok(())
}

fn run_chain(harness: &mut Harness<'_>, case: chain::Case) -> Result<(), BenchError> {
    harness.progress("stories260K: stories, polynomials");
    let subject = Subject::stories(&harness.options.root, case.chunk)?;
    chain::run(harness, case, subject)
}

/// Runs a part that needs a preparation and a text: only if they are named.
fn run_prepared(harness: &mut Harness<'_>, part: &'static str, case: chain::Case) -> Result<(), BenchError> {
    let options = harness.options;
    let (Some(directory), Some(text)) = (&options.preparation, &options.text) else {
        return match options.only.iter().any(|only| only == part) {
            true => Err(BenchError::Prepared { part }),
            false => Ok(()),
        };
    };
    if !harness.includes(part) {
        return Ok(());
    }
    chain::run(harness, case, Subject::prepared(directory, text)?)
}
