//! Queries random indices of a million records and compares every answer: `random_indices [PACKED [BITS [COMPACT]]]`,
//! the numbers of queries of each kind.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use unspoken_pir_scheme::{Database, Mode, PirSecret, Preset, answer};
use unspoken_ring::SecretRng;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(|count| count.parse::<usize>());
    let mut count = |default| arguments.next().unwrap_or(Ok(default));
    let counts = [(Mode::Packed, count(900)?), (Mode::Bits, count(50)?), (Mode::Compact, count(50)?)];
    let parameters = Preset::N11.build()?;
    let mut rng = SecretRng::from_os()?;
    let mut records = vec![0; parameters.piece_bytes() << 20];
    rng.fill(&mut records);
    let database = Database::new(&parameters, 0, &records)?;
    let shape = database.shape();
    let secret = PirSecret::generate(&parameters, &mut rng)?;
    let (mut exact, mut asked, started) = (0, 0, Instant::now());
    for (mode, count) in counts {
        let keys = secret.keys(mode, &mut rng)?.expand()?;
        for _ in 0..count {
            let mut bytes = [0; 8];
            rng.fill(&mut bytes);
            let index = u64::from_le_bytes(bytes) % shape.pieces;
            let query = secret.query(mode, shape, index, &mut rng)?;
            let responses = answer(&keys, shape, &[database.view()], &query, &AtomicBool::new(false))?;
            let start = index as usize * parameters.piece_bytes();
            asked += 1;
            exact += usize::from(
                *secret.extract(&responses[0], 0, index)? == records[start..start + parameters.piece_bytes()],
            );
        }
        println!("{exact} of {asked} exact after {mode} queries, {:.0} s", started.elapsed().as_secs_f64());
    }
    if exact == asked { Ok(()) } else { Err(format!("{} answers are wrong", asked - exact).into()) }
}
