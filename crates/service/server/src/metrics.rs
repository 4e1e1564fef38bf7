//! Metrics for Prometheus.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

/// Values of the label `listener`.
const CLIENTS: &str = "clients";
const METRICS: &str = "metrics";

/// All metrics of one service.
pub(crate) struct Metrics {
    pub(crate) registry: Registry,
    pub(crate) requests: IntCounterVec,
    pub(crate) in_flight: IntGauge,
    pub(crate) upload_bytes: IntCounter,
    pub(crate) busy: IntGauge,
    pub(crate) connections: IntGauge,
    pub(crate) connections_refused: IntCounter,
    pub(crate) metrics_connections: IntGauge,
    pub(crate) metrics_connections_refused: IntCounter,
    answer_seconds: HistogramVec,
    answered_together: HistogramVec,
    load_seconds: HistogramVec,
    pub(crate) workers: IntGauge,
    pub(crate) queue_depth: IntGauge,
    pub(crate) bundles: IntGaugeVec,
    pub(crate) disk_bytes: IntGauge,
    pub(crate) memory_bytes: IntGauge,
    pub(crate) memory_limit: IntGauge,
    pub(crate) loaded: IntGauge,
}

impl Metrics {
    pub(crate) fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let gauge = |name: &str, help: &str| -> prometheus::Result<IntGauge> {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok(gauge)
        };
        let seconds = |name: &str, help: &str| -> prometheus::Result<HistogramVec> {
            let buckets = prometheus::exponential_buckets(0.01, 2.0, 16)?;
            let options = HistogramOpts::new(name, help).buckets(buckets);
            let histogram = HistogramVec::new(options, &["application"])?;
            registry.register(Box::new(histogram.clone()))?;
            Ok(histogram)
        };
        let together = HistogramOpts::new("unspoken_answered_together", "Requests answered by one computation")
            .buckets(prometheus::exponential_buckets(1.0, 2.0, 8)?);
        let together = HistogramVec::new(together, &["application"])?;
        registry.register(Box::new(together.clone()))?;
        let requests = IntCounterVec::new(
            Opts::new("unspoken_requests_total", "Requests, by route, method and status"),
            &["route", "method", "status"],
        )?;
        registry.register(Box::new(requests.clone()))?;
        // The memory and the descriptors of the process, under their standard names.
        #[cfg(target_os = "linux")]
        registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
        let upload_bytes = IntCounter::new("unspoken_upload_bytes_total", "Bytes of key bundles received")?;
        registry.register(Box::new(upload_bytes.clone()))?;
        let bundles = IntGaugeVec::new(Opts::new("unspoken_key_bundles", "Key bundles on disk"), &["state"])?;
        registry.register(Box::new(bundles.clone()))?;
        let connections = IntGaugeVec::new(Opts::new("unspoken_connections", "Open connections"), &["listener"])?;
        registry.register(Box::new(connections.clone()))?;
        let refused = IntCounterVec::new(
            Opts::new("unspoken_connections_refused_total", "Connections closed because their address had too many"),
            &["listener"],
        )?;
        registry.register(Box::new(refused.clone()))?;
        Ok(Self {
            connections: connections.with_label_values(&[CLIENTS]),
            connections_refused: refused.with_label_values(&[CLIENTS]),
            metrics_connections: connections.with_label_values(&[METRICS]),
            metrics_connections_refused: refused.with_label_values(&[METRICS]),
            in_flight: gauge("unspoken_requests_in_flight", "Requests being handled")?,
            busy: gauge(
                "unspoken_workers_busy",
                "Requests that load keys, are computed, or wait to be computed together",
            )?,
            workers: gauge("unspoken_workers", "Workers, at most as many as the memory is enough for")?,
            queue_depth: gauge("unspoken_queue_depth", "Requests waiting for a worker")?,
            disk_bytes: gauge("unspoken_key_disk_bytes", "Bytes of key bundles on disk")?,
            memory_bytes: gauge("unspoken_memory_bytes", "Bytes of the memory budget in use")?,
            memory_limit: gauge("unspoken_memory_limit_bytes", "Bytes of the memory budget")?,
            loaded: gauge("unspoken_keys_loaded", "Key bundles in memory")?,
            answer_seconds: seconds(
                "unspoken_answer_seconds",
                "Time to compute an answer, or to wait for others that are computed together",
            )?,
            answered_together: together,
            load_seconds: seconds("unspoken_key_load_seconds", "Time to load a key bundle")?,
            requests,
            upload_bytes,
            bundles,
            registry,
        })
    }

    pub(crate) fn answered(&self, application: &str, time: Duration) {
        self.answer_seconds.with_label_values(&[application]).observe(time.as_secs_f64());
    }

    /// A computation has begun that answers `requests` requests.
    pub(crate) fn answered_together(&self, application: &str, requests: usize) {
        self.answered_together.with_label_values(&[application]).observe(requests as f64);
    }

    pub(crate) fn loaded(&self, application: &str, time: Duration) {
        self.load_seconds.with_label_values(&[application]).observe(time.as_secs_f64());
    }
}
