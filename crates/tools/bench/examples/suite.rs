//! Runs a suite and prints its rows as JSON lines; what is being measured goes to standard error.
//!
//! ```text
//! cargo run --release -p unspoken-bench --example suite -- engine [--quick] [--cpu-time] [--no-peers] [--only PART]
//!     [--table DIR]
//! ```

use std::error::Error;

use unspoken_bench::{Clock, Machine, Options, Row, Suite, run};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let suite: Suite = arguments.first().ok_or("name a suite: engine, lookup, matrix, encrypt or pir")?.parse()?;
    let clock = if has("--cpu-time") { Clock::Cpu } else { Clock::Wall };
    let only = arguments.windows(2).filter(|pair| pair[0] == "--only").map(|pair| pair[1].clone()).collect();
    let table = arguments.windows(2).find(|pair| pair[0] == "--table").map(|pair| pair[1].clone().into());
    let (quick, peers) = (has("--quick"), !has("--no-peers"));
    let options = Options { quick, peers, clock, only, table, ..Options::default() };
    eprintln!("{}", Machine::detect());
    let mut print = |row: Row| println!("{}", serde_json::to_string(&row).unwrap_or_else(|error| error.to_string()));
    run(suite, &options, &mut print, &mut |message| eprintln!("  {message}"))?;
    Ok(())
}
