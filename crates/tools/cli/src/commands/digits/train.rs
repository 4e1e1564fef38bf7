//! `unspoken digits train`

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use unspoken_digits_model::{LabelledImages, Shape, TrainOptions, fit};

use crate::commands::model_output::ModelOutput;
use crate::commands::seed::seed;
use crate::interrupt;
use crate::progress::Bars;

/// Train a network on labelled images
///
/// Images and labels are uncompressed files in MNIST's IDX format; `python3 scripts/fetch_data.py mnist` downloads
/// them. Only the service needs the network.
#[derive(clap::Args)]
pub struct Arguments {
    /// File of images, for instance data/mnist/train-images-idx3-ubyte
    #[arg(long)]
    images: PathBuf,
    /// File of labels
    #[arg(long)]
    labels: PathBuf,
    #[command(flatten)]
    out: ModelOutput,
    /// The network: E2DM-lite (2 channels, 32 hidden neurons), or E2DM (4 and 64)
    #[arg(long, value_enum, default_value = "lite")]
    network: Form,
    /// Number of epochs
    #[arg(long, default_value_t = TrainOptions::default().epochs)]
    epochs: usize,
    /// Number of images at the end of the file that are held out for validation
    #[arg(long, default_value_t = TrainOptions::default().validation)]
    validation: usize,
    /// Seed; the same seed gives the same network
    #[arg(long, default_value_t = 0, value_parser = seed, allow_negative_numbers = true)]
    seed: u64,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Form {
    Lite,
    Full,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let out = arguments.out.checked()?;
    let data = LabelledImages::read_files(&arguments.images, &arguments.labels)?;
    let shape = match arguments.network {
        Form::Lite => Shape::LITE,
        Form::Full => Shape::FULL,
    };
    let (epochs, validation, seed) = (arguments.epochs, arguments.validation, arguments.seed);
    let options = TrainOptions { shape, seed, epochs, validation, ..TrainOptions::default() };
    let cancel = interrupt::on_ctrl_c()?;
    let mut bars = Bars::new();
    let start = Instant::now();
    let network = fit(&data, &options, &mut |progress| bars.image_epoch(progress), cancel.flag())?;
    bars.finish();
    network.save(out).with_context(|| format!("cannot write {}", out.display()))?;
    let (record, seconds) = (network.training(), start.elapsed().as_secs_f64());
    println!("trained on {} images in {seconds:.1} s, wrote {}", record.examples, out.display());
    if let Some(accuracy) = record.validation_accuracy {
        println!("accuracy on {validation} images set aside: {accuracy:.4}");
    }
    Ok(())
}
