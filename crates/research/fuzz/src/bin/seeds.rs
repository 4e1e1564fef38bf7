//! Writes the seeds of every target to a corpus folder, or lists the targets.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use unspoken_fuzz::TARGETS;

fn main() -> Result<(), Box<dyn Error>> {
    let argument = std::env::args().nth(1).ok_or("name the corpus folder, such as fuzz/corpus, or give --list")?;
    if argument == "--list" {
        TARGETS.iter().for_each(|target| println!("{}", target.name));
        return Ok(());
    }
    let corpus = PathBuf::from(argument);
    for target in TARGETS {
        let folder = corpus.join(target.name);
        fs::create_dir_all(&folder)?;
        for (index, seed) in (target.seeds)().iter().enumerate() {
            fs::write(folder.join(format!("seed-{index}")), seed)?;
        }
    }
    Ok(())
}
