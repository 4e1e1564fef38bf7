//! `unspoken chat`

use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use serde_json::json;
use unspoken_chat::{Answer, End, LlamaClient, PrivateGeneration, Question, SessionId};
use unspoken_client::transport::Cancel;
use unspoken_client::{Progress, ServiceClient};
use unspoken_llama_model::{ClientModel, Generation, TamedModel, TextStream};

use crate::commands::connection::{Target, usage_lines};
use crate::interrupt;
use crate::progress::{Bars, note};

/// Bytes of a query that are shown.
const SHOWN_BYTES: usize = 24;

/// Characters of a line of text, and of the text behind a progress bar.
const LINE: usize = 80;
const TAIL: usize = 40;

/// Continue a text with a service's language model, without revealing its private part
///
/// The text begins with a public part, which the service reads (context, instructions, documents), and ends with a
/// private one, which it computes with under encryption; so it does with the tokens that follow. The continuation goes
/// to standard output as it comes. Each pass of the service runs a chunk of tokens: its unused end holds guesses of the
/// next tokens, and right guesses give several tokens at once. The first call generates and uploads keys, some
/// gigabytes; later calls reuse them.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Directory of the client's half of the model, DIR/client of `unspoken llama prepare --out DIR`
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// Text in front of the private one, which the service reads
    #[arg(long, value_name = "TEXT", conflicts_with = "public_file")]
    public: Option<String>,
    /// File with the text in front of the private one, UTF-8
    #[arg(long, value_name = "FILE")]
    public_file: Option<PathBuf>,
    /// Text to continue, which the service does not see; other users of this machine may see arguments of commands
    /// [default: standard input]
    #[arg(long, value_name = "TEXT")]
    private: Option<String>,
    /// Maximum number of generated tokens. Generation also ends at the model's end token, or when the session is full
    #[arg(long, value_name = "N", default_value_t = 32)]
    max_tokens: usize,
    /// Directory of the service's half, to compare with what the model gives in the clear
    #[arg(long, value_name = "DIR")]
    check: Option<PathBuf>,
    /// Print one JSON object at the end, with the text, its tokens, and what it took
    #[arg(long)]
    json: bool,
}

/// What the service saw besides the public text.
#[derive(Default)]
pub struct Seen {
    /// Passes of each chunk.
    pub passes: Vec<usize>,
    /// Bytes of the last query.
    pub query_bytes: usize,
    /// Some of them, from the middle.
    pub bytes: Vec<u8>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let cancel = interrupt::on_ctrl_c()?;
    // Read first: a mistake must not cost a key upload.
    let model = Arc::new(ClientModel::load(&arguments.model).context("--model")?);
    let check = arguments.check.as_ref().map(|directory| TamedModel::load(directory).context("--check")).transpose()?;
    if let Some(check) = &check {
        anyhow::ensure!(check.id() == model.id(), "--check: a half of another model, {}", check.id());
    }
    let public = model.tokenizer().encode_behind(&public_text(arguments)?).context("--public")?;
    let private = model.tokenizer().encode_behind(&private_text(arguments)?).context("--private")?;
    anyhow::ensure!(!private.is_empty(), "found no private text, needed one token or more: name it with --private");
    anyhow::ensure!(arguments.max_tokens > 0, "--max-tokens: found 0, needed 1 or more");
    let (transport, application, state) = arguments.target.open(&cancel)?;
    let mut bars = Bars::new();
    let mut step = |step| bars.step(step);
    let mut client =
        ServiceClient::<LlamaClient>::connect(transport, &application, Arc::clone(&model), &state, &mut step, &cancel)?;
    let texts = (model.prefix(), public.as_slice(), private.as_slice());
    let ends = model.tokenizer().ends();
    let mut generation =
        PrivateGeneration::new(client.description(), SessionId::random()?, texts, ends, arguments.max_tokens)?;
    let prompt = generation.text().to_vec();
    let mut printed = Printed::new(model.tokenizer().stream(&prompt)?, arguments.json);
    let (start, mut seen) = (Instant::now(), Seen::default());
    while let Some(question) = generation.question() {
        // All tokens are known when only the session remains to be ended.
        let ended = generation.end().is_some();
        match ask(&mut client, &question, &mut bars, &mut seen, &cancel) {
            Ok(answer) => {
                if matches!(answer, Answer::Unknown) {
                    note("session     the service no longer has it; it begins again");
                }
                match generation.answer(&answer) {
                    Ok(new) => printed.push(&new, &mut bars)?,
                    Err(error) => {
                        printed.finish(&mut bars)?;
                        return Err(error.into());
                    }
                }
            }
            Err(_) if ended => break,
            Err(error) => {
                printed.finish(&mut bars)?;
                return Err(error);
            }
        }
    }
    printed.finish(&mut bars)?;
    bars.finish();
    let seconds = start.elapsed().as_secs_f64();
    let clear = check.map(|check| -> anyhow::Result<Vec<u32>> {
        Ok(Generation::new(check.model(), &prompt, ends)?.take(generation.tokens().len()).collect())
    });
    report(arguments, (&client, &generation), (&printed.text, seconds), &seen, clear.transpose()?.as_deref())
}

/// Asks one question. The line about the bytes of a query is printed for the first pass only.
pub fn ask(
    client: &mut ServiceClient<LlamaClient>,
    question: &Question,
    bars: &mut Bars,
    seen: &mut Seen,
    cancel: &Cancel,
) -> anyhow::Result<Answer> {
    let (mut quiet, mut chunk) = (true, None);
    if let Question::Pass { chunk: number, .. } = question {
        (quiet, chunk) = (!seen.passes.is_empty(), Some(*number as usize));
    }
    let mut step = |step: Progress| match step {
        Progress::QueriesToSend(_) if quiet => {}
        // One question at a time: a bar for it tells nothing.
        Progress::Asking { .. } => {}
        step => bars.step(step),
    };
    let mut show = |query: &[u8]| {
        seen.query_bytes = query.len();
        seen.bytes = query.iter().skip(query.len() / 2).take(SHOWN_BYTES).copied().collect();
    };
    let answer = match chunk {
        Some(_) => client.ask_and_show(&[question], &mut step, &mut show, cancel)?,
        None => client.ask(&[question], &mut step, cancel)?,
    };
    if let (Some(chunk), Some(Answer::Passed(_))) = (chunk, answer.first()) {
        seen.passes.resize(seen.passes.len().max(chunk + 1), 0);
        seen.passes[chunk] += 1;
    }
    answer.into_iter().next().context("the service gave no answer")
}

/// Text that is printed as it comes. On a terminal, where a bar would overwrite an unfinished line, lines are printed
/// when they are complete, and the end of the last one is shown behind the bar.
struct Printed<'a> {
    stream: TextStream<'a>,
    text: String,
    /// What was not printed yet.
    line: String,
    by_lines: bool,
    silent: bool,
}

impl<'a> Printed<'a> {
    fn new(stream: TextStream<'a>, silent: bool) -> Self {
        let by_lines = io::stdout().is_terminal() && io::stderr().is_terminal();
        Printed { stream, text: String::new(), line: String::new(), by_lines, silent }
    }

    fn push(&mut self, tokens: &[u32], bars: &mut Bars) -> anyhow::Result<()> {
        for token in tokens {
            let new = self.stream.push(*token)?;
            self.text += &new;
            self.line.extend(new.chars().map(printable));
        }
        if self.silent {
            return Ok(());
        }
        if !self.by_lines {
            print!("{}", std::mem::take(&mut self.line));
            return io::stdout().flush().context("cannot write to standard output");
        }
        while let Some(cut) = cut(&self.line) {
            let rest = self.line.split_off(cut);
            let line = std::mem::replace(&mut self.line, rest);
            bars.finish();
            println!("{}", line.trim_end_matches('\n'));
        }
        let skipped = self.line.chars().count().saturating_sub(TAIL);
        bars.message(&self.line.chars().skip(skipped).collect::<String>());
        Ok(())
    }

    /// Prints the rest.
    fn finish(&mut self, bars: &mut Bars) -> anyhow::Result<()> {
        bars.finish();
        if !self.silent {
            println!("{}", std::mem::take(&mut self.line));
        }
        io::stdout().flush().context("cannot write to standard output")
    }
}

/// A character of generated text for the terminal. The service decides which tokens come, and they must not control it.
fn printable(character: char) -> char {
    match character {
        '\n' | '\t' => character,
        control if control.is_control() => char::REPLACEMENT_CHARACTER,
        _ => character,
    }
}

/// Where the first complete line of a text ends.
fn cut(text: &str) -> Option<usize> {
    if let Some(place) = text.find('\n') {
        return Some(place + 1);
    }
    let (full, _) = text.char_indices().nth(LINE)?;
    Some(text[..full].rfind(' ').map_or(full, |place| place + 1))
}

fn public_text(arguments: &Arguments) -> anyhow::Result<String> {
    match (&arguments.public, &arguments.public_file) {
        (Some(text), _) => Ok(text.clone()),
        (None, Some(path)) => read(path),
        (None, None) => Ok(String::new()),
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    unspoken_files::read_text(path).with_context(|| format!("--public-file: cannot read {}", path.display()))
}

fn private_text(arguments: &Arguments) -> anyhow::Result<String> {
    if let Some(text) = &arguments.private {
        return Ok(text.clone());
    }
    if io::stdin().is_terminal() {
        note("private text, ended by Ctrl-D on a line of its own:");
    }
    let failed = "cannot read the private text from standard input";
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text).context(failed)?;
    let mut text = unspoken_files::decode_text(text).context(failed)?;
    // A line break at the end is the terminal's, not the text's.
    let length = text.strip_suffix('\n').map_or(text.len(), str::len);
    text.truncate(length);
    Ok(text)
}

/// Prints what it took, and what the service saw.
fn report(
    arguments: &Arguments,
    (client, generation): (&ServiceClient<LlamaClient>, &PrivateGeneration),
    (text, seconds): (&str, f64),
    seen: &Seen,
    clear: Option<&[u32]>,
) -> anyhow::Result<()> {
    let (statistics, usage) = (generation.statistics(), client.usage());
    let end = generation.end().unwrap_or(End::Maximum).to_string();
    let per_pass = seconds / statistics.passes.max(1) as f64;
    let tokens_per_pass = statistics.tokens as f64 / statistics.generating.max(1) as f64;
    let same = clear.map(|clear| clear == generation.tokens());
    if arguments.json {
        let line = json!({
            "tokens": generation.tokens(), "text": text, "end": end, "passes": statistics.passes,
            "passes_of_chunks": seen.passes, "restarts": statistics.restarts, "tokens_per_pass": tokens_per_pass,
            "guessed": statistics.guessed,
            "seconds": seconds, "seconds_per_pass": per_pass, "query_bytes": usage.query_bytes,
            "answer_bytes": usage.answer_bytes, "key_bytes": usage.key_bytes, "key_seconds": usage.key_seconds,
            "same_as_in_the_clear": same,
        });
        println!("{line}");
        return Ok(());
    }
    let description = client.description();
    eprintln!("tokens      {} in {seconds:.1} s, ended by the {end}", statistics.tokens);
    eprintln!(
        "passes      {} of {per_pass:.1} s, {} of them gave {tokens_per_pass:.2} tokens each; {} tokens were guessed",
        statistics.passes, statistics.generating, statistics.guessed
    );
    if let Some(same) = same {
        let told = if same { "the same tokens" } else { "other tokens" };
        eprintln!("in clear    the model gives {told}");
    }
    eprint!("{}", usage_lines(usage));
    let passes: Vec<String> = seen.passes.iter().map(usize::to_string).collect();
    eprintln!(
        "seen        the public text, chunks of {} tokens that took {} passes, and queries of {} bytes such as",
        description.chunk(),
        passes.join(" + "),
        seen.query_bytes
    );
    eprintln!("            ..{}..", hex::encode(&seen.bytes));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_text_does_not_control_the_terminal() {
        let printed = |text: &str| text.chars().map(printable).collect::<String>();
        assert_eq!(printed("a\tb\nÄ "), "a\tb\nÄ ");
        assert_eq!(printed("\u{1b}[2J\r\u{9b}x\u{7f}"), "\u{fffd}[2J\u{fffd}\u{fffd}x\u{fffd}");
    }
}
