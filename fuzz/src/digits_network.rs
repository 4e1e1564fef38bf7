//! The files of a digit network, one after the other.

use std::fs;
use std::sync::LazyLock;

use unspoken_digits::{Image, Network, PIXELS, Shape, TrainingRecord};

use crate::Target;
use crate::files::{self, Directory};

const FILES: [&str; 2] = ["digits.json", "digits.safetensors"];

static NETWORK: LazyLock<Network> = LazyLock::new(|| {
    let shape = Shape { channels: 1, hidden: 16 };
    let parameters = (0..shape.parameters()).map(|i| (i % 11) as f64 / 16.0 - 0.25).collect();
    Network::new(shape, parameters, TrainingRecord::default()).expect("a network")
});

/// `Network::load`: what it reads, it writes again; scores are finite and within the bounds announced.
pub static FILES_OF_NETWORK: Target = Target {
    name: "digits_network",
    run: |data| {
        let directory = Directory::of(data, &FILES);
        let Ok(network) = Network::load(directory.path()) else { return false };
        let again = Directory::empty();
        network.save(again.path()).expect("saves");
        let read = Network::load(again.path()).expect("its own files");
        assert_eq!((read.id(), read.parameters()), (network.id(), network.parameters()));
        let image = Image::new(&[255; PIXELS]).expect("an image");
        let bound = network.bounds().scores * (1.0 + 1e-9);
        assert!(network.scores(&image).iter().all(|score| score.abs() <= bound));
        assert!(network.digit(&image) < 10);
        true
    },
    repair: |data| files::repair(data, &FILES),
    seeds: || {
        let directory = Directory::empty();
        NETWORK.save(directory.path()).expect("saves");
        let read = FILES.map(|name| fs::read(directory.path().join(name)).expect("reads"));
        vec![files::join(read.iter().map(Vec::as_slice))]
    },
};
