//! The llama suite: the linear algebra and the polynomials of encrypted Llama models, whole passes, and blocks of the
//! published models.
//!
//! - **Slim polynomials** (`--only slim`): a polynomial of degree `2^k` as sums of squares, of the depth that is
//!   predicted to be fastest, beside `evaluate` at degree `2^k - 1`, which takes the same number of levels. The
//!   function is `1 / sqrt(x)`, and all results are compared with the polynomial.
//! - **Attention** (`--only attention`) has heads that fill a ciphertext, each with one token for each channel. Ours is
//!   what a pass does: it arranges keys and values, multiplies queries by keys and weights by values, with all heads in
//!   one vector. All ways end at the same level, and each is decrypted and compared with products in the clear.
//!   Products of matrices are the planner's choice of `unspoken-encrypted-matrix` with at most 200 keys; they transpose
//!   the keys first. With a head per ciphertext, one head is measured and multiplied by the number of heads. Linear
//!   transformations by diagonals multiply by the public cache with baby steps and giant steps. Their diagonals are
//!   encoded when they are used, as ours are, or before, which needs `params.kept_bytes` for each layer. What the
//!   public tokens add to ours is a difference of two measurements. At real parameters each way is measured once, after
//!   a measurement that is not counted.
//! - **Passes and chains** (`--only passes`, `--only chain`) run stories260K, with a preparation that the suite makes
//!   from stories of the model, as `unspoken llama prepare` does. They run on all cores. CPU seconds are summed over
//!   all threads: on a machine with other load they are steadier than seconds. The bootstraps of a step belong to its
//!   phase. Key switches are the simulator's counts, and `params.predicted_seconds` is the prediction of the engine's
//!   nominal cost model for one AVX2 core. The chain runs client and service of `unspoken-chat` in one process, over
//!   their messages; seconds are the service's. The logits after all private and generated tokens are compared with the
//!   logits of the model in the clear.
//! - **`--only small-chain`** is the same chain in a small insecure ring with the same scale and levels, in chunks of
//!   eight tokens. **`--only prefill`** and **`--only steps`** are chains of a model of your own: a chunk of 64 tokens
//!   of the prompt, and passes of eight tokens, each after 256 public tokens. They need `--preparation DIR --text
//!   FILE`; a run of the whole suite without these options leaves them out.
//! - **Blocks** (`--only blocks`) are counted, not run: a simulator without values runs the pass of one layer with
//!   random weights, and `predicted_*` are seconds of one core by the nominal cost model. Embeddings, scores and gates
//!   have about the spread of real models after rotation, and `params.degrees` are the degrees that follow. Generation
//!   is a pass of eight tokens, the smallest chunk, after the public tokens and 16 private chunks.
//! - **A share of a block** (`--only share`) is run, on all cores: the full width and all tokens, but one eighth of the
//!   heads and of the feed-forward network. Its attention is one eighth of a block's; its norms are whole. It is
//!   skipped if it needs more memory than there is.

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

pub(crate) fn run(harness: &mut Harness<'_>) -> anyhow::Result<()> {
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

fn run_chain(harness: &mut Harness<'_>, case: chain::Case) -> anyhow::Result<()> {
    harness.progress("stories260K: stories, polynomials");
    let subject = Subject::stories(&harness.options.root, case.chunk)?;
    chain::run(harness, case, subject)
}

/// Runs a part that needs a preparation and a text: only if they are named.
fn run_prepared(harness: &mut Harness<'_>, part: &'static str, case: chain::Case) -> anyhow::Result<()> {
    let options = harness.options;
    let (Some(directory), Some(text)) = (&options.preparation, &options.text) else {
        return match options.only.iter().any(|only| only == part) {
            true => {
                anyhow::bail!("part {part}: found no preparation or no text, needed --preparation DIR and --text FILE")
            }
            false => Ok(()),
        };
    };
    if !harness.includes(part) {
        return Ok(());
    }
    chain::run(harness, case, Subject::prepared(directory, text)?)
}
