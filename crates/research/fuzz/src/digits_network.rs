//! Targets for the files of a digit network, and of images with their labels; an input holds the files one after the
//! other.

use std::fs;

use unspoken_digits_model::{Image, LabelledImages, Network, PIXELS};

use crate::Target;
use crate::files::{self, Directory};
use crate::fixtures::NETWORK;

const FILES: [&str; 2] = ["digits.json", "digits.safetensors"];

/// `Network::load`: a loaded network can be saved and loaded again without a change; scores are within the announced
/// bounds.
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

const DATA: [&str; 2] = ["images", "labels"];

/// `LabelledImages::read_files`: each image has a digit, and there are no more images than fit the file.
pub static IDX: Target = Target {
    name: "digits_idx",
    run: |data| {
        let directory = Directory::of(data, &DATA);
        let [images, labels] = DATA.map(|name| directory.path().join(name));
        let Ok(read) = LabelledImages::read_files(&images, &labels) else { return false };
        assert_eq!(fs::read(&images).expect("reads").len(), 16 + PIXELS * read.len());
        assert!(read.images().len() == read.labels().len() && read.labels().iter().all(|&label| label < 10));
        true
    },
    repair: |data| {
        // Writes both headers, for all items for which the file has bytes of images.
        let mut read = files::copied(data, 2);
        read.resize(2, Vec::new());
        let count = read[0].len().saturating_sub(16) / PIXELS;
        for (file, header) in read.iter_mut().zip([&[0x803, count as u32, 28, 28][..], &[0x801, count as u32]]) {
            let item = if header.len() == 4 { PIXELS } else { 1 };
            file.resize(4 * header.len() + count * item, 0);
            for (bytes, word) in file.chunks_exact_mut(4).zip(header) {
                bytes.copy_from_slice(&word.to_be_bytes());
            }
        }
        read[1].iter_mut().skip(8).for_each(|label| *label %= 10);
        *data = files::join(read.iter().map(Vec::as_slice));
    },
    seeds: || {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
        let images = [words(&[0x803, 3, 28, 28]), (0..3 * PIXELS).map(|i| (i * i % 251) as u8).collect()].concat();
        let labels = [words(&[0x801, 3]), vec![7, 2, 1]].concat();
        vec![files::join([&images[..], &labels].into_iter())]
    },
};
