//! `unspoken digits report`

use std::path::PathBuf;

use serde_json::json;
use unspoken_digits::DigitsServer;
use unspoken_digits_model::Network;
use unspoken_protocol::{CkksServerHalf, ServerHalf};
use unspoken_rlwe::KeyBundle;

use super::read;
use unspoken_offers::{DIGITS_PRESET, secure};

/// Report a network's accuracy and the cost of a private query to it
#[derive(clap::Args)]
pub struct Arguments {
    /// Directory of the network
    model: PathBuf,
    /// File of test images, in MNIST's IDX format
    #[arg(long, requires = "labels")]
    images: Option<PathBuf>,
    /// File of labels of the test images
    #[arg(long, requires = "images")]
    labels: Option<PathBuf>,
    /// Parameter set of the queries
    #[arg(long, default_value = DIGITS_PRESET)]
    preset: String,
    /// Images per query: a power of two [default: the most that fit]
    #[arg(long)]
    batch: Option<usize>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let network = Network::load(&arguments.model)?;
    let recogniser = DigitsServer::new(&network, &secure(&arguments.preset)?, arguments.batch)?;
    let (shape, record) = (network.shape(), network.training());
    let accuracy = arguments.images.as_ref().map(|images| judge(&network, images, arguments.labels.as_ref()));
    let accuracy = accuracy.transpose()?;
    let header = recogniser.header();
    let key_bytes = KeyBundle::byte_len(header.parameters().rlwe(), header.key_plan());
    let (description, limits) = (recogniser.description(), recogniser.limits());
    if arguments.json {
        let line = json!({
            "channels": shape.channels, "hidden": shape.hidden, "parameters": shape.parameters(),
            "training": record, "accuracy": accuracy.map(|(share, _)| share), "score_bound": header.bound(),
            "preset": arguments.preset, "batch": description.batch(), "levels": description.query_level(),
            "query_bytes": limits.query_bytes, "answer_bytes": limits.answer_bytes,
            "keys": header.key_plan().len(), "key_bytes": key_bytes,
            "model_bytes": recogniser.prepared_bytes(), "working_bytes": limits.working_bytes,
        });
        println!("{line}");
        return Ok(());
    }
    println!(
        "network     {} channels, {} hidden neurons, {} numbers",
        shape.channels,
        shape.hidden,
        shape.parameters()
    );
    println!("trained     {} epochs of {} images, seed {}", record.epochs, record.examples, record.seed);
    if let Some((share, count)) = accuracy {
        println!("accuracy    {:.2} % of {count} images, in the clear", 100.0 * share);
    }
    println!("scores      {:.1} at most", header.bound());
    println!(
        "question    {} images in {} vectors of preset {}, {} levels",
        description.batch(),
        description.layout().vectors(),
        arguments.preset,
        description.query_level()
    );
    println!("query       {} bytes", limits.query_bytes);
    println!("answer      {} bytes at most", limits.answer_bytes);
    println!("keys        {}, {key_bytes} bytes", header.key_plan().len());
    println!(
        "memory      {} MiB for the network, {} MiB for each query",
        recogniser.prepared_bytes() >> 20,
        limits.working_bytes >> 20
    );
    Ok(())
}

/// The network's accuracy on the images, and the number of images.
fn judge(network: &Network, images: &PathBuf, labels: Option<&PathBuf>) -> anyhow::Result<(f64, usize)> {
    let (images, labels) = read(images, labels, None)?;
    let labels = labels.unwrap_or_default();
    let right = images.iter().zip(&labels).filter(|&(image, &label)| network.digit(image) == label).count();
    Ok((right as f64 / images.len() as f64, images.len()))
}
