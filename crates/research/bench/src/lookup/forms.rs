//! Comparison of the query forms: bytes of the query, time of the service, and precision of the result.

use std::fmt;

use unspoken_ckks::Preset;
use unspoken_classify::ClassifyOptions;
use unspoken_query::QueryForm;

use super::data::ClassifierData;
use super::plans::{ClassifierFixture, PlanMeasurement};
use crate::harness::Harness;
use crate::row::{Metric, params};

/// A form of query and its preset.
pub(super) struct FormCase {
    pub(super) form: QueryForm,
    /// Whether queries are short compact ones.
    pub(super) short: bool,
    pub(super) preset: &'static str,
}

impl fmt::Display for FormCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.short { "short " } else { "" }, self.form)
    }
}

/// Classifies one batch in each form, one form after the other: keys and queries of the larger forms fill the memory.
pub(super) fn run(
    harness: &mut Harness<'_>,
    forms: &[FormCase],
    columns: usize,
    messages: usize,
) -> anyhow::Result<()> {
    let data = ClassifierData::with_columns(&harness.options.root, messages, columns)?;
    for case in forms {
        harness.progress(format!("{case} queries, {}: keys and one batch", case.preset));
        let options = ClassifyOptions { plan: None, query: case.form, short_queries: case.short };
        let mut fixture = ClassifierFixture::with_options(&data, Preset::find(case.preset)?, &options)?;
        let full = fixture.batch_size();
        let messages = &data.messages[..full.min(data.messages.len())];
        let mut measurement = PlanMeasurement::default();
        // One warm-up batch, which is not counted.
        fixture.classify(harness.stopwatch(), messages)?;
        let batch = fixture.classify(harness.stopwatch(), messages)?;
        measurement.add(&data, messages, full, batch)?;
        report(harness, &data, case, &fixture, &measurement);
    }
    Ok(())
}

fn report(
    harness: &mut Harness<'_>,
    data: &ClassifierData,
    form: &FormCase,
    fixture: &ClassifierFixture,
    measurement: &PlanMeasurement,
) {
    let shape = data.model.encoder().shape();
    let case = format!("fastText, {form} queries, {}", fixture.preset());
    let params = || {
        params! {
            "preset": fixture.preset(), "plan": fixture.plan.to_string(), "data": data.source, "columns": shape.columns,
            "subtables": shape.subtables, "tokens": shape.max_tokens, "messages_per_query": fixture.batch_size(),
        }
    };
    let tokens = (fixture.batch_size() * shape.max_tokens) as f64;
    let bytes = measurement.query_bytes as f64 / tokens;
    harness.value(Metric::less("form_bytes_per_token", "bytes"), &case, bytes, None, params());
    let index = bytes / shape.subtables as f64;
    harness.value(Metric::less("form_bytes_per_index", "bytes"), &case, index, None, params());
    harness.timing(Metric::less("form_time_per_message", "s"), &case, &measurement.total, None, params());
    harness.timing(Metric::less("form_query_time_per_message", "s"), &case, &measurement.query, None, params());
    let error = measurement.relative_error.log2();
    harness.value(Metric::less("form_log2_relative_error", "bits"), &case, error, None, params());
    let differ = measurement.labels_differ as f64;
    harness.value(Metric::less("form_labels_differ", "messages"), &case, differ, None, params());
    let keys = fixture.key_bytes() as f64;
    harness.value(Metric::less("form_key_wire_bytes", "bytes"), &case, keys, None, params());
}
