//! `unspoken demo`: the whole product on one machine, with real data.

mod codes;
mod messages;
mod room;
mod search;
mod service;
mod story;

use std::path::PathBuf;

use crate::interrupt;
use unspoken_offers::DEFAULT_PRESET;

/// Number of bytes of a query to show.
const SAMPLE_BYTES: usize = 48;

/// Train, serve and query on this machine, and show what was sent
#[derive(clap::Args)]
pub struct Arguments {
    /// Labelled messages: a label, a tab and a text on each line
    #[arg(long, default_value = "data/sms/spam_collection.tsv")]
    data: PathBuf,
    /// Messages to classify
    #[arg(long, default_value_t = 512)]
    messages: usize,
    /// Parameter set of the classifier; `unspoken params` lists them
    #[arg(long, default_value = DEFAULT_PRESET)]
    preset: String,
    /// Seed of split and training
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Diagnoses: a table with the columns code and long_name
    #[arg(long, default_value = "data/icd10/icd10cm.csv")]
    codes: PathBuf,
    /// Directory with a table of embeddings, table.safetensors, and its tokenizer.json
    #[arg(long, default_value = "data/wordllama")]
    words: PathBuf,
    /// Language model that continues a story
    #[arg(long, default_value = "models/stories260K/stories260K.bin")]
    story_model: PathBuf,
    /// Run only this scene; may be given several times [default: all]
    #[arg(long = "scene", value_name = "SCENE")]
    scenes: Vec<Scene>,
}

/// A part of the demonstration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Scene {
    /// Classify messages
    Messages,
    /// Look diagnoses up
    Codes,
    /// Search diagnoses by meaning
    Search,
    /// Continue a story
    Story,
}

/// Runs the command: classifies messages, looks diagnoses up by code and by meaning, then continues a story.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let cancel = interrupt::on_ctrl_c()?;
    let asked = |scene: &Scene| arguments.scenes.is_empty() || arguments.scenes.contains(scene);
    let scenes = [Scene::Messages, Scene::Codes, Scene::Search, Scene::Story].into_iter().filter(asked);
    for (number, scene) in scenes.enumerate() {
        if number > 0 {
            println!();
        }
        match scene {
            Scene::Messages => messages::run(arguments, &cancel)?,
            Scene::Codes => codes::run(&arguments.codes, &cancel)?,
            Scene::Search => search::run(&arguments.codes, &arguments.words, &cancel)?,
            Scene::Story => story::run(&arguments.story_model, &cancel)?,
        }
    }
    Ok(())
}

/// Prints the results, one per line.
fn print(rows: &[(&str, String)]) {
    println!();
    for (what, value) in rows {
        println!("{what:40} {value}");
    }
}
