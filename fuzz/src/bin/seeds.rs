//! Writes the seeds of every target to the given corpus folder, and checks that the decoders accept them.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use unspoken_fuzz::TARGETS;

fn main() -> Result<(), Box<dyn Error>> {
    let corpus = PathBuf::from(std::env::args().nth(1).ok_or("name the corpus folder, such as fuzz/corpus")?);
    for target in TARGETS {
        let folder = corpus.join(target.name);
        fs::create_dir_all(&folder)?;
        for (index, seed) in (target.seeds)().iter().enumerate() {
            let mut repaired = seed.clone();
            (target.repair)(&mut repaired);
            if !(target.run)(seed) || !(target.run)(&repaired) {
                return Err(format!("{}: its decoder refuses seed {index}", target.name).into());
            }
            fs::write(folder.join(format!("seed-{index}")), seed)?;
            println!("{}: seed {index}, {} bytes", target.name, seed.len());
        }
    }
    Ok(())
}
