//! Trains on MNIST and reports accuracy.
//!
//! ```text
//! python3 scripts/fetch_data.py mnist
//! cargo run --release -p unspoken-digits --example mnist -- data/mnist
//! ```

use std::error::Error;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use unspoken_digits::{LabelledImages, Part, Shape, TrainOptions, fit};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("name the folder of the data")?;
    let shape = if arguments.next().as_deref() == Some("full") { Shape::FULL } else { Shape::LITE };
    let train = LabelledImages::read(&directory, Part::Train)?;
    let test = LabelledImages::read(&directory, Part::Test)?;
    let start = Instant::now();
    let options = TrainOptions { shape, ..TrainOptions::default() };
    let mut progress = |p: &unspoken_digits::Progress| {
        println!(
            "epoch {:2}: loss {:.4}, training {:.4}, validation {:.4}, {:.1} s",
            p.epoch,
            p.loss,
            p.training_accuracy,
            p.validation_accuracy.unwrap_or(f64::NAN),
            start.elapsed().as_secs_f64()
        );
    };
    let network = fit(&train, &options, &mut progress, &AtomicBool::new(false))?;
    println!("test accuracy {:.4}", network.accuracy(&test));
    println!("ranges on test images {:?}", network.ranges(test.images()));
    println!("bounds {:?}", network.bounds());
    network.save(std::path::Path::new(&directory).join(format!("e2dm-{}", shape.channels)))?;
    Ok(())
}
