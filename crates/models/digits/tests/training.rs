//! Tests of plaintext data, training and files.

use std::fs;
use std::sync::atomic::AtomicBool;

use unspoken_digits_model::{
    DigitsModelError, Image, LabelledImages, Network, PIXELS, Part, Shape, TrainOptions, TrainingRecord, fit,
};

/// Images of bars whose height is the label.
fn bars(count: usize) -> LabelledImages {
    let image = |i: usize| {
        let (label, left) = (i % 10, 6 + i / 10 % 8);
        let pixels: Vec<u8> = (0..PIXELS)
            .map(|p| if (left..left + 6).contains(&(p % 28)) && p / 28 < 4 + 2 * label { 200 } else { 0 })
            .collect();
        Image::new(&pixels).unwrap()
    };
    LabelledImages::new((0..count).map(image).collect(), (0..count).map(|i| (i % 10) as u8).collect()).unwrap()
}

fn quick() -> TrainOptions {
    let shape = Shape { channels: 1, hidden: 16 };
    TrainOptions { shape, seed: 5, epochs: 30, batch: 32, shift: 0, validation: 40, ..TrainOptions::default() }
}

fn never() -> AtomicBool {
    AtomicBool::new(false)
}

#[test]
fn training_learns_repeats_and_keeps_values_small() {
    let data = bars(400);
    let mut last = None;
    let network = fit(&data, &quick(), &mut |p| last = Some(*p), &never()).unwrap();
    assert!(network.accuracy(&data) > 0.95, "{}", network.accuracy(&data));
    assert_eq!(last.unwrap().validation_accuracy, network.training().validation_accuracy);
    let (ranges, bounds) = (network.ranges(data.images()), network.bounds());
    assert!(ranges.convolution <= 8.0 + 1e-9 && ranges.hidden <= 8.0 + 1e-9, "{ranges:?}");
    assert!(ranges.convolution <= bounds.convolution && ranges.scores <= bounds.scores, "{bounds:?}");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    let again = pool.install(|| fit(&data, &quick(), &mut |_| {}, &never())).unwrap();
    assert_eq!(again.id(), network.id());
}

#[test]
fn training_refuses_options_and_stops_when_told() {
    let data = bars(50);
    let bad = TrainOptions { validation: 50, ..quick() };
    assert!(matches!(
        fit(&data, &bad, &mut |_| {}, &never()),
        Err(DigitsModelError::Option { name: "validation", .. })
    ));
    let bad = TrainOptions { shape: Shape { channels: 3, hidden: 16 }, ..quick() };
    let error = fit(&data, &bad, &mut |_| {}, &never()).unwrap_err().to_string();
    assert!(error.starts_with("train: found channels = 3") && error.ends_with("change the option"), "{error}");
    let cancelled = fit(&data, &quick(), &mut |_| {}, &AtomicBool::new(true));
    assert!(matches!(cancelled, Err(DigitsModelError::Cancelled { epoch: 1 })));
}

#[test]
fn files_come_back_as_they_were_and_damage_is_found() {
    let shape = Shape { channels: 1, hidden: 16 };
    let parameters: Vec<f64> = (0..shape.parameters()).map(|i| (i % 17) as f64 / 16.0).collect();
    let network = Network::new(shape, parameters.clone(), TrainingRecord::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    network.save(directory.path()).unwrap();
    let read = Network::load(directory.path()).unwrap();
    assert_eq!((read.id(), read.parameters()), (network.id(), network.parameters()));
    let weights = directory.path().join("digits.safetensors");
    let mut bytes = fs::read(&weights).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&weights, bytes).unwrap();
    assert!(matches!(Network::load(directory.path()), Err(DigitsModelError::Store(_))));
    let short = Network::new(shape, parameters[1..].to_vec(), TrainingRecord::default());
    assert!(matches!(short, Err(DigitsModelError::Field { field: "number of parameters", .. })));
    let endless = parameters.iter().map(|_| f64::NAN).collect();
    assert!(matches!(
        Network::new(shape, endless, TrainingRecord::default()),
        Err(DigitsModelError::Field { field: "parameter", .. })
    ));
}

#[test]
fn idx_files_are_checked_before_they_are_believed() {
    let directory = tempfile::tempdir().unwrap();
    let words = |words: &[u32]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<u8>>();
    let put = |name: &str, bytes: &[u8]| fs::write(directory.path().join(name), bytes).unwrap();
    let (images, labels) = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte");
    let read = || LabelledImages::read(directory.path(), Part::Test);
    let message = read().unwrap_err().to_string();
    assert!(message.contains("fetch_data.py mnist"), "{message}");
    put(images, &[words(&[0x803, 2, 28, 28]), vec![7; 2 * PIXELS]].concat());
    put(labels, &[words(&[0x801, 2]), vec![3, 9]].concat());
    let data = read().unwrap();
    assert_eq!((data.len(), data.labels(), data.images()[1].pixels()[5]), (2, [3, 9].as_slice(), 7));
    put(labels, &[words(&[0x801, 2]), vec![3, 10]].concat());
    let error = read().unwrap_err().to_string();
    assert!(error.contains("found label 10, needed a digit") && !error.contains("crop"), "{error}");
    put(labels, &[words(&[0x801, 1]), vec![3]].concat());
    let error = read().unwrap_err().to_string();
    assert!(error.contains("2 images and 1 labels") && error.contains("labels that belong to the images"), "{error}");
    // Pixels of another scale, and no image of ink at all.
    put(images, &[words(&[0x803, 2, 28, 28]), vec![1; 2 * PIXELS]].concat());
    let error = read().unwrap_err().to_string();
    assert!(error.contains("found no pixel above 1") && error.contains("multiply them by 255"), "{error}");
    put(images, &[words(&[0x803, 2, 28, 28]), vec![0; 2 * PIXELS]].concat());
    assert!(Image::read_file(directory.path().join(images)).is_ok());
    let bad = [
        words(&[0x802, 2, 28, 28]),
        words(&[0x803, u32::MAX, 28, 28]),
        words(&[0x803, 2, 28, 27]),
        [words(&[0x803, 2, 28, 28]), vec![7; 2 * PIXELS - 1]].concat(),
        [words(&[0x803, 2, 28, 28]), vec![7; 2 * PIXELS + 1]].concat(),
    ];
    for bytes in bad {
        put(images, &bytes);
        let error = read().unwrap_err();
        assert!(matches!(error, DigitsModelError::Content { .. }), "{:?}", &bytes[..16]);
        assert!(!error.to_string().contains("fetch"), "{error}");
    }
    assert!(matches!(Image::new(&[0; 783]), Err(DigitsModelError::Image { .. })));
}
