//! Compressed embedding tables.

use unspoken_embed::{EmbedOptions, EmbedServer};
use unspoken_embedding::Subtables;
use unspoken_protocol::ApplicationDescription;
use unspoken_query::QueryForm;
use unspoken_server::Applications;

use crate::kind::{ClientKind, Kind, KindOption, Serving};
use crate::offer::Offer;
use crate::preset::secure;
use crate::shared::{
    ERROR, KEYS, LargestError, PLAN, QUERY, SHORT_QUERIES, add_with_keys, chosen_plan, report_choice, report_precision,
    report_short_queries, short_queries,
};

pub const KIND: Kind = Kind {
    name: "embed",
    about: "an embedding table; DIR has its server half, as `unspoken embed compress` makes it",
    default_name: "embed/table",
    options: &[
        QUERY,
        KindOption { name: "preset", about: "parameter set [default: the cheapest one that fits]" },
        PLAN,
        ERROR,
        SHORT_QUERIES,
        KEYS,
    ],
    serving: Serving::PLAIN,
    clients: &[ClientKind {
        wire: <unspoken_embed::Description as ApplicationDescription>::PROTOCOL.kind,
        kind: "embed",
        about: "private embedding lookup",
        command: "unspoken embed ask",
        class: "unspoken.EmbeddingClient",
    }],
    load,
};

fn load(offer: &Offer, applications: Applications) -> anyhow::Result<Applications> {
    let query = offer.option("query")?.unwrap_or(QueryForm::Direct);
    let short = short_queries(offer)?;
    let options = EmbedOptions { plan: chosen_plan(offer)?, query, short_queries: short, ..EmbedOptions::default() };
    let preset = offer.option::<String>("preset")?.map(|preset| secure(&preset)).transpose()?;
    let error = offer.option::<LargestError>("error")?;
    let subtables = Subtables::load(offer.path())?;
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
    report_short_queries(offer, (query, short), server.description().has_short_queries());
    add_with_keys(offer, server, applications)
}
