//! The forms of query side by side: what the client sends, what the service works, what precision is left.

use unspoken_ckks::Preset;
use unspoken_query::QueryForm;

use super::data::Sample;
use super::plans::{Record, Shop};
use crate::error::BenchError;
use crate::row::{Metric, params};
use crate::session::Session;

/// Classifies one batch in each form, one after the other: keys and queries of the larger ones fill the memory.
pub(super) fn run(
    session: &mut Session<'_>,
    forms: &[(QueryForm, &str)],
    columns: usize,
    messages: usize,
) -> Result<(), BenchError> {
    let sample = Sample::with_columns(&session.options.root, messages, columns)?;
    for &(form, preset) in forms {
        session.note(format!("{form} queries, {preset}: keys and one batch"));
        let mut shop = Shop::of_form(&sample, Preset::find(preset)?, form)?;
        let full = shop.batch_size();
        let messages = &sample.messages[..full.min(sample.messages.len())];
        let mut record = Record::default();
        // The first batch meets cold memory.
        shop.classify(&session.single, session.clock(), messages)?;
        let batch = shop.classify(&session.single, session.clock(), messages)?;
        record.add(&sample, messages, full, batch)?;
        report(session, &sample, form, &shop, &record);
    }
    Ok(())
}

fn report(session: &mut Session<'_>, sample: &Sample, form: QueryForm, shop: &Shop, record: &Record) {
    let shape = sample.model.encoder().shape();
    let case = format!("fastText, {form} queries, {}", shop.preset());
    let params = || {
        params! {
            "preset": shop.preset(), "plan": shop.plan.to_string(), "data": sample.source, "columns": shape.columns,
            "subtables": shape.subtables, "tokens": shape.max_tokens, "messages_per_query": shop.batch_size(),
        }
    };
    let tokens = (shop.batch_size() * shape.max_tokens) as f64;
    let bytes = record.query_bytes as f64 / tokens;
    session.fact(Metric::less("form_bytes_per_token", "bytes"), &case, bytes, None, params());
    let index = bytes / shape.subtables as f64;
    session.fact(Metric::less("form_bytes_per_index", "bytes"), &case, index, None, params());
    session.timing(Metric::less("form_time_per_message", "s"), &case, &record.total, None, params());
    session.timing(Metric::less("form_query_time_per_message", "s"), &case, &record.query, None, params());
    let error = record.relative_error.log2();
    session.fact(Metric::less("form_log2_relative_error", "bits"), &case, error, None, params());
    let differ = record.labels_differ as f64;
    session.fact(Metric::less("form_labels_differ", "messages"), &case, differ, None, params());
    let keys = shop.key_bytes() as f64;
    session.fact(Metric::less("form_key_wire_bytes", "bytes"), &case, keys, None, params());
}
