//! `unspoken digits ask`

use std::path::PathBuf;

use serde_json::json;
use unspoken_client::ServiceClient;
use unspoken_digits::{DigitsClient, Recognised};
use unspoken_digits_model::{Image, Network};
use unspoken_protocol::CkksDescription;

use super::read;
use crate::commands::connection::{Target, print_usage};
use crate::interrupt;
use crate::progress::Bars;
use crate::scores::{ScoreOptions, ShareOptions, error_of, rounded};

/// Digits per printed line.
const LINE: usize = 64;

/// Recognise images with an encrypted query to a service
///
/// The first call generates and uploads keys; later calls reuse them. The network is not needed here.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// File of images in MNIST's IDX format, for instance data/mnist/t10k-images-idx3-ubyte
    #[arg(long)]
    images: PathBuf,
    /// File of labels, to print the accuracy
    #[arg(long)]
    labels: Option<PathBuf>,
    /// Use only this many images, from the start of the file
    #[arg(long)]
    count: Option<usize>,
    /// Directory of the service's network, to compare the scores with the scores in the clear
    #[arg(long, conflicts_with = "share")]
    check: Option<PathBuf>,
    /// Print one JSON object per image with its scores, rounded so that the encryption error rarely changes a digit
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    scores: ScoreOptions,
    #[command(flatten)]
    share: ShareOptions,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let cancel = interrupt::on_ctrl_c()?;
    // Read first: a missing file must not cost a key upload.
    let (images, labels) = read(&arguments.images, arguments.labels.as_ref(), arguments.count)?;
    let network = arguments.check.as_ref().map(Network::load).transpose()?;
    let (transport, application, state) = arguments.target.open(&cancel)?;
    let mut bars = Bars::new();
    let mut step = |step| bars.step(step);
    let mut client = ServiceClient::<DigitsClient>::connect(transport, &application, (), &state, &mut step, &cancel)?;
    if let Some(network) = &network {
        let same = client.description().header().model_id() == network.id().to_bytes();
        anyhow::ensure!(same, "the service has another network than the one given with --check");
    }
    let results = client.ask(&images, &mut step, &cancel)?;
    bars.finish();
    let half = client.half();
    let share = |answers: &[_], bits| half.share(answers, bits);
    let shared = arguments.share.shared(results, share, |answer, bits| half.certainty(answer, bits))?;
    let (results, certainties): (Vec<Recognised>, Vec<Option<f64>>) = shared.into_iter().unzip();
    if arguments.json {
        for (i, (result, certainty)) in results.iter().zip(&certainties).enumerate() {
            let label = labels.as_ref().map(|labels| labels[i]);
            let scores = arguments.scores.printed(error_of(client.description().header()), result.scores);
            let digit = (!arguments.share.withholds(*certainty)).then_some(result.digit);
            let mut line = json!({ "digit": digit, "label": label, "scores": scores });
            if let Some(certainty) = certainty {
                line["certainty"] = json!(rounded(*certainty, -3));
            }
            println!("{line}");
        }
        return arguments.share.check(certainties.iter().copied());
    }
    let digit = |(result, certainty): (&Recognised, &Option<f64>)| {
        if arguments.share.withholds(*certainty) { "?".to_owned() } else { result.digit.to_string() }
    };
    let digits: Vec<String> = results.iter().zip(&certainties).map(digit).collect();
    describe(&client, &results, &digits, labels.as_deref());
    if let Some(least) = certainties.iter().flatten().copied().reduce(f64::min) {
        println!("certainty   {least:.2} at least, of each digit under the noise");
    }
    if let Some(network) = &network {
        compare(network, &images, &results);
    }
    arguments.share.check(certainties.iter().copied())
}

fn describe(client: &ServiceClient<DigitsClient>, results: &[Recognised], digits: &[String], labels: Option<&[u8]>) {
    for (i, line) in digits.chunks(LINE).enumerate() {
        println!("{:11} {}", if i == 0 { "digits" } else { "" }, line.concat());
    }
    if let Some(labels) = labels {
        let right = results.iter().zip(labels).filter(|&(result, &label)| result.digit == label).count();
        let share = 100.0 * right as f64 / results.len() as f64;
        println!("accuracy    {share:.2} %, {right} of {} images", results.len());
    }
    let (description, usage) = (client.description(), client.usage());
    let (preset, batch) = (description.parameters().name(), description.batch());
    println!("computed    with preset {preset}, {batch} images a query");
    print_usage(usage);
    let each = |seconds: f64| 1e3 * seconds / results.len() as f64;
    println!(
        "per image   {:.2} ms here, {:.2} ms at the service",
        each(usage.client_seconds),
        each(usage.server_seconds)
    );
}

/// Compares the answers with the network's results in the clear.
fn compare(network: &Network, images: &[Image], results: &[Recognised]) {
    let (mut differ, mut largest, mut scale) = (0, 0.0f64, 0.0f64);
    for (image, result) in images.iter().zip(results) {
        let clear = network.scores(image);
        differ += usize::from(network.digit(image) != result.digit);
        for (found, clear) in result.scores.iter().zip(clear) {
            largest = largest.max((found - clear).abs());
            scale = scale.max(clear.abs());
        }
    }
    println!("differ      {differ} of {} digits from the network's in the clear", images.len());
    println!("error       {largest:.2e} at most, in scores up to {scale:.1} (2^{:.1})", (largest / scale).log2());
}
