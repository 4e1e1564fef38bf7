//! The flags older than `--offer`, translated into offers.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context;
use unspoken_query::QueryForm;
use unspoken_server::OfferConfig;

/// Flags that are each short for one offer.
#[derive(clap::Args)]
pub struct Shorthands {
    /// Short for --offer classify=DIR
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Short for --offer embed=DIR
    #[arg(long, value_name = "DIR")]
    embedding: Option<PathBuf>,
    /// Option `head` of --model: a linear head over an embedding table
    #[arg(long, value_name = "FILE")]
    head: Option<PathBuf>,
    /// Option `layer` of --embedding: the spelling of --head of the last release
    #[arg(long, value_name = "FILE", hide = true)]
    layer: Option<PathBuf>,
    /// Short for --offer digits=DIR
    #[arg(long, value_name = "DIR")]
    digits: Option<PathBuf>,
    /// Short for --offer chat=DIR
    #[arg(long, value_name = "DIR")]
    chat: Option<PathBuf>,
    /// Short for --offer llama=DIR, the spelling of --chat of the last release
    #[arg(long, value_name = "DIR", hide = true)]
    llama: Option<PathBuf>,
    /// Short for --offer matrix:NAME=FILE; may be given several times
    #[arg(long, value_name = "[NAME=]FILE")]
    matrix: Vec<NamedPath>,
    /// Short for --offer pir:NAME=DIR; may be given several times
    #[arg(long, value_name = "[NAME=]DIR")]
    database: Vec<NamedPath>,
    /// Short for --offer pir-shard:NAME=DIR; may be given several times
    #[arg(long, value_name = "[NAME=]DIR")]
    shard: Vec<NamedPath>,
    /// Short for --offer pir-router:NAME=FILE
    #[arg(long, value_name = "[NAME=]FILE")]
    router: Option<NamedPath>,
    /// Name of the application of --model, --embedding, --digits or --chat
    #[arg(long)]
    name: Option<String>,
    /// Option `query` of --model or --embedding
    #[arg(long, value_parser = clap::value_parser!(QueryForm))]
    query: Option<QueryForm>,
    /// Option `preset` of --model, --embedding, --digits or --chat
    #[arg(long)]
    preset: Option<String>,
    /// Option `plan` of --model or --embedding
    #[arg(long)]
    plan: Option<String>,
    /// Option `error` of --model or --embedding
    #[arg(long)]
    error: Option<String>,
    /// Option `batch` of --digits
    #[arg(long)]
    batch: Option<usize>,
}

/// A path with an optional name.
#[derive(Clone, Debug)]
struct NamedPath {
    name: Option<String>,
    path: PathBuf,
}

impl FromStr for NamedPath {
    type Err = Infallible;

    /// `NAME=PATH`, or `PATH` alone.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        let (name, path) = match text.split_once('=') {
            Some((name, path)) => (Some(name.to_owned()), path),
            None => (None, text),
        };
        Ok(NamedPath { name, path: path.into() })
    }
}

/// A flag and the kind that it offers.
const MODEL: (&str, &str) = ("--model", "classify");
const EMBEDDING: (&str, &str) = ("--embedding", "embed");
const DIGITS: (&str, &str) = ("--digits", "digits");
const CHAT: (&str, &str) = ("--chat", "chat");
const LLAMA: (&str, &str) = ("--llama", "llama");

impl Shorthands {
    /// The offers that the flags are short for.
    pub fn offers(&self) -> anyhow::Result<Vec<OfferConfig>> {
        let directories = [
            (MODEL, &self.model),
            (EMBEDDING, &self.embedding),
            (DIGITS, &self.digits),
            (CHAT, &self.chat),
            (LLAMA, &self.llama),
        ];
        let mut offers: Vec<OfferConfig> = directories
            .into_iter()
            .filter_map(|((_, kind), directory)| Some(OfferConfig::new(kind, directory.as_ref()?)))
            .collect();
        if let Some(name) = &self.name {
            the_one(&mut offers, "--name", &[MODEL, EMBEDDING, DIGITS, CHAT, LLAMA])?.name = Some(name.clone());
        }
        let text = |path: &Option<PathBuf>, flag| {
            path.as_ref()
                .map(|path| path.to_str().map(str::to_owned).with_context(|| format!("{flag}: not UTF-8")))
                .transpose()
        };
        let options: [(&str, &str, Option<String>, &[_]); 7] = [
            ("--head", "head", text(&self.head, "--head")?, &[MODEL]),
            ("--layer", "layer", text(&self.layer, "--layer")?, &[EMBEDDING]),
            ("--query", "query", self.query.map(|form| form.to_string()), &[MODEL, EMBEDDING]),
            ("--preset", "preset", self.preset.clone(), &[MODEL, EMBEDDING, DIGITS, CHAT, LLAMA]),
            ("--plan", "plan", self.plan.clone(), &[MODEL, EMBEDDING]),
            ("--error", "error", self.error.clone(), &[MODEL, EMBEDDING]),
            ("--batch", "batch", self.batch.map(|batch| batch.to_string()), &[DIGITS]),
        ];
        for (flag, option, value, flags) in options {
            let Some(value) = value else { continue };
            the_one(&mut offers, flag, flags)?.options.insert(option.into(), value);
        }
        let named = |kind: &'static str| {
            move |named: &NamedPath| OfferConfig { name: named.name.clone(), ..OfferConfig::new(kind, &named.path) }
        };
        offers.extend(self.matrix.iter().map(named("matrix")));
        offers.extend(self.database.iter().map(named("pir")));
        offers.extend(self.shard.iter().map(named("pir-shard")));
        offers.extend(self.router.iter().map(named("pir-router")));
        Ok(offers)
    }
}

/// The one offer that a flag belongs to, created by one of `flags`.
fn the_one<'a>(
    offers: &'a mut [OfferConfig],
    flag: &str,
    flags: &[(&str, &str)],
) -> anyhow::Result<&'a mut OfferConfig> {
    let names = flags.iter().map(|(flag, _)| *flag).collect::<Vec<_>>().join(", ");
    let mut matching: Vec<_> =
        offers.iter_mut().filter(|offer| flags.iter().any(|(_, kind)| *kind == offer.kind)).collect();
    match (matching.pop(), matching.len()) {
        (Some(offer), 0) => Ok(offer),
        (None, _) => {
            anyhow::bail!("{flag} belongs to one of {names}, and none is given; options of --offer follow its DIR")
        }
        (Some(_), more) => anyhow::bail!(
            "{flag} belongs to one of {names}, and {} are given; write --offer KIND:NAME=DIR,OPTION=VALUE for each",
            more + 1
        ),
    }
}
