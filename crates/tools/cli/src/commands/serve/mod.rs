//! `unspoken serve`

mod database;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use database::Named;
use unspoken_ckks::{CkksParameters, Preset};
use unspoken_classify::ClassifyServer;
use unspoken_digits::DigitsServer;
use unspoken_digits_model::Network;
use unspoken_embed::{EmbedOptions, EmbedServer};
use unspoken_embedding::Subtables;
use unspoken_fasttext::ScoreTables;
use unspoken_lookup::Plan;
use unspoken_query::QueryForm;
use unspoken_server::{
    Applications, LogFormat, PrivateApplication, Server, ServerConfig, TlsFiles, init_logging, shutdown_signal,
};

/// The preset of text classifiers unless told otherwise.
pub const DEFAULT_PRESET: &str = "n15_depth8_scale50";

/// The preset for compact queries unless told otherwise.
pub const COMPACT_PRESET: &str = "n16_boot_depth8_scale50";

/// The preset for images of digits unless told otherwise: five levels, and the fewest bytes of those that have them.
pub const DIGITS_PRESET: &str = "n14_real_depth8_scale30";

/// Time for answers that ignore the end.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// Offer databases, a text classifier, an embedding table or a network for digits as a service
///
/// Prints one line of JSON with the address on standard output when it listens, and its log on standard error. Flags go
/// before the configuration file.
#[derive(clap::Args)]
pub struct Arguments {
    /// Directory with a database that `unspoken pir build` made, and its name in the service's URL [default name:
    /// pir/DIRECTORY]; may be given several times, also beside a model. Changes of the database are taken up while it is
    /// served
    #[arg(long, value_name = "[NAME=]DIR")]
    database: Vec<Named>,
    /// Directory with a text classifier's server half
    #[arg(long, required_unless_present_any = ["embedding", "digits", "database"])]
    model: Option<PathBuf>,
    /// Directory with a compressed embedding table's server half
    #[arg(long, conflicts_with = "model")]
    embedding: Option<PathBuf>,
    /// Directory with a network for handwritten digits
    #[arg(long, conflicts_with_all = ["model", "embedding", "query", "plan"])]
    digits: Option<PathBuf>,
    /// Images one query holds, a power of two [default: as many as fit]
    #[arg(long, requires = "digits")]
    batch: Option<usize>,
    /// Name of the model in the service's URL [default: classify/text, embed/table or digits/mnist]
    #[arg(long)]
    name: Option<String>,
    /// How clients send what they look up: direct (125 bytes a token and subtable at the default parameters), compact (4
    /// bytes, and a bootstrap of some seconds on the service), or one-hot (the baseline: `p` times direct)
    #[arg(long, default_value = "direct", value_parser = clap::value_parser!(QueryForm))]
    query: QueryForm,
    /// Parameter set; `unspoken params` lists them [default: n15_depth8_scale50 for a classifier, the cheapest one that
    /// fits for a table, n16_boot_depth8_scale50 for compact queries, n14_real_depth8_scale30 for digits]
    #[arg(long)]
    preset: Option<String>,
    /// How the lookup is computed: auto, paper, complex-first, lazy-last, or baby-giant-M for a power of two M
    #[arg(long, default_value = "auto")]
    plan: String,
    /// Configuration file, TOML or JSON
    #[arg(long)]
    config: Option<PathBuf>,
    /// Address to listen on; port 0 takes a free one [default: 127.0.0.1:8080]
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Directory for clients' keys [default: unspoken-data]
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// File of access tokens, as `unspoken keys token` makes them
    #[arg(long)]
    tokens: Option<PathBuf>,
    /// Serve everyone who can reach the address
    #[arg(long)]
    allow_anonymous: bool,
    /// TLS certificate chain, PEM
    #[arg(long, requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// TLS private key, PEM
    #[arg(long, requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Answers computed at once [default: the number of cores]
    #[arg(long)]
    workers: Option<usize>,
    /// Memory for keys and work, in MiB [default: 4096]
    #[arg(long)]
    memory_mib: Option<u64>,
    /// QueryForm of the log
    #[arg(long, value_enum, default_value = "text")]
    log: Log,
    /// What the log shows, for instance info or unspoken_server=debug
    #[arg(long, default_value = "info")]
    log_filter: String,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Log {
    Text,
    Json,
}

/// Runs the command.
pub fn run(arguments: Arguments) -> anyhow::Result<()> {
    let format = match arguments.log {
        Log::Text => LogFormat::Text,
        Log::Json => LogFormat::Json,
    };
    init_logging(format, &arguments.log_filter)?;
    let config = configuration(&arguments)?;
    let applications = database::add(applications(&arguments)?, &arguments.database)?;
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let server = Server::bind(config, applications).await?;
        println!("{}", serde_json::json!({ "listening": format!("{scheme}://{}", server.local_addr()?) }));
        server.run(shutdown_signal()).await;
        anyhow::Ok(())
    });
    runtime.shutdown_timeout(LAST_WAIT);
    served
}

fn applications(arguments: &Arguments) -> anyhow::Result<Applications> {
    let name = |default: &str| arguments.name.clone().unwrap_or_else(|| default.into());
    if let Some(directory) = &arguments.digits {
        let parameters = secure(arguments.preset.as_deref().unwrap_or(DIGITS_PRESET))?;
        let recogniser = DigitsServer::new(&Network::load(directory)?, &parameters, arguments.batch)?;
        return Ok(Applications::new().with(PrivateApplication::new(name("digits/mnist"), recogniser))?);
    }
    let plan = match arguments.plan.as_str() {
        "auto" => None,
        name => Some(name.parse::<Plan>()?),
    };
    if let Some(directory) = &arguments.embedding {
        let subtables = Subtables::load(directory)?;
        let options = EmbedOptions { plan, query: arguments.query, ..EmbedOptions::default() };
        let parameters = match &arguments.preset {
            Some(preset) => secure(preset)?,
            None => EmbedServer::best_preset(subtables.shape(), &options)?,
        };
        let embedder = EmbedServer::new(&subtables, &parameters, &options)?;
        return Ok(Applications::new().with(PrivateApplication::new(name("embed/table"), embedder))?);
    }
    let Some(directory) = &arguments.model else { return Ok(Applications::new()) };
    let tables = ScoreTables::load(directory)?;
    let default = if arguments.query == QueryForm::Compact { COMPACT_PRESET } else { DEFAULT_PRESET };
    let parameters = secure(arguments.preset.as_deref().unwrap_or(default))?;
    let classifier = match plan {
        None => ClassifyServer::with_best_plan(&tables, &parameters, arguments.query)?,
        Some(plan) => ClassifyServer::new(&tables, &parameters, arguments.query, plan)?,
    };
    Ok(Applications::new().with(PrivateApplication::new(name("classify/text"), classifier))?)
}

/// A preset by name, unless it is one for tests.
pub fn secure(preset: &str) -> anyhow::Result<CkksParameters> {
    let parameters = Preset::find(preset)?.build()?;
    anyhow::ensure!(!parameters.rlwe().is_insecure(), "preset {preset} is for tests; choose a secure one");
    Ok(parameters)
}

fn configuration(arguments: &Arguments) -> anyhow::Result<ServerConfig> {
    let mut config = match &arguments.config {
        Some(path) => ServerConfig::from_file(path).with_context(|| format!("cannot use {}", path.display()))?,
        None => ServerConfig::default(),
    };
    if let Some(listen) = arguments.listen {
        config.listen = listen;
    }
    if let Some(dir) = &arguments.data_dir {
        config.data_dir = dir.clone();
    }
    if let Some(tokens) = &arguments.tokens {
        config.tokens = Some(tokens.clone());
    }
    if let (Some(certificate), Some(key)) = (&arguments.tls_certificate, &arguments.tls_key) {
        config.tls = Some(TlsFiles { certificate: certificate.clone(), key: key.clone() });
    }
    if let Some(workers) = arguments.workers {
        config.workers = workers;
    }
    if let Some(mib) = arguments.memory_mib {
        config.limits.memory_bytes = mib << 20;
    }
    config.allow_anonymous |= arguments.allow_anonymous;
    Ok(config)
}
