//! Models that their owner publishes: the client's half, so that clients need no copy of it, or all of it.

use std::path::Path;
use std::str::FromStr;

use unspoken_server::Applications;
use unspoken_store::ModelFiles;
use unspoken_wire::v1::{ModelFile, PublishedModel};

use crate::kind::KindOption;
use crate::offer::Offer;

/// Largest file that is published, and most bytes of all files: what pages read.
const MAX_FILE_BYTES: u64 = 256 << 20;
const MAX_BYTES: usize = 512 << 20;

/// The option of kinds whose clients need a half of the model.
pub const PUBLISH: KindOption = KindOption {
    name: "publish",
    about: "client: let everyone who may use the service fetch the client's half of the model, which pages need; all: \
            also the server's half, so that they can compare answers with the model in the clear [default: nothing]",
};

/// The option of kinds whose clients need no part of the model.
pub const PUBLISH_ALL: KindOption = KindOption {
    name: "publish",
    about: "all: let everyone who may use the service fetch the model, so that they can compare answers with it in the \
            clear [default: nothing]",
};

/// The files of the halves of a model, as paths from its directory. They are published under their names alone.
pub struct Halves {
    pub client: &'static [&'static str],
    /// Files of the client's half that not every model has.
    pub optional: &'static [&'static str],
    pub server: &'static [&'static str],
}

/// What is published.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Published {
    Client,
    All,
}

impl FromStr for Published {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "client" => Ok(Published::Client),
            "all" => Ok(Published::All),
            _ => Err("needed client or all"),
        }
    }
}

/// Publishes the files of an offer that its option names.
pub fn publish(offer: &Offer, halves: &Halves, applications: Applications) -> anyhow::Result<Applications> {
    let optional = halves.optional.iter().filter(|name| offer.path().join(name).exists());
    let names: Vec<&str> = match offer.option::<Published>(PUBLISH.name)? {
        None => return Ok(applications),
        Some(Published::Client) => {
            anyhow::ensure!(
                !halves.client.is_empty(),
                "clients of this kind need no model; needed publish=all, or none"
            );
            halves.client.iter().chain(optional).copied().collect()
        }
        Some(Published::All) => halves.client.iter().chain(optional).chain(halves.server).copied().collect(),
    };
    let model = PublishedModel { files: names.iter().map(|name| file(offer.path(), name)).collect::<Result<_, _>>()? };
    let found: usize = model.files.iter().map(|file| file.content.len()).sum();
    anyhow::ensure!(found < MAX_BYTES, "its files have {found} bytes, needed less than {MAX_BYTES} to publish them");
    Ok(applications.publish(offer.name(), &model))
}

fn file(directory: &Path, path: &str) -> anyhow::Result<ModelFile> {
    let content = ModelFiles::from(directory).read(path, MAX_FILE_BYTES)?;
    let (_, name) = path.rsplit_once('/').unwrap_or(("", path));
    Ok(ModelFile { name: name.to_owned(), content })
}
