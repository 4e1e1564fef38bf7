//! The metrics of an engine as text.

use prometheus::{Encoder, TextEncoder};

use crate::engine::Engine;
use crate::metrics::Metrics;

impl Metrics {
    /// The metrics in Prometheus's text format.
    pub(crate) fn render(&self, engine: &Engine) -> prometheus::Result<Vec<u8>> {
        let Engine { store, cache, .. } = engine;
        let totals = store.totals();
        self.bundles.with_label_values(&["ready"]).set(totals.ready as i64);
        self.bundles.with_label_values(&["uploading"]).set(totals.uploading as i64);
        self.disk_bytes.set(totals.bytes as i64);
        let (jobs, bodies) = (cache.usage(), engine.bodies.usage());
        self.memory_bytes.set((jobs.0 + bodies.0) as i64);
        self.memory_limit.set((jobs.1 + bodies.1) as i64);
        self.loaded.set(cache.count() as i64);
        self.workers.set(engine.workers as i64);
        self.queue_depth.set(engine.waiting() as i64);
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }
}
