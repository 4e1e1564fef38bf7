//! Offers of a service, all checked before anything is loaded.

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use unspoken_server::{Applications, OfferConfig};
use unspoken_wire::is_application_name;

use crate::kind::{Kind, State};
use crate::kinds::KINDS;
use crate::offer::{Offer, Resources};
use crate::{
    old_spellings, pir, pir_encrypted, pir_router, pir_shard, placement, search, search_documents, search_router,
};

/// Time after which the log says again that an application is being loaded.
const STILL_LOADING: Duration = Duration::from_secs(5);

/// An offer whose kind, name and options are valid.
struct Checked {
    kind: &'static Kind,
    offer: Offer,
}

impl Checked {
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
        Ok(Checked { kind, offer: Offer::new(name, config, resources) })
    }

    /// Whether its answers are computed on a device.
    fn is_placed(&self) -> bool {
        self.offer.device().is_some() && self.kind.serving.on_device
    }

    /// Loads the application. The log says that the application is loading, every few seconds that it still is, and how
    /// long loading took.
    fn load(&self, applications: Applications) -> anyhow::Result<Applications> {
        let Checked { kind, offer } = self;
        let application = offer.name();
        tracing::info!(application, kind = kind.name, path = %offer.path().display(), "loading");
        if offer.device().is_some() && !self.is_placed() {
            tracing::info!(application, "answers of this kind are computed on the processor");
        }
        let start = Instant::now();
        let loaded = thread::scope(|scope| {
            let (ended, end) = mpsc::channel::<()>();
            scope.spawn(move || {
                while end.recv_timeout(STILL_LOADING) == Err(RecvTimeoutError::Timeout) {
                    tracing::info!(application, seconds = start.elapsed().as_secs(), "still loading");
                }
            });
            // Dropped also if loading panics.
            let _ended = ended;
            (kind.load)(offer, applications)
        })?;
        tracing::info!(application, millis = start.elapsed().as_millis() as u64, "loaded");
        Ok(loaded)
    }
}

/// Loads all offers, after checking every one of them. `report` gets a text before each offer, which says how far this
/// is.
pub fn load(configs: Vec<OfferConfig>, resources: &Resources, report: impl Fn(String)) -> anyhow::Result<Applications> {
    let all = checked(configs, resources)?;
    let total = all.len();
    let applications = all.iter().zip(1..).try_fold(Applications::new(), |applications, (checked, number)| {
        let (name, path) = (checked.offer.name(), checked.offer.path().display());
        report(format!("loading {name} ({number} of {total})"));
        checked.load(applications).with_context(|| format!("cannot offer {path} as {name}"))
    })?;
    placement::check(&applications, |name| all.iter().any(|one| one.offer.name() == name && one.is_placed()))?;
    Ok(applications)
}

/// The offers that can be loaded beside a service that has loaded them, and the names of the others, after checking
/// every one of them: an offer that locks a directory is left out, and sessions of language models are not kept on
/// disk.
pub fn without_directories(configs: Vec<OfferConfig>) -> anyhow::Result<(Vec<OfferConfig>, Vec<String>)> {
    let (mut kept, mut left_out) = (Vec::new(), Vec::new());
    for (checked, mut config) in checked(configs.clone(), &Resources::default())?.iter().zip(configs) {
        if checked.kind.serving.state == State::Directory {
            left_out.push(checked.offer.name().to_owned());
            continue;
        }
        config.options.remove("keep");
        kept.push(config);
    }
    Ok((kept, left_out))
}

/// Offers whose kinds, options and names are valid, and that fit beside each other.
fn checked(configs: Vec<OfferConfig>, resources: &Resources) -> anyhow::Result<Vec<Checked>> {
    anyhow::ensure!(
        !configs.is_empty(),
        "there is nothing to serve; name an application with --offer KIND:NAME=DIR, for instance \
         --offer classify:classify/spam=model, or with [[offer]] in the file of --config (kinds: {}; see \
         unspoken serve --help)",
        KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ")
    );
    let mut all: Vec<Checked> = Vec::new();
    for config in configs {
        let path = config.path.clone();
        let checked =
            Checked::new(config, resources.clone()).with_context(|| format!("cannot offer {}", path.display()))?;
        let name = checked.offer.name();
        if let Some(other) = all.iter().find(|other| other.offer.name() == name) {
            let paths = [other, &checked].map(|checked| checked.offer.path().display());
            anyhow::bail!("two offers are called {name}: {} and {}; rename one: KIND:NAME=DIR", paths[0], paths[1]);
        }
        all.push(checked);
    }
    check_routers(&all)?;
    Ok(all)
}

/// Refuses a router beside a database: clients use one bundle of keys for both, which a service can either compute with
/// or pass on.
fn check_routers(all: &[Checked]) -> anyhow::Result<()> {
    const DATABASES: &[&str] = &[
        pir::KIND.name,
        pir_shard::KIND.name,
        pir_encrypted::KIND.name,
        search::KIND.name,
        search_documents::KIND.name,
    ];
    let of = |kinds: &[&str]| all.iter().find(|checked| kinds.contains(&checked.kind.name));
    if let (Some(router), Some(database)) = (of(&[pir_router::KIND.name]), of(DATABASES)) {
        anyhow::bail!(
            "{} is a router and {} has data; clients would use the keys of one for the other: serve them by two \
             services",
            router.offer.name(),
            database.offer.name()
        );
    }
    for router in all.iter().filter(|checked| checked.kind.name == search_router::KIND.name) {
        let documents = search::documents_of(router.offer.name());
        anyhow::ensure!(
            all.iter().any(|checked| checked.offer.name() == documents),
            "{} is a router of a collection, whose documents are fetched from {documents}; found no such offer, \
             needed --search-documents {documents}=DIR",
            router.offer.name()
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
