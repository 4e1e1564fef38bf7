//! Compressed embedding tables.

use unspoken_embed::{EmbedOptions, EmbedServer};
use unspoken_embedding::Subtables;
use unspoken_query::QueryForm;
use unspoken_server::Applications;

use super::kinds::{Kind, KindOption};
use super::offer::Offer;
use super::preset::secure;
use super::{
    KEYS, PLAN, QUERY, SMALL, add_with_keys, chosen_plan, report_precision, report_small_queries, small_queries,
};

pub const KIND: Kind = Kind {
    name: "embed",
    about: "an embedding table; DIR has its server half, as `unspoken embed compress` makes it",
    default_name: "embed/table",
    options: &[
        QUERY,
        KindOption { name: "preset", about: "parameter set [default: the cheapest one that fits]" },
        PLAN,
        SMALL,
        KEYS,
    ],
    load,
};

fn load(offer: &Offer, applications: Applications) -> anyhow::Result<Applications> {
    let query = offer.option("query")?.unwrap_or(QueryForm::Direct);
    let small = small_queries(offer)?;
    let options = EmbedOptions { plan: chosen_plan(offer)?, query, small_queries: small, ..EmbedOptions::default() };
    let preset = offer.option::<String>("preset")?.map(|preset| secure(&preset)).transpose()?;
    let subtables = Subtables::load(offer.path())?;
    let parameters = match preset {
        Some(parameters) => parameters,
        None => EmbedServer::best_preset(subtables.shape(), &options)?,
    };
    let server = EmbedServer::new(&subtables, &parameters, &options)?;
    report_precision(offer, server.precision());
    report_small_queries(offer, (query, small), server.description().has_small_queries());
    add_with_keys(offer, server, applications)
}
