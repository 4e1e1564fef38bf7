//! Trains on the SMS spam collection with each of several seeds and prints the accuracy on the held-out tenth, with
//! hard codes.
//!
//! ```text
//! python3 scripts/fetch_data.py sms
//! cargo run --release -p unspoken-fasttext --example sms -- data/sms/spam_collection.tsv 5
//! ```

use std::error::Error;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use unspoken_fasttext::{TrainOptions, fit_with_validation};
use unspoken_store::Dataset;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("name the data file and the number of seeds")?;
    let seeds: u64 = arguments.next().as_deref().unwrap_or("5").parse()?;
    let data = Dataset::read_tab_separated(path)?;
    let mut sum = 0.0;
    println!("seed  vocabulary  majority  validation    test  seconds");
    for seed in 0..seeds {
        let start = Instant::now();
        let split = data.split(0.1, 0.1, seed)?;
        let options = TrainOptions { seed, ..TrainOptions::default() };
        let never = AtomicBool::new(false);
        let model = fit_with_validation(&split.train, &split.validation, &options, &mut |_| {}, &never)?;
        let test = model.accuracy(&split.test);
        sum += test;
        println!(
            "{seed:4}  {:10}  {:8.4}  {:10.4}  {test:6.4}  {:7.1}",
            model.encoder().vocabulary().len(),
            split.test.majority_share(),
            model.training().validation_accuracy.unwrap_or(f64::NAN),
            start.elapsed().as_secs_f64(),
        );
    }
    println!("mean test accuracy {:.4}", sum / seeds as f64);
    Ok(())
}
