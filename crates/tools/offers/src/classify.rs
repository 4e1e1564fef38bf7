//! Text classifiers: fastText models, and linear heads over compressed embedding tables.

use std::path::{Path, PathBuf};

use anyhow::Context;
use unspoken_ckks::CkksParameters;
use unspoken_classify::{
    ClassifyOptions, FastText, Head, HeadTables, Kind as ModelKind, ModelTables, ScoreDescription, ScoreServer,
};
use unspoken_embed::{EmbedOptions, EmbedServer};
use unspoken_embedding::{LinearHead, Shape, Subtables};
use unspoken_fasttext::ScoreTables;
use unspoken_protocol::ApplicationDescription;
use unspoken_query::QueryForm;
use unspoken_server::Applications;

use crate::kind::{ClientKind, Kind, KindOption, Serving};
use crate::offer::Offer;
use crate::preset::{for_scores, secure};
use crate::publish::{Halves, PUBLISH, publish};
use crate::shared::{
    ERROR, KEYS, LargestError, PLAN, QUERY, SHORT_QUERIES, add_with_keys, chosen_plan, report_choice, report_precision,
    report_short_queries, short_queries,
};

pub const KIND: Kind = Kind {
    name: "classify",
    about: "a text classifier; DIR has the server half of a model, as `unspoken train` makes it, or with the option \
            head of an embedding table, as `unspoken embed compress` makes it",
    default_name: "classify/text",
    options: &[
        KindOption {
            name: "head",
            about: "file of a linear head over the table in DIR, as `unspoken embed train` makes it: texts are \
                    classified by their mean embedding",
        },
        QUERY,
        KindOption {
            name: "preset",
            about: "parameter set [default: n15_depth8_scale50, with query=compact n16_query_depth11_scale40, with \
                    short_queries=off also n16_boot_depth10_scale50; with a head the cheapest one that fits]",
        },
        PLAN,
        ERROR,
        SHORT_QUERIES,
        KEYS,
        PUBLISH,
    ],
    serving: Serving::PLAIN,
    clients: &[
        ClientKind {
            wire: ScoreDescription::<FastText>::PROTOCOL.kind,
            kind: "classify",
            about: "private text classification",
            command: "unspoken classify",
            class: "unspoken.ClassifyClient",
        },
        ClientKind {
            wire: ScoreDescription::<Head>::PROTOCOL.kind,
            kind: "classify-by-head",
            about: "private text classification by a head over embeddings",
            command: "unspoken classify",
            class: "unspoken.ClassifyClient",
        },
    ],
    load,
};

const HALVES: Halves = Halves {
    client: &["client.json", "client.safetensors"],
    optional: &[],
    server: &["server.json", "server.safetensors"],
};

/// What an offer says of precision and parameters.
struct Chosen {
    error: Option<LargestError>,
    preset: Option<CkksParameters>,
}

fn load(offer: &Offer, applications: Applications) -> anyhow::Result<Applications> {
    let query = offer.option("query")?.unwrap_or(QueryForm::Direct);
    let options = ClassifyOptions { plan: chosen_plan(offer)?, query, short_queries: short_queries(offer)? };
    // Before anything is loaded.
    let chosen = Chosen {
        error: offer.option("error")?,
        preset: offer.option::<String>("preset")?.map(|preset| secure(&preset)).transpose()?,
    };
    if let Some(path) = offer.option::<PathBuf>("head")? {
        return load_head(offer, applications, &path, &options, &chosen)
            .with_context(|| format!("option head: cannot use {}", path.display()));
    }
    let tables = ScoreTables::load(offer.path())?;
    let server = server(offer, &tables, (&options, &chosen), || secure(for_scores(query, options.short_queries)))?;
    publish(offer, &HALVES, add_with_keys(offer, server, applications)?)
}

/// Adds the head in a file over the table of the offer.
fn load_head(
    offer: &Offer,
    applications: Applications,
    path: &Path,
    options: &ClassifyOptions,
    chosen: &Chosen,
) -> anyhow::Result<Applications> {
    anyhow::ensure!(offer.option::<String>("publish")?.is_none(), "option publish: a table with a head has none");
    let subtables = Subtables::load(offer.path())?;
    let head = LinearHead::load(path)?;
    let &ClassifyOptions { plan, query, short_queries } = options;
    let default = || match query {
        // The lookup has one row for each class. Short queries take complex slots, as the scores of a head do.
        QueryForm::Direct => {
            let shape = Shape { width: head.classes().len(), ..subtables.shape() };
            let options = EmbedOptions { plan, query, short_queries: true, ..EmbedOptions::default() };
            Ok(EmbedServer::best_preset(shape, &options)?)
        }
        QueryForm::Compact | QueryForm::OneHot => secure(for_scores(query, short_queries)),
    };
    let server = server(offer, &HeadTables::new(&head, &subtables)?, (options, chosen), default)?;
    let (application, classes, max_tokens) = (offer.name(), head.classes().len(), head.max_tokens());
    let (preset, batch) = (server.description().parameters().name(), server.description().batch());
    tracing::info!(application, classes, max_tokens, preset, batch, "a linear head over embeddings");
    add_with_keys(offer, server, applications)
}

/// The service's half of a model, with the preset or the error of the offer, or with a default preset.
fn server<K: ModelKind>(
    offer: &Offer,
    model: &impl ModelTables<Kind = K>,
    (options, chosen): (&ClassifyOptions, &Chosen),
    default: impl FnOnce() -> anyhow::Result<CkksParameters>,
) -> anyhow::Result<ScoreServer<K>> {
    let server = match (chosen.error, &chosen.preset) {
        (Some(error), preset) => {
            let server = ScoreServer::with_error(model, error.0, preset.as_ref(), options)?;
            report_choice(offer, error, &server);
            server
        }
        (None, Some(parameters)) => ScoreServer::new(model, parameters, options)?,
        (None, None) => ScoreServer::new(model, &default()?, options)?,
    };
    report_short_queries(offer, (options.query, options.short_queries), server.description().has_short_queries());
    report_precision(offer, server.precision());
    Ok(server)
}
