//! An offer, as the code that loads its application reads it.

use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;

use unspoken_ckks::CkksParameters;
use unspoken_device::Device;
use unspoken_matrix::PlanCache;
use unspoken_protocol::ServerHalf;
use unspoken_server::{Applications, OfferConfig};

use crate::placement::Placement;

/// What all offers of a service have.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    /// Where plans of permutations are kept, if anywhere.
    pub plans: Option<PlanCache>,
    /// Where answers are computed; none for the processor.
    pub placement: Option<Placement>,
}

/// An offer whose name and options are valid.
pub struct Offer {
    name: String,
    config: OfferConfig,
    resources: Resources,
}

impl Offer {
    pub(crate) fn new(name: String, config: OfferConfig, resources: Resources) -> Self {
        Offer { name, config, resources }
    }

    /// Name in the service's URL.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Path of the files.
    pub fn path(&self) -> &Path {
        &self.config.path
    }

    /// Where plans of permutations are kept, if anywhere.
    pub fn cache(&self) -> Option<&PlanCache> {
        self.resources.plans.as_ref()
    }

    /// Parameters on the device of the service, if it has one.
    pub fn on_device(&self, parameters: CkksParameters) -> anyhow::Result<CkksParameters> {
        match &self.resources.placement {
            Some(placement) => placement.place(&parameters),
            None => Ok(parameters),
        }
    }

    /// The device of the service, if it has one.
    pub fn device(&self) -> Option<&Device> {
        self.resources.placement.as_ref().map(Placement::device)
    }

    /// Refuses an application that needs more memory than the device of the service has, if it has one: bytes for an
    /// answer, and bytes for all that an answer uses.
    pub fn check_device_memory(&self, needs: (u64, u64)) -> anyhow::Result<()> {
        self.resources.placement.as_ref().map_or(Ok(()), |placement| placement.check_memory(&self.name, needs))
    }

    /// Value of an option, if given.
    pub fn option<T: FromStr<Err: Display>>(&self, name: &str) -> anyhow::Result<Option<T>> {
        let Some(text) = self.config.options.get(name) else { return Ok(None) };
        let value = text.parse().map_err(|error| anyhow::anyhow!("option {name} is {text:?}: {error}"))?;
        Ok(Some(value))
    }

    /// Adds the application under the offer's name.
    pub fn add(&self, half: impl ServerHalf, applications: Applications) -> anyhow::Result<Applications> {
        Ok(applications.with(&self.name, half)?)
    }
}
