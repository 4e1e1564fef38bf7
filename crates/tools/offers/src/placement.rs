//! The device that a service computes on.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::bail;
use unspoken_ckks::CkksParameters;
use unspoken_device::{Device, DeviceError};
use unspoken_server::Applications;

/// Name for the first device, or the processor if there is none.
const AUTO: &str = "auto";

/// Name for the processor.
const PROCESSOR: &str = "cpu";

/// The device of a service, and the parameters that are there. Cheap to clone.
///
/// Offers with the same preset have one object of its parameters: clients use one bundle of keys for all of them.
#[derive(Clone, Debug)]
pub struct Placement {
    device: Device,
    placed: Arc<Mutex<Vec<CkksParameters>>>,
}

impl Placement {
    /// Opens a device by name, such as `cuda:0`; `auto` for the first one, or none; `cpu` for none. The log says which
    /// it is.
    ///
    /// # Errors
    /// [`DeviceError::Unavailable`], which says what is missing; never for `auto` and `cpu`.
    pub fn open(name: &str) -> Result<Option<Self>, DeviceError> {
        let opened = match name {
            PROCESSOR => return Ok(None),
            AUTO => first(),
            name => unspoken_cuda::open(name),
        };
        match opened {
            Ok(device) => {
                tracing::info!(device = device.name(), model = device.model(), "computing on a device");
                device.on_failure(|failure| tracing::error!(%failure, "the device has failed"));
                Ok(Some(Self::new(device)))
            }
            Err(reason) if name == AUTO => {
                tracing::info!(%reason, "computing on the processor");
                Ok(None)
            }
            Err(reason) => Err(reason),
        }
    }

    fn new(device: Device) -> Self {
        Placement { device, placed: Arc::default() }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Refuses an application that needs more memory than the device has: `least` bytes for an answer. Where there are
    /// fewer than `all` bytes, what an answer uses is copied to the device again and again, and the log says so.
    pub(crate) fn check_memory(&self, application: &str, (least, all): (u64, u64)) -> anyhow::Result<()> {
        let usable = self.device.usable_bytes()?;
        if usable < least {
            bail!(
                "device {} has {usable} bytes of memory for this service, needed {least} for an answer of \
                 {application}; take a larger device, or the processor",
                self.device.name()
            );
        }
        if usable < all {
            let device = self.device.name();
            tracing::warn!(application, device, usable, all, "models and keys will be copied to the device again");
        }
        Ok(())
    }

    /// The same parameters on the device.
    pub(crate) fn place(&self, parameters: &CkksParameters) -> anyhow::Result<CkksParameters> {
        // What is there is whole even if a thread panicked.
        let mut placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner);
        // Presets with other scales or levels may have the same ring, so their fingerprints do not tell them apart.
        if let Some(found) = placed.iter().find(|found| found.name() == parameters.name()) {
            return Ok(found.clone());
        }
        let there = parameters.on_device(&self.device)?;
        placed.push(there.clone());
        Ok(there)
    }
}

fn first() -> Result<Device, DeviceError> {
    let found = unspoken_cuda::devices()?;
    let none = || DeviceError::Unavailable { name: AUTO.into(), reason: "the driver found no device".into() };
    unspoken_cuda::open(&found.first().ok_or_else(none)?.name)
}

/// Refuses applications on a device and on the processor for which clients use one bundle of keys: a bundle is loaded
/// for one of the two places.
pub(crate) fn check(applications: &Applications, is_placed: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    let (placed, others): (Vec<_>, Vec<_>) = applications.iter().partition(|one| is_placed(one.name()));
    for one in &placed {
        if let Some(other) = others.iter().find(|other| other.half().key_set() == one.half().key_set()) {
            bail!(
                "{} computes on the device and {} on the processor, and clients would use one bundle of keys for both; \
                 give one of them another preset, or serve them by two services",
                one.name(),
                other.name()
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use unspoken_ckks::Preset;
    use unspoken_digits::DigitsServer;
    use unspoken_digits_model::{Network, Shape, TrainingRecord};

    use super::*;

    #[test]
    fn automatic_choice_never_fails() {
        let machine_has_one = unspoken_cuda::devices().is_ok_and(|found| !found.is_empty());
        assert!(machine_has_one || Placement::open(AUTO).unwrap().is_none());
        assert!(Placement::open(PROCESSOR).unwrap().is_none());
        assert!(Placement::open("cuda").is_err());
    }

    #[test]
    fn too_little_memory_is_refused_at_the_start() {
        let placement = Placement::new(unspoken_device_shim::device(1 << 20));
        placement.check_memory("chat/one", (1 << 20, 1 << 30)).unwrap();
        let error = placement.check_memory("chat/one", ((1 << 20) + 1, 1 << 30)).unwrap_err().to_string();
        assert!(error.contains("has 1048576 bytes") && error.contains("needed 1048577"), "{error}");
        placement.device().limit_memory(1 << 10);
        assert!(placement.check_memory("chat/one", (1 << 20, 1 << 20)).is_err());
    }

    #[test]
    fn parameters_that_are_equal_are_placed_once() {
        let placement = Placement::new(unspoken_device_shim::device(1 << 30));
        let [one, other] = ["insecure_n11_depth9_scale50", "insecure_n11_boot_depth15_scale40"]
            .map(|name| Preset::find(name).unwrap().build().unwrap());
        let [first, second, third] = [&one, &one, &other].map(|parameters| placement.place(parameters).unwrap());
        let mut zero = first.ring().zero(unspoken_ring::Basis::chain(1), unspoken_ring::Domain::Evaluation);
        // A ring refuses polynomials of other rings.
        second.ring().to_coefficients(&mut zero).unwrap();
        assert!(third.ring().to_evaluation(&mut zero).is_err());
        assert!(first.ring().device().is_some() && one.ring().device().is_none());
    }

    #[test]
    fn one_bundle_of_keys_is_for_one_place() {
        let placement = Placement::new(unspoken_device_shim::device(1 << 30));
        let host = Preset::find("insecure_n11_real_depth17_scale30").unwrap().build().unwrap();
        let parameters = vec![0.01; Shape::LITE.parameters()];
        let network = Network::new(Shape::LITE, parameters, TrainingRecord::default()).unwrap();
        let named = |applications: Applications, name: &str, parameters: &CkksParameters| {
            let server = DigitsServer::new(&network, parameters, None).unwrap();
            applications.with(name, server).unwrap()
        };
        let there = placement.place(&host).unwrap();
        let both = named(named(Applications::new(), "digits/one", &there), "digits/two", &there);
        check(&both, |_| true).unwrap();
        let mixed = named(both, "digits/three", &host);
        let error = check(&mixed, |name| name != "digits/three").unwrap_err().to_string();
        assert!(error.contains("digits/one computes on the device and digits/three on the processor"), "{error}");
    }
}
