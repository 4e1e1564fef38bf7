//! `unspoken digits`

mod ask;
mod report;
mod train;

use std::path::PathBuf;

use unspoken_digits_model::{Image, LabelledImages};

/// Train a network on handwritten digits, and recognise images privately
#[derive(clap::Subcommand)]
pub enum Command {
    /// Train a network on labelled images
    Train(train::Arguments),
    /// Recognise images with an encrypted query to a service
    Ask(ask::Arguments),
    /// Report a network's accuracy and the cost of a private query to it
    Report(report::Arguments),
}

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Train(arguments) => train::run(arguments),
        Command::Ask(arguments) => ask::run(arguments),
        Command::Report(arguments) => report::run(arguments),
    }
}

/// The first `count` images of a file, and their labels if there is a file of them.
fn read(
    images: &PathBuf,
    labels: Option<&PathBuf>,
    count: Option<usize>,
) -> anyhow::Result<(Vec<Image>, Option<Vec<u8>>)> {
    let (mut images, mut labels) = match labels {
        Some(labels) => {
            let data = LabelledImages::read_files(images, labels)?;
            (data.images().to_vec(), Some(data.labels().to_vec()))
        }
        None => (Image::read_file(images)?, None),
    };
    let count = count.unwrap_or(images.len());
    images.truncate(count);
    if let Some(labels) = &mut labels {
        labels.truncate(count);
    }
    anyhow::ensure!(!images.is_empty(), "no images to recognise");
    Ok((images, labels))
}
