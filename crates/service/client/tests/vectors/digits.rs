//! `vectors/digits.json`.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};
use unspoken_ckks::Preset;
use unspoken_digits::{DigitsClient, DigitsServer, Recognised};
use unspoken_digits_model::{Image, Network, PIXELS, Shape, TrainingRecord};
use unspoken_protocol::{CkksDescription, ClientHalf};

use crate::case::{Case, Clear, Known, Plan, check, directory_of, files_of};

struct Digits;

/// A pseudorandom number in `[-1, 1)`, determined by `i`.
fn mixed(i: usize) -> f64 {
    let mixed = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// A network that was not trained.
fn network() -> Network {
    let shape = Shape { channels: 1, hidden: 16 };
    let sizes = [(shape.channels * 49, 0.3), (shape.channels, 0.5), (shape.hidden * shape.features(), 0.1)];
    let sizes = sizes.into_iter().chain([(shape.hidden, 0.5), (10 * shape.hidden, 0.5), (10, 0.5)]);
    let widths = sizes.flat_map(|(count, width)| std::iter::repeat_n(width, count));
    let parameters = widths.enumerate().map(|(i, width)| width * mixed(i)).collect();
    Network::new(shape, parameters, TrainingRecord::default()).unwrap()
}

impl Known for Digits {
    const NAME: &'static str = "digits";
    const ABOUT: &'static str =
        "Private recognition of digits: a small network that was not trained, and images of noise.";
    type Client = DigitsClient;
    type Server = DigitsServer;
    type Asked = Image;

    fn plans() -> Vec<Plan> {
        let directory = tempfile::tempdir().unwrap();
        network().save(directory.path()).unwrap();
        let pixels = |image: usize| (0..PIXELS).map(move |p| (127.5 * (1.0 + mixed(1000 + image * PIXELS + p))) as u8);
        let question = |image| json!({ "pixels": BASE64_STANDARD.encode(pixels(image).collect::<Vec<u8>>()) });
        vec![Plan {
            name: "two images",
            server: json!({ "preset": "insecure_n11_real_depth17_scale30", "batch": 2 }),
            options: Map::new(),
            model: files_of(directory.path()),
            questions: (0..2).map(question).collect(),
        }]
    }

    fn server(case: &Case) -> DigitsServer {
        let parameters = Preset::find(case.server["preset"].as_str().unwrap()).unwrap().build().unwrap();
        let network = Network::load(directory_of(case).path()).unwrap();
        DigitsServer::new(&network, &parameters, case.server["batch"].as_u64().map(|batch| batch as usize)).unwrap()
    }

    fn model(_case: &Case) {}

    fn question(question: &Value) -> Image {
        Image::new(&BASE64_STANDARD.decode(question["pixels"].as_str().unwrap()).unwrap()).unwrap()
    }

    fn answer(Recognised { digit, scores }: Recognised) -> Value {
        json!({ "digit": digit, "scores": scores })
    }

    fn clear(case: &Case, client: &DigitsClient) -> Option<Clear> {
        let network = Network::load(directory_of(case).path()).unwrap();
        let answer = |question: &Value| {
            let image = Self::question(question);
            json!({ "digit": network.digit(&image), "scores": network.scores(&image) })
        };
        let error = client.description().header().error_bound().unwrap();
        Some(Clear { answers: case.questions.iter().map(answer).collect(), error })
    }
}

#[test]
fn digits_are_recognised_as_in_the_vectors() {
    check::<Digits>();
}
