//! Text classifiers.

use unspoken_classify::{ClassifyOptions, ClassifyServer};
use unspoken_fasttext::ScoreTables;
use unspoken_query::QueryForm;
use unspoken_server::Applications;

use crate::kinds::{Kind, KindOption};
use crate::offer::Offer;
use crate::preset::{for_scores, secure};
use crate::publish::{Halves, PUBLISH, publish};
use crate::shared::{
    ERROR, KEYS, LargestError, PLAN, QUERY, SHORT_QUERIES, add_with_keys, chosen_plan, report_choice, report_precision,
    report_short_queries, short_queries,
};

pub const KIND: Kind = Kind {
    name: "classify",
    about: "a text classifier; DIR has its server half, as `unspoken train` makes it",
    default_name: "classify/text",
    options: &[
        QUERY,
        KindOption {
            name: "preset",
            about: "parameter set [default: n15_depth8_scale50, with query=compact n16_query_depth11_scale40, with \
                    short_queries=off also n16_boot_depth9_scale50]",
        },
        PLAN,
        ERROR,
        SHORT_QUERIES,
        KEYS,
        PUBLISH,
    ],
    load,
};

const HALVES: Halves = Halves {
    client: &["client.json", "client.safetensors"],
    optional: &[],
    server: &["server.json", "server.safetensors"],
};

fn load(offer: &Offer, applications: Applications) -> anyhow::Result<Applications> {
    let query = offer.option("query")?.unwrap_or(QueryForm::Direct);
    let small = short_queries(offer)?;
    let error = offer.option::<LargestError>("error")?;
    let preset = offer.option::<String>("preset")?.map(|preset| secure(&preset)).transpose()?;
    let plan = chosen_plan(offer)?;
    let tables = ScoreTables::load(offer.path())?;
    let options = ClassifyOptions { plan, query, short_queries: small };
    let classifier = match (error, preset) {
        (Some(error), preset) => {
            let classifier = ClassifyServer::with_error(&tables, error.0, preset.as_ref(), &options)?;
            report_choice(offer, error, &classifier);
            classifier
        }
        (None, Some(parameters)) => ClassifyServer::new(&tables, &parameters, &options)?,
        (None, None) => ClassifyServer::new(&tables, &secure(for_scores(query, small))?, &options)?,
    };
    report_short_queries(offer, (query, small), classifier.description().has_short_queries());
    report_precision(offer, classifier.precision());
    publish(offer, &HALVES, add_with_keys(offer, classifier, applications)?)
}
