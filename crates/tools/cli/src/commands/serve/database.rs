//! Databases of a service: where they are, what they are called, and how the service follows their changes.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::Context;
use unspoken_database::{Database, Snapshot};
use unspoken_pir::{DatabaseVersion, Layout};
use unspoken_retrieve::Retriever;
use unspoken_server::{Applications, PrivateApplication};

/// How often a service looks for changes.
const LOOK: Duration = Duration::from_secs(1);

/// A database to serve.
#[derive(Clone, Debug)]
pub struct Named {
    name: Option<String>,
    directory: PathBuf,
}

impl FromStr for Named {
    type Err = Infallible;

    /// `NAME=DIR`, or `DIR` alone.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        let (name, directory) = match text.split_once('=') {
            Some((name, directory)) => (Some(name.to_owned()), directory),
            None => (None, text),
        };
        Ok(Named { name, directory: directory.into() })
    }
}

impl Named {
    /// What it is called in the service's URL.
    fn name(&self) -> anyhow::Result<String> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let name = self.directory.canonicalize().ok();
        let name = name.as_deref().unwrap_or(&self.directory).file_name().context("it has no name")?;
        Ok(format!("pir/{}", name.to_string_lossy()))
    }
}

/// Adds databases to what a service offers. Threads follow their changes for as long as they are served.
pub fn add(mut applications: Applications, databases: &[Named]) -> anyhow::Result<Applications> {
    let mut names = Vec::new();
    for database in databases {
        let at = database.directory.display();
        let name = database.name().with_context(|| format!("cannot serve {at}; give it a name: NAME=DIR"))?;
        anyhow::ensure!(!names.contains(&name), "two databases are called {name}; give one another name: NAME=DIR");
        tracing::info!(application = name, "checking the database's files");
        let opened = Arc::new(Database::open(&database.directory).with_context(|| format!("cannot serve {at}"))?);
        let snapshot = opened.snapshot();
        let preset = snapshot.parameters().name();
        anyhow::ensure!(!snapshot.parameters().is_insecure(), "cannot serve {at}: preset {preset} is for tests");
        tell(&name, &snapshot, "database opened");
        let follower = (name.clone(), Arc::downgrade(&opened), snapshot.layout());
        let application = PrivateApplication::new(name.clone(), Retriever::new(opened)?);
        let unsuitable = || format!("cannot serve {at} under its own name; give it another: NAME=DIR");
        applications = applications.with(application).with_context(unsuitable)?;
        std::thread::Builder::new().name("follow-database".into()).spawn(move || follow(&follower))?;
        names.push(name);
    }
    Ok(applications)
}

/// Takes up what other processes commit, until nobody serves the database.
fn follow((name, database, layout): &(String, Weak<Database>, Layout)) {
    let mut complaint = String::new();
    while let Some(database) = database.upgrade() {
        match database.refresh() {
            Ok(false) => complaint.clear(),
            Ok(true) => {
                complaint.clear();
                let snapshot = database.snapshot();
                tell(name, &snapshot, "database changed");
                if snapshot.layout() != *layout {
                    tracing::error!(application = name, "rebuilt in another layout: start the service anew");
                }
            }
            // The version before is served on.
            Err(error) => {
                let again = std::mem::replace(&mut complaint, error.to_string());
                if again != complaint {
                    tracing::error!(application = name, reason = complaint, "cannot take up the database's changes");
                }
            }
        }
        drop(database);
        std::thread::sleep(LOOK);
    }
}

fn tell(name: &str, snapshot: &Snapshot, what: &'static str) {
    let (version, generation, records) = (snapshot.version(), snapshot.generation(), snapshot.records());
    tracing::info!(application = name, version, generation, records, "{what}");
}
