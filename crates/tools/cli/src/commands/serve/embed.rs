//! Compressed embedding tables, and linear heads over them.

use std::path::{Path, PathBuf};

use anyhow::Context;
use unspoken_ckks::CkksParameters;
use unspoken_embed::{EmbedOptions, EmbedServer};
use unspoken_embedding::{LinearHead, Shape, Subtables};
use unspoken_layer::{LayerOptions, LayerServer};
use unspoken_query::QueryForm;
use unspoken_server::Applications;

use super::kinds::{Kind, KindOption};
use super::offer::Offer;
use super::preset::{COMPACT_PRESET, DEFAULT_PRESET, secure};
use super::{
    KEYS, PLAN, QUERY, SMALL, add_with_keys, chosen_plan, report_precision, report_small_queries, small_queries,
};

pub const KIND: Kind = Kind {
    name: "embed",
    about: "an embedding table, or with the option layer a linear head over it; DIR has the table's server half, as \
            `unspoken embed compress` makes it",
    default_name: "embed/table",
    options: &[
        KindOption {
            name: "layer",
            about: "file of a linear head, as `unspoken embed train` makes it: clients get the scores of texts, and no \
                    embeddings (`unspoken embed classify`)",
        },
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
    if let Some(path) = offer.option::<PathBuf>("layer")? {
        return load_layer(offer, applications, &subtables, &path, &options, preset)
            .with_context(|| format!("option layer: cannot use {}", path.display()));
    }
    let parameters = match preset {
        Some(parameters) => parameters,
        None => EmbedServer::best_preset(subtables.shape(), &options)?,
    };
    let server = EmbedServer::new(&subtables, &parameters, &options)?;
    report_precision(offer, server.precision());
    report_small_queries(offer, small, server.description().has_small_queries());
    add_with_keys(offer, server, applications)
}

/// Adds the head in a file over the table.
fn load_layer(
    offer: &Offer,
    applications: Applications,
    subtables: &Subtables,
    path: &Path,
    table_options: &EmbedOptions,
    preset: Option<CkksParameters>,
) -> anyhow::Result<Applications> {
    let head = LinearHead::load(path)?;
    let EmbedOptions { plan, query, small_queries, .. } = *table_options;
    let parameters = match (preset, query) {
        (Some(parameters), _) => parameters,
        (None, QueryForm::Compact) => secure(COMPACT_PRESET)?,
        (None, QueryForm::OneHot) => secure(DEFAULT_PRESET)?,
        (None, QueryForm::Direct) => {
            // The lookup has one row for each class. Small queries take complex slots, as the scores of a head do.
            let shape = Shape { width: head.classes().len(), ..subtables.shape() };
            EmbedServer::best_preset(shape, &EmbedOptions { small_queries: true, ..*table_options })?
        }
    };
    let server = LayerServer::new(&head, subtables, &parameters, &LayerOptions { plan, query, small_queries })?;
    let (application, classes, max_tokens) = (offer.name(), head.classes().len(), head.max_tokens());
    let (preset, batch) = (parameters.name(), server.description().batch());
    tracing::info!(application, classes, max_tokens, preset, batch, "a linear head over embeddings");
    report_precision(offer, server.precision());
    report_small_queries(offer, small_queries, server.description().has_small_queries());
    add_with_keys(offer, server, applications)
}
