//! Comparison of the query forms: bytes of the query, time of the service, and precision of the result.

use unspoken_ckks::Preset;
use unspoken_query::QueryForm;

use super::data::ClassifierData;
use super::plans::{ClassifierFixture, PlanMeasurement};
use crate::error::BenchError;
use crate::harness::Harness;
use crate::row::{Metric, params};

/// Classifies one batch in each form, one form after the other: keys and queries of the larger forms fill the memory.
pub(super) fn run(
    harness: &mut Harness<'_>,
    forms: &[(QueryForm, &str)],
    columns: usize,
    messages: usize,
) -> Result<(), BenchError> {
    let data = ClassifierData::with_columns(&harness.options.root, messages, columns)?;
    for &(form, preset) in forms {
        harness.progress(format!("{form} queries, {preset}: keys and one batch"));
        let mut fixture = ClassifierFixture::of_form(&data, Preset::find(preset)?, form)?;
        let full = fixture.batch_size();
        let messages = &data.messages[..full.min(data.messages.len())];
        let mut measurement = PlanMeasurement::default();
        // One warm-up batch, which is not counted.
        fixture.classify(harness.stopwatch(), messages)?;
        let batch = fixture.classify(harness.stopwatch(), messages)?;
        measurement.add(&data, messages, full, batch)?;
        report(harness, &data, form, &fixture, &measurement);
    }
    Ok(())
}

fn report(
    harness: &mut Harness<'_>,
    data: &ClassifierData,
    form: QueryForm,
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
