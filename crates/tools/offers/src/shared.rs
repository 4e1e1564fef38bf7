//! Options that several kinds of offers have, and what is logged about them.

use std::str::FromStr;

use unspoken_lookup::{LookupPlan, Precision};
use unspoken_protocol::{CkksServerHalf, ServerHalf};
use unspoken_query::QueryForm;
use unspoken_rlwe::KeyStorage;
use unspoken_server::Applications;

use crate::kind::KindOption;
use crate::offer::Offer;

/// Options shared by several kinds.
pub const QUERY: KindOption = KindOption {
    name: "query",
    about: "form of the queries: direct (125 bytes a token and subtable), compact (4 bytes, and a bootstrap of one to \
            three seconds on the service), or one-hot (the baseline) [default: direct]",
};
pub const PLAN: KindOption = KindOption {
    name: "plan",
    about: "auto, paper, complex-first, lazy-last, or baby-giant-M for a power of two M [default: auto]",
};

pub const ERROR: KindOption = KindOption {
    name: "error",
    about: "largest error of a number of an answer, in the model's units, such as 2^-12 or 0.001: the cheapest preset \
            and plan whose simulated error is smaller are taken, which takes some seconds for each preset \
            [default: what preset and plan give]",
};

pub const SHORT_QUERIES: KindOption = KindOption {
    name: "short_queries",
    about: "short queries for few questions, on or off. Direct queries: on takes more keys, once, and the length of a \
            query shows the number of questions, up to a factor of two. Compact queries: on are short ones of up to \
            4096 tokens times subtables and under 1 GB of keys in memory, off are full ones, eight times as large, \
            and 3 GB of keys [default: on]",
};

pub const KEYS: KindOption = KindOption {
    name: "keys",
    about: "storage of clients' keys in memory: expanded, or seeded (half of the memory, slower answers) \
            [default: expanded]",
};

/// Adds an application of encrypted vectors, with the storage of keys given in the offer.
pub fn add_with_keys(
    offer: &Offer,
    half: impl CkksServerHalf + ServerHalf,
    applications: Applications,
) -> anyhow::Result<Applications> {
    offer.add(half.with_key_storage(key_storage(offer)?), applications)
}

/// The storage of keys given in the offer.
pub fn key_storage(offer: &Offer) -> anyhow::Result<KeyStorage> {
    match offer.option::<String>("keys")?.as_deref() {
        None | Some("expanded") => Ok(KeyStorage::Expanded),
        Some("seeded") => Ok(KeyStorage::Seeded),
        Some(other) => anyhow::bail!("option keys is {other:?}; it can be expanded or seeded"),
    }
}

/// Whether the offer wants short queries.
pub fn short_queries(offer: &Offer) -> anyhow::Result<bool> {
    match offer.option::<String>("short_queries")?.as_deref() {
        None | Some("on") => Ok(true),
        Some("off") => Ok(false),
        Some(other) => anyhow::bail!("option short_queries is {other:?}; it can be on or off"),
    }
}

/// Logs whether clients may send short queries.
pub fn report_short_queries(offer: &Offer, (form, wanted): (QueryForm, bool), offered: bool) {
    let application = offer.name();
    match (form, wanted, offered) {
        (QueryForm::Compact, true, _) => tracing::info!(application, "clients send short compact queries"),
        (_, _, true) => tracing::info!(application, "clients with few questions send short queries"),
        (_, true, false) => tracing::info!(application, "no short queries: the form or precision does not allow them"),
        (_, false, false) => {}
    }
}

/// The largest error of a number of an answer: a positive number, or a power of two such as 2^-12.
#[derive(Clone, Copy, Debug)]
pub struct LargestError(pub f64);

impl FromStr for LargestError {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = match text.strip_prefix("2^") {
            Some(exponent) => exponent.parse().map(f64::exp2).ok(),
            None => text.parse().ok(),
        };
        let positive = number.filter(|error: &f64| *error > 0.0 && error.is_finite());
        positive.map(LargestError).ok_or_else(|| "needed a positive number, such as 2^-12 or 0.001".into())
    }
}

/// Logs the preset and the plan that were chosen for an error.
pub fn report_choice(offer: &Offer, LargestError(error): LargestError, half: &impl CkksServerHalf) {
    let (preset, plan) = (half.header().parameters().name(), half.header().plan());
    tracing::info!(application = offer.name(), preset, plan, "chosen for an error of at most {error:.1e}");
}

/// The plan given in the offer; `None` if the planner is to choose.
pub fn chosen_plan(offer: &Offer) -> anyhow::Result<Option<LookupPlan>> {
    match offer.option::<String>("plan")?.as_deref() {
        None | Some("auto") => Ok(None),
        Some(_) => offer.option("plan"),
    }
}

/// Logs how a table's numbers compare with the error of the encryption.
pub fn report_precision(offer: &Offer, precision: Option<Precision>) {
    let application = offer.name();
    match precision {
        None => tracing::info!(application, "the error bound of compact queries is not known"),
        Some(precision) if precision.is_low() => tracing::warn!(
            application,
            "{precision}: answers that depend on them may be wrong; use a preset with a larger scale (unspoken \
             params), or a table without such large differences"
        ),
        Some(precision) => tracing::info!(application, "{precision}"),
    }
}
