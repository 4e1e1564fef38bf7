//! Both halves against each other and against the model in the clear, in a small insecure ring.

mod common;

use common::{CHUNK, CHUNKS, CLIENT, Party, setting, shared};
use unspoken_chat::End;

#[test]
fn generated_tokens_are_those_of_the_model_in_the_clear() {
    let start = std::time::Instant::now();
    let mut party = Party::new(shared(), CLIENT);
    println!("ready in {:?}", start.elapsed());
    for (number, (public, private)) in setting().stories[..2].iter().enumerate() {
        let mut generation = party.generation(number as u8, public, private, 12);
        let start = std::time::Instant::now();
        let told = party.run(&mut generation).unwrap();
        let statistics = generation.statistics();
        println!("{statistics:?} {:?}", start.elapsed());
        assert_eq!(told, setting().told(public, private, 12));
        assert_eq!((generation.end(), statistics.tokens), (Some(End::Maximum), 12));
        assert!(statistics.passes <= 12 + private.len() / CHUNK && CHUNKS * CHUNK > private.len() + 12);
    }
}
