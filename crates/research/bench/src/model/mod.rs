//! The model suite: models of one's own, from ONNX files, asked about rows that their training has not seen.
//!
//! `research/models/train_models.py` trains the models and writes the rows. Those on breast cancer are in `models/`,
//! and their rows are fetched; the others are in `data/own-models/`, and left out where they are absent. Each model is
//! compiled as `unspoken compile` does it: calibrated on rows of the training set, with the preset of the fewest
//! predicted seconds for the batch.
//!
//! - **Batches.** The largest of the batches of a case, with the most bits of precision, that fits the memory of the
//!   case is measured. Those that do not fit are named in the progress, with the memory that they need.
//! - **Seconds** are those of a full batch. `answer_time` is that of the service, from the bytes of a query to the
//!   bytes of an answer, beside the model in the clear: onnxruntime on one thread, or our evaluation of the graph, if
//!   onnxruntime is not set up. `predicted_time` has the prediction of the engine's nominal cost model for one core as
//!   its baseline. `encrypt_time` and `decrypt_time` are those of the client, on one thread.
//! - **Accuracy** is the part of rows with the right label, side by side on the same rows: in the clear, with
//!   polynomials, simulated (with the noise of an encrypted run) and encrypted. `label_agreement` is the part of rows
//!   with the label of the model in the clear: of encrypted rows, and of all rows with polynomials.
//! - **Errors** are parts of the radius of a result's range. `noise_error` is the largest difference of an encrypted
//!   result and the same circuit in the clear, beside the bound that the description of the service states.
//!   `result_error` is that of an encrypted result and the model itself, beside the bound of the noise and a quarter
//!   more than the largest error of polynomials on rows of the calibration.
//! - **Numbers outside the calibrated ranges** are moved into them, as `unspoken ask --clip` does. `params.clipped`
//!   counts them. Labels in the clear are those of the rows as they were.
//! - **Concrete ML** trains its own quantised model on the same rows (`research/peers/model_peer.py`), and answers one
//!   row at a time, with all cores, in turn with a full batch of ours on all cores. Rows with metrics that begin with
//!   `beside` have it as the baseline. `beside_first_row_time` compares the wait for one row, `beside_row_time` the
//!   time for each row of a full batch. `--quick` leaves it out. Where its process ends, as it does for want
//!   of memory, the progress says so, and these rows are missing.

mod beside;
mod case;
mod service;
mod subject;
mod times;

use std::time::Duration;

use crate::clock::Repetitions;
use crate::harness::Harness;

const BREAST_CANCER: &str = "breast-cancer";
const CHURN: &str = "churn";
const LENET_5: &str = "lenet-5";
const RESNET_20: &str = "resnet-20";

pub(crate) const PARTS: [&str; 4] = [BREAST_CANCER, CHURN, LENET_5, RESNET_20];

/// Rows of a query of a table.
const ROWS: &[usize] = &[128];

/// Rows of a query of pictures: the first that fits the memory.
const PICTURES: &[usize] = &[128, 32, 8, 4, 1];

/// Memory for weights, one run and the keys of one client: for tables, for pictures, and for a deep network.
const TABLE_MIB: u64 = 8 << 10;
const PICTURE_MIB: u64 = 10 << 10;
/// A network that is bootstrapped at full slots has 5 GB of keys.
const DEEP_MIB: u64 = 18 << 10;

/// A model and what is measured of it.
#[derive(Clone, Copy, Debug)]
struct Case {
    part: &'static str,
    name: &'static str,
    /// Folder of the model below the root of the repository, and its file in it.
    folder: &'static str,
    file: &'static str,
    /// Bits of precision of functions with a kink, and batches, in the order in which they are tried.
    kink_bits: &'static [f64],
    batches: &'static [usize],
    memory_mib: u64,
    /// Presets that may be chosen; all secure ones if there are none.
    presets: &'static [&'static str],
    /// Rows that are simulated, and of these the rows that are encrypted, at most. All are compared in the clear.
    simulated: usize,
    encrypted: usize,
    repetitions: Repetitions,
    /// The model of Concrete ML that is measured beside it, and how often.
    concrete: Option<(&'static str, Repetitions)>,
}

impl Case {
    /// Folder of the rows: they are no part of the repository.
    fn rows(&self) -> &'static str {
        if self.folder == TUMOUR_MODELS { "data/breast-cancer" } else { self.folder }
    }
}

const TUMOUR_MODELS: &str = "models/breast-cancer";

const USUAL: Case = Case {
    part: BREAST_CANCER,
    name: "",
    folder: TUMOUR_MODELS,
    file: "logistic.onnx",
    kink_bits: &[7.0],
    batches: ROWS,
    memory_mib: TABLE_MIB,
    presets: &[],
    simulated: 1024,
    encrypted: 1024,
    repetitions: Repetitions { min: 5, max: 41, budget: Duration::from_secs(10) },
    concrete: None,
};

/// Concrete ML takes milliseconds for a row of a logistic regression, and a minute for one of a perceptron.
const LOGISTIC: Option<(&str, Repetitions)> =
    Some(("logistic", Repetitions { min: 20, max: 41, budget: Duration::from_secs(5) }));
const PERCEPTRON: Option<(&str, Repetitions)> = Some(("mlp", Repetitions::exactly(2)));

const CHURN_FOLDER: &str = "data/own-models/churn";
const CHURNED: Case = Case { part: CHURN, folder: CHURN_FOLDER, ..USUAL };
const DIGITS: Case = Case {
    part: LENET_5,
    folder: "data/own-models/lenet-5",
    file: "lenet-5.onnx",
    kink_bits: &[7.0, 6.0, 4.0],
    batches: PICTURES,
    memory_mib: PICTURE_MIB,
    simulated: 64,
    encrypted: 16,
    repetitions: Repetitions::exactly(3),
    ..USUAL
};

const FULL: &[Case] = &[
    Case { name: "breast cancer, logistic regression", concrete: LOGISTIC, ..USUAL },
    Case { name: "breast cancer, 3 x 128, 7 bits", file: "mlp.onnx", concrete: PERCEPTRON, ..USUAL },
    Case { name: "breast cancer, 3 x 128, 8 bits", file: "mlp.onnx", kink_bits: &[8.0], ..USUAL },
    Case { name: "customers, logistic regression", concrete: LOGISTIC, ..CHURNED },
    // Concrete ML needs more than 16 GiB for this one: it could not write its keys.
    Case { name: "customers, 3 x 128, 7 bits", file: "mlp.onnx", ..CHURNED },
    Case { name: "customers, 3 x 128, 8 bits", file: "mlp.onnx", kink_bits: &[8.0], ..CHURNED },
    Case {
        name: "digits, LeNet-5 with squares",
        folder: "data/own-models/lenet-5-square",
        file: "lenet-5-square.onnx",
        ..DIGITS
    },
    Case { name: "digits, LeNet-5 with ReLU", ..DIGITS },
    Case {
        part: RESNET_20,
        name: "digits, ResNet-20",
        folder: "data/own-models/resnet-20",
        file: "resnet-20.onnx",
        kink_bits: &[7.0],
        batches: &[1],
        memory_mib: DEEP_MIB,
        simulated: 4,
        encrypted: 2,
        repetitions: Repetitions::exactly(1),
        ..DIGITS
    },
];

const FEW: Repetitions = Repetitions { min: 3, max: 5, budget: Duration::from_secs(3) };

const QUICK: &[Case] = &[
    Case { name: "breast cancer, logistic regression", repetitions: FEW, ..USUAL },
    Case { name: "breast cancer, 3 x 128, 7 bits", file: "mlp.onnx", repetitions: FEW, ..USUAL },
];

pub(crate) fn run(harness: &mut Harness<'_>) -> anyhow::Result<()> {
    run_cases(harness, if harness.options.quick { QUICK } else { FULL })
}

fn run_cases(harness: &mut Harness<'_>, cases: &[Case]) -> anyhow::Result<()> {
    for case in cases {
        if harness.includes(case.part) {
            case::run(harness, case)?;
        }
    }
    harness.peak_memory("weights, keys and a run of the largest model");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Suite;
    use crate::harness::test_rows_below;

    const TEST: Case = Case {
        simulated: 16,
        encrypted: 8,
        batches: &[1 << 20, 8],
        presets: &["insecure_n11_depth24_scale52"],
        repetitions: Repetitions::exactly(2),
        ..USUAL
    };

    #[test]
    fn every_case_has_its_rows_and_a_model_that_is_absent_has_none() {
        let cases = [
            Case { name: "logistic", ..TEST },
            Case { name: "perceptron", file: "mlp.onnx", ..TEST },
            Case { name: "absent", folder: "data/no-such-model", ..TEST },
            Case { name: "small memory", memory_mib: 0, ..TEST },
        ];
        let rows = test_rows_below("../../..", Suite::Model, |harness| run_cases(harness, &cases));
        let find = |metric: &str, case: &str| {
            let row = rows.iter().find(|row| row.metric == metric && row.case == case);
            row.unwrap_or_else(|| panic!("no {metric} of {case}"))
        };
        for name in ["logistic", "perceptron"] {
            for metric in ["answer_time", "predicted_time", "encrypt_time", "decrypt_time", "query_bytes", "key_bytes"]
            {
                assert!(find(metric, name).ours > 0.0, "{metric}");
            }
            assert_eq!(find("answer_time", name).params["batch"], 8, "the first batch does not fit the slots");
            assert!(find("answer_time", &format!("{name}, all cores")).baseline.is_some());
            let noise = find("noise_error", name);
            assert!(noise.ours > 0.0 && noise.ours < noise.baseline.unwrap(), "{noise:?}");
            assert!(find("result_error", name).ours >= noise.ours / 2.0);
            assert!(find("label_agreement", name).ours >= 0.75);
            for way in ["in the clear", "with polynomials", "simulated", "encrypted"] {
                let accuracy = find("accuracy", &format!("{name}, {way}"));
                assert!(accuracy.ours > 0.7 && accuracy.ours <= 1.0, "{accuracy:?}");
            }
        }
        // The polynomials of a perceptron are wrong by far more than its noise; a logistic regression has none.
        let error = |name: &str| find("result_error", name).ours;
        assert!(
            error("perceptron") > 1e-3 && error("logistic") < 1e-4,
            "{} {}",
            error("perceptron"),
            error("logistic")
        );
        assert!(rows.iter().all(|row| !row.case.starts_with("absent") && !row.case.starts_with("small memory")));
    }

    #[test]
    fn names_and_files_are_different() {
        for cases in [FULL, QUICK] {
            for (place, case) in cases.iter().enumerate() {
                assert!(PARTS.contains(&case.part) && case.encrypted <= case.simulated);
                assert!(cases[..place].iter().all(|other| other.name != case.name), "{}", case.name);
            }
        }
    }
}
