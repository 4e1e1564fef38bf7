//! Compressed embedding tables, and linear heads over them.

use std::path::{Path, PathBuf};

use anyhow::Context;
use unspoken_ckks::CkksParameters;
use unspoken_embed::{EmbedOptions, EmbedServer};
use unspoken_embedding::{LinearHead, Shape, Subtables};
use unspoken_layer::{LayerOptions, LayerServer};
use unspoken_protocol::CkksServerHalf;
use unspoken_query::QueryForm;
use unspoken_server::Applications;

use crate::kinds::{Kind, KindOption};
use crate::offer::Offer;
use crate::preset::{for_scores, secure};
use crate::shared::{
    ERROR, KEYS, LargestError, PLAN, QUERY, SHORT_QUERIES, add_with_keys, chosen_plan, report_choice, report_precision,
    report_short_queries, short_queries,
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
        ERROR,
        SHORT_QUERIES,
        KEYS,
    ],
    load,
};

fn load(offer: &Offer, applications: Applications) -> anyhow::Result<Applications> {
    let query = offer.option("query")?.unwrap_or(QueryForm::Direct);
    let small = short_queries(offer)?;
    let options = EmbedOptions { plan: chosen_plan(offer)?, query, short_queries: small, ..EmbedOptions::default() };
    let preset = offer.option::<String>("preset")?.map(|preset| secure(&preset)).transpose()?;
    let error = offer.option::<LargestError>("error")?;
    let subtables = Subtables::load(offer.path())?;
    if let Some(path) = offer.option::<PathBuf>("layer")? {
        return load_layer(offer, applications, &subtables, &path, &options, (preset, error))
            .with_context(|| format!("option layer: cannot use {}", path.display()));
    }
    let server = match (error, preset) {
        (Some(error), preset) => {
            let server = EmbedServer::with_error(&subtables, error.0, preset.as_ref(), &options)?;
            report_choice(offer, error, &server);
            server
        }
        (None, Some(parameters)) => EmbedServer::new(&subtables, &parameters, &options)?,
        (None, None) => {
            let parameters = EmbedServer::best_preset(subtables.shape(), &options)?;
            EmbedServer::new(&subtables, &parameters, &options)?
        }
    };
    if server.description().strided_tokens() > 0 {
        let (application, tokens) = (offer.name(), server.description().strided_tokens());
        tracing::info!(application, tokens, "queries of few tokens are answered in one ciphertext");
    }
    report_precision(offer, server.precision());
    report_short_queries(offer, (query, small), server.description().has_short_queries());
    add_with_keys(offer, server, applications)
}

/// Adds the head in a file over the table.
fn load_layer(
    offer: &Offer,
    applications: Applications,
    subtables: &Subtables,
    path: &Path,
    table_options: &EmbedOptions,
    (preset, error): (Option<CkksParameters>, Option<LargestError>),
) -> anyhow::Result<Applications> {
    let head = LinearHead::load(path)?;
    let EmbedOptions { plan, query, short_queries, .. } = *table_options;
    let options = LayerOptions { plan, query, short_queries };
    let server = match (error, preset) {
        (Some(error), preset) => {
            let server = LayerServer::with_error(&head, subtables, error.0, preset.as_ref(), &options)?;
            report_choice(offer, error, &server);
            server
        }
        (None, Some(parameters)) => LayerServer::new(&head, subtables, &parameters, &options)?,
        (None, None) => {
            let parameters = match query {
                // The lookup has one row for each class. Short queries take complex slots, as the scores of a head do.
                QueryForm::Direct => {
                    let shape = Shape { width: head.classes().len(), ..subtables.shape() };
                    EmbedServer::best_preset(shape, &EmbedOptions { short_queries: true, ..*table_options })?
                }
                QueryForm::Compact | QueryForm::OneHot => secure(for_scores(query, short_queries))?,
            };
            LayerServer::new(&head, subtables, &parameters, &options)?
        }
    };
    let (application, classes, max_tokens) = (offer.name(), head.classes().len(), head.max_tokens());
    let (preset, batch) = (server.header().parameters().name(), server.description().batch());
    tracing::info!(application, classes, max_tokens, preset, batch, "a linear head over embeddings");
    report_precision(offer, server.precision());
    report_short_queries(offer, (query, short_queries), server.description().has_short_queries());
    add_with_keys(offer, server, applications)
}
