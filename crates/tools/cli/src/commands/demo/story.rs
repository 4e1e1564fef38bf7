//! A language model: it is prepared, served, and continues a story whose end it does not see.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use unspoken_chat::{ChatClient, PrivateGeneration, SessionId};
use unspoken_client::transport::Cancel;
use unspoken_client::{ServiceClient, StateDir, UsageStats};
use unspoken_llama_files::load;
use unspoken_llama_model::{ClientModel, Generation, RotatedModel};

use super::service::Service;
use super::{print, room};
use crate::commands::chat::{Seen, ask};
use crate::progress::Bars;

const APPLICATION: &str = "chat/stories260k";

/// The beginning of the story, which the service reads, and its turn, which it does not see.
const PUBLIC: &str = "Once upon a time, there was a little girl named Lily. She had a big red ball.";
const PRIVATE: &str = " One day she wanted to play outside with her";

/// Tokens that the service gives: one word of this model.
const TOKENS: usize = 2;

/// Memory of the service, and memory of the client, which makes keys before the service uses its memory.
const SERVICE_MIB: u64 = 13_000;
const CLIENT_MIB: u64 = 1_000;

/// Disk space for keys.
const DISK_MIB: u64 = 6_000;

/// Tokens of a window of text for the preparation: public and private ones.
const WINDOW: [&str; 2] = ["48", "48"];

/// Runs this part of the demonstration, if the machine has room for it.
pub fn run(model: &Path, cancel: &Cancel) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let loaded = load(model, None)?;
    let config = &loaded.model.config;
    println!("model       {}, width {}, {} layers", model.display(), config.width, config.layers);
    let memory = (SERVICE_MIB + CLIENT_MIB) << 20;
    let needs = format!("{:.1} GB of memory and {:.1} GB of disk", gigabytes(memory), gigabytes(DISK_MIB << 20));
    if let Some(lack) = room::lack(memory, folder.path(), DISK_MIB << 20) {
        println!("skipped     an encrypted pass needs {needs}: {lack}");
        return Ok(());
    }
    println!("needs       {needs}, for some minutes");
    drop(loaded);
    let prepared = prepare(model, folder.path())?;
    let service = serve(&prepared, folder.path())?;
    println!("service     {} offers {APPLICATION}", service.url);
    let told = ask_for_more(&service, &prepared, folder.path(), cancel)?;
    // The model in the clear, for comparison.
    let rotated = RotatedModel::load(&prepared)?;
    let clear: Vec<u32> = Generation::new(rotated.model(), &told.prompt, &told.ends)?.take(told.tokens.len()).collect();
    let client = ClientModel::load(&prepared.join("client"))?;
    let text = |tokens: &[u32]| -> anyhow::Result<String> {
        let mut stream = client.tokenizer().stream(&told.prompt)?;
        let parts = tokens.iter().map(|token| stream.push(*token)).collect::<Result<Vec<_>, _>>()?;
        Ok(parts.concat())
    };
    println!("\npublic      {PUBLIC}");
    println!("private    {PRIVATE}");
    println!("encrypted  {}", text(&told.tokens)?);
    println!("in clear   {}", text(&clear)?);
    told.report(bootstraps(folder.path()));
    anyhow::ensure!(told.tokens == clear, "the encrypted pass gives other tokens than the model in the clear");
    Ok(())
}

fn gigabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e9
}

/// Prepares the model on stories that it tells itself.
fn prepare(model: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    let start = Instant::now();
    let out = folder.join("stories260K");
    let [public, private] = WINDOW;
    let prepared = Command::new(std::env::current_exe()?)
        .args(["llama", "prepare", "--public", public, "--private", private, "--chunk", "16", "--tokens", "3000"])
        .args(["--skip-report", "--draft-tokens", "8000", "--model"])
        .arg(model)
        .arg("--out")
        .arg(&out)
        .stdout(Stdio::null())
        .output()
        .context("cannot prepare the model")?;
    let said = String::from_utf8_lossy(&prepared.stderr);
    anyhow::ensure!(prepared.status.success(), "the model was not prepared:\n{said}");
    println!("prepared    on general text and stories of its own in {:.1} s", start.elapsed().as_secs_f64());
    Ok(out)
}

/// Starts a service with room for one session.
fn serve(prepared: &Path, folder: &Path) -> anyhow::Result<Service> {
    let mut offer = std::ffi::OsString::from(format!("chat:{APPLICATION}="));
    offer.push(prepared);
    offer.push(",chunk=16,chunks=2,sessions=1,sessions_per_client=1");
    let memory = SERVICE_MIB.to_string();
    let limits = ["--workers", "1", "--memory-mib", &memory, "--log", "json", "--offer"];
    Service::start(limits.iter().map(AsRef::as_ref).chain([offer.as_os_str()]), folder)
}

/// Vectors that a pass bootstraps, as the log of the service says.
fn bootstraps(folder: &Path) -> Option<u64> {
    let log = std::fs::read_to_string(folder.join("service.log")).ok()?;
    let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    lines.into_iter().find_map(|line| line["bootstraps"].as_u64())
}

/// What the client got and the service saw.
struct Told {
    /// Prefix, public and private tokens.
    prompt: Vec<u32>,
    tokens: Vec<u32>,
    ends: Vec<u32>,
    chunk: usize,
    usage: UsageStats,
    seen: Seen,
    /// Seconds of all passes.
    seconds: f64,
}

/// Continues the story. The client has only its half of the model.
fn ask_for_more(service: &Service, prepared: &Path, folder: &Path, cancel: &Cancel) -> anyhow::Result<Told> {
    let mut bars = Bars::new();
    let model = Arc::new(ClientModel::load(&prepared.join("client"))?);
    let state = StateDir::open(&folder.join("client"), &service.url, APPLICATION)?;
    let mut step = |step| bars.step(step);
    let mut client = ServiceClient::<ChatClient>::connect(
        service.transport()?,
        APPLICATION,
        Arc::clone(&model),
        &state,
        &mut step,
        cancel,
    )?;
    let [public, private] = [PUBLIC, PRIVATE].map(|text| model.tokenizer().encode_continuation(text));
    let (public, private) = (public?, private?);
    let ends = model.tokenizer().ends();
    let texts = (model.prefix(), public.as_slice(), private.as_slice());
    let generation = PrivateGeneration::new(client.description(), SessionId::random()?, texts, ends, TOKENS)?;
    let mut generation = generation.with_draft_texts(model.draft_texts().cloned());
    let prompt = generation.text().to_vec();
    let (start, mut seen) = (Instant::now(), Seen::default());
    while let Some(question) = generation.question() {
        let answer = ask(&mut client, &question, &mut bars, &mut seen, cancel)?;
        generation.answer(&answer)?;
    }
    bars.finish();
    Ok(Told {
        prompt,
        tokens: generation.tokens().to_vec(),
        ends: ends.to_vec(),
        chunk: client.description().chunk(),
        usage: client.usage(),
        seen,
        seconds: start.elapsed().as_secs_f64(),
    })
}

impl Told {
    fn report(&self, bootstraps: Option<u64>) {
        let passes: usize = self.seen.passes.iter().sum();
        let each = |total: f64| total / passes.max(1) as f64;
        let chunks: Vec<String> = self.seen.passes.iter().map(usize::to_string).collect();
        let query_name = format!("bytes of a query of {} tokens", self.chunk);
        let chunk_name = "what the service saw: passes of chunks";
        let mut rows = vec![
            ("tokens", self.tokens.len().to_string()),
            ("passes", passes.to_string()),
            ("bytes of keys, once", self.usage.key_bytes.to_string()),
            ("seconds making and sending keys, once", format!("{:.1}", self.usage.key_seconds)),
            (query_name.as_str(), self.seen.query_bytes.to_string()),
            ("bytes of answer per pass", format!("{:.0}", each(self.usage.answer_bytes as f64))),
            ("seconds per pass", format!("{:.1}", each(self.seconds))),
        ];
        if let Some(bootstraps) = bootstraps {
            rows.push(("bootstraps per pass", bootstraps.to_string()));
        }
        rows.extend([
            ("what the service saw: text", PUBLIC.to_owned()),
            (chunk_name, chunks.join(" + ")),
            ("what the service saw: of the last query", format!("{}...", hex::encode(&self.seen.bytes))),
        ]);
        print(&rows);
    }
}
