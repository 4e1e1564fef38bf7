//! The offers of a service, all checked before anything is loaded.

use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use unspoken_ckks::CkksParameters;
use unspoken_device::Device;
use unspoken_matrix::PlanCache;
use unspoken_protocol::ServerHalf;
use unspoken_server::{Applications, OfferConfig};
use unspoken_wire::is_application_name;

use crate::kinds::{KINDS, Kind};
use crate::old_spellings;
use crate::placement::{self, Placement};
use crate::{pir, pir_encrypted, pir_router, pir_shard};

/// Time after which the log says again that an application is being loaded.
const STILL_LOADING: Duration = Duration::from_secs(5);

/// What all offers of a service have.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    /// Where plans of permutations are kept, if anywhere.
    pub plans: Option<PlanCache>,
    /// Where answers are computed; none for the processor.
    pub placement: Option<Placement>,
}

/// An offer whose kind, name and options are valid.
pub struct Offer {
    kind: &'static Kind,
    name: String,
    config: OfferConfig,
    resources: Resources,
}

impl Offer {
    /// Checks kind, name and options.
    fn new(config: OfferConfig, resources: Resources) -> anyhow::Result<Self> {
        let (config, old_default) = old_spellings::translated(config);
        let kind = Kind::find(&config.kind)?;
        for option in config.options.keys() {
            kind.check_option(option)?;
        }
        let name = match &config.name {
            Some(name) => name.clone(),
            None => default_name(old_default.unwrap_or(kind.default_name), &config.path)?,
        };
        anyhow::ensure!(
            is_application_name(&name),
            "the name {name:?} is not valid in a URL: needed lower-case segments joined by '/', such as classify/spam; \
             give the offer another name: KIND:NAME=DIR"
        );
        Ok(Self { kind, name, config, resources })
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

    /// Whether its answers are computed on a device.
    fn is_placed(&self) -> bool {
        self.resources.placement.is_some() && self.kind.serving.on_device
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

    /// Loads the application. The log says that the application is loading, every few seconds that it still is, and how
    /// long loading took.
    fn load(&self, applications: Applications) -> anyhow::Result<Applications> {
        tracing::info!(application = self.name, kind = self.kind.name, path = %self.path().display(), "loading");
        if self.resources.placement.is_some() && !self.is_placed() {
            tracing::info!(application = self.name, "answers of this kind are computed on the processor");
        }
        let start = Instant::now();
        let loaded = thread::scope(|scope| {
            let (ended, end) = mpsc::channel::<()>();
            scope.spawn(move || {
                while end.recv_timeout(STILL_LOADING) == Err(RecvTimeoutError::Timeout) {
                    tracing::info!(application = self.name, seconds = start.elapsed().as_secs(), "still loading");
                }
            });
            // Dropped also if loading panics.
            let _ended = ended;
            (self.kind.load)(self, applications)
        })?;
        tracing::info!(application = self.name, millis = start.elapsed().as_millis() as u64, "loaded");
        Ok(loaded)
    }
}

/// Loads all offers, after checking every one of them. `report` gets a text before each offer, which says how far this
/// is.
pub fn load(configs: Vec<OfferConfig>, resources: &Resources, report: impl Fn(String)) -> anyhow::Result<Applications> {
    anyhow::ensure!(
        !configs.is_empty(),
        "there is nothing to serve; name an application with --offer KIND:NAME=DIR, for instance \
         --offer classify:classify/spam=model, or with [[offer]] in the file of --config (kinds: {}; see \
         unspoken serve --help)",
        KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ")
    );
    let mut offers: Vec<Offer> = Vec::new();
    for config in configs {
        let path = config.path.clone();
        let offer =
            Offer::new(config, resources.clone()).with_context(|| format!("cannot offer {}", path.display()))?;
        if let Some(other) = offers.iter().find(|other| other.name == offer.name) {
            let paths = [other, &offer].map(|offer| offer.path().display());
            let name = &offer.name;
            anyhow::bail!("two offers are called {name}: {} and {}; rename one: KIND:NAME=DIR", paths[0], paths[1]);
        }
        offers.push(offer);
    }
    check_routers(&offers)?;
    let total = offers.len();
    let applications = offers.iter().zip(1..).try_fold(Applications::new(), |applications, (offer, number)| {
        report(format!("loading {} ({number} of {total})", offer.name));
        let failed = || format!("cannot offer {} as {}", offer.path().display(), offer.name);
        offer.load(applications).with_context(failed)
    })?;
    placement::check(&applications, |name| offers.iter().any(|offer| offer.name == name && offer.is_placed()))?;
    Ok(applications)
}

/// Refuses a router beside a database: clients use one bundle of keys for both, which a service can either compute with
/// or pass on.
fn check_routers(offers: &[Offer]) -> anyhow::Result<()> {
    const DATABASES: &[&str] = &[pir::KIND.name, pir_shard::KIND.name, pir_encrypted::KIND.name];
    let of = |kinds: &[&str]| offers.iter().find(|offer| kinds.contains(&offer.kind.name));
    if let (Some(router), Some(database)) = (of(&[pir_router::KIND.name]), of(DATABASES)) {
        anyhow::bail!(
            "{} is a router and {} has data; clients would use the keys of one for the other: serve them by two \
             services",
            router.name,
            database.name
        );
    }
    Ok(())
}

fn default_name(pattern: &str, path: &Path) -> anyhow::Result<String> {
    const DIRECTORY: &str = "{directory}";
    if !pattern.contains(DIRECTORY) {
        return Ok(pattern.to_owned());
    }
    let full = path.canonicalize().ok();
    let path = full.as_deref().unwrap_or(path);
    // The name of a file is used without its extension.
    let name = if path.is_file() { path.file_stem() } else { path.file_name() };
    let name = name.context("its path has no name; add one: KIND:NAME=DIR")?;
    Ok(pattern.replace(DIRECTORY, &name.to_string_lossy()))
}
