//! Metrics of the device that answers are computed on.

use std::sync::{Mutex, PoisonError};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Opts};
use unspoken_device::Device;

/// Reads the counts of a device when metrics are asked for.
pub struct DeviceMetrics {
    device: Device,
    /// Held while metrics are read: two that are read at once would add the same counts.
    reading: Mutex<()>,
    memory: IntGaugeVec,
    kernels: IntCounterVec,
    copied: IntCounterVec,
    failed: IntGauge,
    recordings: IntGauge,
}

impl DeviceMetrics {
    /// The metrics of a device.
    ///
    /// # Errors
    /// Never: the names are valid.
    pub fn new(device: &Device) -> prometheus::Result<Self> {
        let options = |name: &str, help: &str| Opts::new(name, help).const_label("device", device.name());
        let memory = options(
            "unspoken_device_memory_bytes",
            "Memory of the device: used by this process, kept by it for reuse, and free",
        );
        let kernels = options("unspoken_device_kernels_total", "Kernels that were queued");
        let copied = options("unspoken_device_copied_bytes_total", "Bytes that were copied to the device and from it");
        Ok(DeviceMetrics {
            memory: IntGaugeVec::new(memory, &["state"])?,
            kernels: IntCounterVec::new(kernels, &["kernel"])?,
            copied: IntCounterVec::new(copied, &["direction"])?,
            failed: IntGauge::with_opts(options("unspoken_device_failed", "1 if the device has failed, and 0 if not"))?,
            recordings: IntGauge::with_opts(options("unspoken_device_recordings", "Graphs of kernels that are kept"))?,
            device: device.clone(),
            reading: Mutex::new(()),
        })
    }
}

impl Collector for DeviceMetrics {
    fn desc(&self) -> Vec<&Desc> {
        let vectors = [self.memory.desc(), self.kernels.desc(), self.copied.desc()].concat();
        vectors.into_iter().chain(self.failed.desc()).chain(self.recordings.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let (used, kept) = self.device.taken_bytes();
        // A device that fails has no number, and answers say why.
        let free = self.device.memory().map(|(free, _)| free as i64).ok();
        for (state, bytes) in [("used", Some(used as i64)), ("kept", Some(kept as i64)), ("free", free)] {
            match bytes {
                Some(bytes) => self.memory.with_label_values(&[state]).set(bytes),
                None => drop(self.memory.remove_label_values(&[state])),
            }
        }
        for (name, queued) in unspoken_device::NAMES.iter().zip(self.device.launches()) {
            set(&self.kernels, name, queued.launches);
        }
        for (direction, bytes) in ["to", "from"].into_iter().zip(self.device.copied_bytes()) {
            set(&self.copied, direction, bytes);
        }
        self.failed.set(i64::from(self.device.failure().is_some()));
        self.recordings.set(self.device.recorded() as i64);
        let vectors = [self.memory.collect(), self.kernels.collect(), self.copied.collect()].concat();
        vectors.into_iter().chain(self.failed.collect()).chain(self.recordings.collect()).collect()
    }
}

/// The device has counted `count` since it was opened.
fn set(counters: &IntCounterVec, label: &str, count: u64) {
    let counter = counters.with_label_values(&[label]);
    counter.inc_by(count.saturating_sub(counter.get()));
}

#[cfg(test)]
mod tests {
    use prometheus::{Encoder, Registry, TextEncoder};

    use super::*;

    #[test]
    fn counts_are_those_of_the_device() {
        let device = unspoken_device_shim::device(1 << 20);
        let registry = Registry::new();
        registry.register(Box::new(DeviceMetrics::new(&device).unwrap())).unwrap();
        let text = || {
            let mut text = Vec::new();
            TextEncoder::new().encode(&registry.gather(), &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert!(text().contains("state=\"used\"} 0\n"), "{}", text());
        let buffer = device.upload(&[7u32; 64]).unwrap();
        for _ in 0..2 {
            let text = text();
            assert!(text.contains("state=\"used\"} 256\n") && text.contains("direction=\"to\"} 256\n"), "{text}");
            assert!(text.contains("kernel=\"tensor\"} 0\n"), "{text}");
            assert!(text.contains("unspoken_device_failed{device=\"shim\"} 0\n"), "{text}");
        }
        drop(buffer);
        assert!(text().contains("state=\"kept\"} 256\n"), "{}", text());
    }
}
