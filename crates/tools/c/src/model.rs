//! The functions that C calls for private predictions. The comments here become the comments of the header.

#![expect(unsafe_code, reason = "pointers of the caller, checked as far as they can be")]

use std::ffi::{c_char, c_int};
use std::ptr;

use unspoken_model::{Gives, Input, ModelClient, ModelError, OutputShape, Predicted, Row};
use unspoken_onnx::Answer;
use unspoken_protocol::{ClientHalf, OpenedHalf};
use zeroize::Zeroize;

use crate::client::{Opened, UnspokenClient, UnspokenRequest};
use crate::failure::Failure;
use crate::pointers::{array, bytes, check, copy_text, free, hand_out, run, run_opened, store, store_slice};
use crate::status::UnspokenStatus;

/// What an output of a model gives.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnspokenGives {
    /// Labels of classes, and no numbers.
    Labels = 0,
    /// A probability for each of at least two classes.
    Probabilities = 1,
    /// The natural logarithm of a probability for each of at least two classes.
    LogProbabilities = 2,
    /// Other numbers.
    Numbers = 3,
}

/// What a model predicts for the rows of a request.
pub struct UnspokenModelPredictions {
    /// For each row, the outputs of the model, or why it has none.
    of_rows: Vec<Result<Vec<Values>, String>>,
}

/// An output for one row: numbers, or labels, or a label for each number.
struct Values {
    numbers: Vec<f32>,
    labels: Vec<String>,
}

/// Opens a client of a model that the owner of a service has brought.
///
/// `description` is what the service tells of the model. `secret` has the `secret_length` bytes of
/// unspoken_model_secret of an earlier client, or is NULL: then a new secret is generated, for which evaluation keys
/// must be sent.
///
/// # Safety
/// `client` is not freed; `description` has `description_length` bytes; `secret` is NULL or has `secret_length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_model_open(
    client: *const UnspokenClient,
    description: *const u8,
    description_length: usize,
    secret: *const u8,
    secret_length: usize,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run(client, |opened| {
            let description = bytes("description", description, description_length)?;
            let secret = if secret.is_null() { None } else { Some(bytes("secret", secret, secret_length)?) };
            if opened.is_some() {
                return Err(Failure::Open);
            }
            let half = OpenedHalf::<ModelClient>::open(description, (), (secret, None), false)?;
            *opened = Some(Opened::new(half));
            Ok(())
        })
    }
}

/// Writes the secret, to be stored, to a buffer of `capacity` bytes, and its length to `length`: some kilobytes. If the
/// buffer is too short, UNSPOKEN_STATUS_ARGUMENT is returned and only the length is written; `secret` may be NULL with
/// a capacity of 0. Anyone who has the secret can read the questions. Wipe the buffer.
///
/// # Safety
/// `client` is not freed; `secret` has room for `capacity` bytes; `length` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_model_secret(
    client: *const UnspokenClient,
    secret: *mut u8,
    capacity: usize,
    length: *mut usize,
) -> UnspokenStatus {
    // SAFETY: the caller's promises; the bytes fit.
    unsafe {
        run_opened(client, |opened| {
            opened.of::<ModelClient>()?;
            let bytes = opened.secret()?;
            store("length", length, bytes.len())?;
            if capacity < bytes.len() {
                let (found, needed) = (format!("room for {capacity} bytes"), bytes.len().to_string());
                return Err(Failure::Argument { what: "secret", found, needed });
            }
            check("secret", secret)?;
            ptr::copy_nonoverlapping(bytes.as_ptr(), secret, bytes.len());
            Ok(())
        })
    }
}

/// Writes the number of inputs of the model to `inputs`, of its outputs to `outputs`, and of the numbers of a row, of
/// all inputs together, to `width`.
///
/// # Safety
/// `client` is not freed; the other pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_model_shape(
    client: *const UnspokenClient,
    inputs: *mut usize,
    outputs: *mut usize,
    width: *mut usize,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run_opened(client, |opened| {
            let description = opened.of::<ModelClient>()?.half().description();
            store("inputs", inputs, description.inputs().len())?;
            store("outputs", outputs, description.outputs().as_slice().len())?;
            store("width", width, width_of(description.inputs()))
        })
    }
}

/// Writes the name of input `number`, and a 0 at its end, to a buffer of `capacity` bytes, how many numbers of a row it
/// has to `size`, and to `table_rows` the number of rows of the table that it points into; 0 if its numbers are no
/// indices. The service wrote the name: it has at most 256 bytes, and may be any text.
///
/// # Safety
/// `client` is not freed; `name` has room for `capacity` bytes; the other pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_model_input(
    client: *const UnspokenClient,
    number: usize,
    name: *mut c_char,
    capacity: usize,
    size: *mut usize,
    table_rows: *mut usize,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run_opened(client, |opened| {
            let shape = &input(opened, number)?.shape;
            store("size", size, shape.size())?;
            store("table_rows", table_rows, shape.table_rows.unwrap_or(0))?;
            copy_text("name", &shape.name, name, capacity)
        })
    }
}

/// Writes the name of an element of input `number`, such as that of a column, as unspoken_model_input writes a name,
/// and the least and the greatest number that may be asked to `low` and `high`. The name is empty if it has none.
///
/// # Safety
/// `client` is not freed; `name` has room for `capacity` bytes; `low` and `high` are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_model_element(
    client: *const UnspokenClient,
    number: usize,
    element: usize,
    name: *mut c_char,
    capacity: usize,
    low: *mut f64,
    high: *mut f64,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run_opened(client, |opened| {
            let input = input(opened, number)?;
            if element >= input.shape.size() {
                return Err(absent("element", element, input.shape.size()));
            }
            let last = input.shape.table_rows.unwrap_or(1).saturating_sub(1) as f64;
            let [least, greatest] = input.range(element).unwrap_or([0.0, last]);
            store("low", low, least)?;
            store("high", high, greatest)?;
            copy_text("name", input.shape.elements.get(element).map_or("", String::as_str), name, capacity)
        })
    }
}

/// Writes the name of output `number`, as unspoken_model_input writes a name, how many numbers or labels a row of it
/// has to `size`, and what they are to `gives`, as the service says. Names of outputs may be longer than 256 bytes: the
/// text of the error says how long.
///
/// # Safety
/// `client` is not freed; `name` has room for `capacity` bytes; `size` and `gives` are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_model_output(
    client: *const UnspokenClient,
    number: usize,
    name: *mut c_char,
    capacity: usize,
    size: *mut usize,
    gives: *mut UnspokenGives,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run_opened(client, |opened| {
            let outputs = opened.of::<ModelClient>()?.half().description().output_shapes();
            let output: &OutputShape = outputs.get(number).ok_or_else(|| absent("output", number, outputs.len()))?;
            store("size", size, output.shape.iter().product())?;
            store("gives", gives, output.gives.into())?;
            copy_text("name", &output.name, name, capacity)
        })
    }
}

/// Encrypts `count` rows of `width` numbers, one after the other: the numbers of each input, in their order. An index
/// is a whole number. With `clip` other than 0, numbers outside their ranges are moved into them; otherwise such a row
/// has no answer, which the service cannot see: unspoken_model_predictions_problem tells. `request` receives a request,
/// which unspoken_request_free frees. Its length tells nothing of the rows, nor how many there are.
///
/// # Safety
/// `client` is not freed; there are `count` times `width` numbers at `rows`; `request` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_model_ask(
    client: *const UnspokenClient,
    rows: *const f64,
    count: usize,
    width: usize,
    clip: c_int,
    request: *mut *mut UnspokenRequest,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run_opened(client, |opened| {
            let client = opened.of::<ModelClient>()?;
            let description = client.half().description();
            let needed = width_of(description.inputs());
            if width != needed {
                let (found, needed) = (format!("{width} numbers"), format!("{needed}, as the inputs have"));
                return Err(Failure::Argument { what: "rows", found, needed });
            }
            check("request", request)?;
            let numbers = array("rows", rows, count.saturating_mul(width))?;
            let row = |numbers: &[f64]| {
                let mut rest = numbers;
                let row = Row::new(description.inputs().iter().map(|input| take(&mut rest, input)).collect());
                if clip == 0 { row } else { row.clipped(description.inputs()).0 }
            };
            let rows: Vec<Row> = numbers.chunks_exact(width).map(row).collect();
            let asked = client.ask(&rows)?;
            hand_out("request", request, UnspokenRequest::new(asked))
        })
    }
}

/// Decrypts the answer to a request of this client, after the check of unspoken_check_answer, whose errors it returns.
/// `predictions` receives what the model predicts; free it with unspoken_model_predictions_free. Its numbers have the
/// noise of the encryption, which depends on the secret: keep them to yourself.
///
/// UNSPOKEN_STATUS_UNREADABLE tells that the answer was decrypted and is no sound one.
///
/// # Safety
/// `client` and `request` are not freed; `answer` has `length` bytes; `predictions` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_model_read(
    client: *const UnspokenClient,
    request: *const UnspokenRequest,
    answer: *const u8,
    length: usize,
    predictions: *mut *mut UnspokenModelPredictions,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        run_opened(client, |opened| {
            let request = request.as_ref().ok_or(Failure::Null { argument: "request" })?;
            let answer = bytes("answer", answer, length)?;
            check("predictions", predictions)?;
            let found = UnspokenModelPredictions::read(opened.of::<ModelClient>()?, request, answer)?;
            hand_out("predictions", predictions, found)
        })
    }
}

/// Writes where the text is that tells why row `row` has no answer, and how many bytes it has: 0 if the row has one. Do
/// not ask again because of it, and do not let the service learn it. It is valid until the predictions are freed.
/// UNSPOKEN_STATUS_ARGUMENT tells that there is no such row.
///
/// # Safety
/// `predictions` is not freed; `problem` and `length` are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_model_predictions_problem(
    predictions: *const UnspokenModelPredictions,
    row: usize,
    problem: *mut *const u8,
    length: *mut usize,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        let Some(predictions) = predictions.as_ref() else { return UnspokenStatus::NullPointer };
        let Some(row) = predictions.of_rows.get(row) else { return UnspokenStatus::Argument };
        store_slice(row.as_ref().err().map_or("", String::as_str).as_bytes(), problem, length)
    }
}

/// Writes where the numbers of an output are for row `row`, and how many: 0 if the output has labels alone. They are
/// valid until the predictions are freed. UNSPOKEN_STATUS_ARGUMENT tells that there is no such row or output, or that
/// the row has no answer.
///
/// # Safety
/// `predictions` is not freed; `numbers` and `count` are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_model_predictions_numbers(
    predictions: *const UnspokenModelPredictions,
    row: usize,
    output: usize,
    numbers: *mut *const f32,
    count: *mut usize,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        let Some(predictions) = predictions.as_ref() else { return UnspokenStatus::NullPointer };
        let Some(values) = predictions.values(row, output) else { return UnspokenStatus::Argument };
        if numbers.is_null() || count.is_null() {
            return UnspokenStatus::NullPointer;
        }
        numbers.write(values.numbers.as_ptr());
        count.write(values.numbers.len());
        UnspokenStatus::Ok
    }
}

/// Writes where label `number` of an output is for row `row`, and how many bytes it has; an integer in its decimal
/// digits. If the output has numbers, it is the label of the number at this place. It is valid until the predictions
/// are freed. UNSPOKEN_STATUS_ARGUMENT tells that there is no such row, output or label, or that the row has no answer.
///
/// # Safety
/// `predictions` is not freed; `label` and `length` are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_model_predictions_label(
    predictions: *const UnspokenModelPredictions,
    row: usize,
    output: usize,
    number: usize,
    label: *mut *const u8,
    length: *mut usize,
) -> UnspokenStatus {
    // SAFETY: the caller's promises.
    unsafe {
        let Some(predictions) = predictions.as_ref() else { return UnspokenStatus::NullPointer };
        let found = predictions.values(row, output).and_then(|values| values.labels.get(number));
        let Some(found) = found else { return UnspokenStatus::Argument };
        store_slice(found.as_bytes(), label, length)
    }
}

/// Frees predictions, and wipes them. NULL is ignored.
///
/// # Safety
/// `predictions` is not freed yet, and not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspoken_model_predictions_free(predictions: *mut UnspokenModelPredictions) {
    // SAFETY: the caller's promise.
    unsafe { free(predictions) }
}

impl From<Gives> for UnspokenGives {
    fn from(gives: Gives) -> Self {
        match gives {
            Gives::Labels => UnspokenGives::Labels,
            Gives::Probabilities => UnspokenGives::Probabilities,
            Gives::LogProbabilities => UnspokenGives::LogProbabilities,
            Gives::Numbers => UnspokenGives::Numbers,
        }
    }
}

fn width_of(inputs: &[Input]) -> usize {
    inputs.iter().map(|input| input.shape.size()).sum()
}

fn input(opened: &mut Opened, number: usize) -> Result<&Input, Failure> {
    let inputs = opened.of::<ModelClient>()?.half().description().inputs();
    inputs.get(number).ok_or_else(|| absent("input", number, inputs.len()))
}

/// The numbers of an input, which are the first of the rest of a row.
fn take(rest: &mut &[f64], input: &Input) -> Vec<f64> {
    let (own, others) = rest.split_at(input.shape.size());
    *rest = others;
    own.to_vec()
}

/// The error for a number of something that does not exist.
fn absent(what: &'static str, found: usize, count: usize) -> Failure {
    Failure::Argument { what, found: found.to_string(), needed: format!("less than {count}") }
}

impl UnspokenModelPredictions {
    fn read(client: &OpenedHalf<ModelClient>, request: &UnspokenRequest, answer: &[u8]) -> Result<Self, Failure> {
        let request = request.0.of()?;
        client.check_answer(request, answer)?;
        let predicted = client.read(request, answer).map_err(Failure::decrypted)?;
        let of_row = |row: Result<Predicted, ModelError>| match row {
            Ok(Predicted { outputs, .. }) => Ok(outputs.into_iter().map(Values::of).collect()),
            Err(problem) => Err(problem.to_string()),
        };
        Ok(UnspokenModelPredictions { of_rows: predicted.into_iter().map(of_row).collect() })
    }

    fn values(&self, row: usize, output: usize) -> Option<&Values> {
        self.of_rows.get(row)?.as_ref().ok()?.get(output)
    }
}

impl Values {
    fn of(answer: Answer) -> Self {
        let (numbers, labels) = match answer {
            Answer::Numbers(numbers) => (numbers.iter().copied().collect(), Vec::new()),
            Answer::Integers(integers) => (Vec::new(), integers.iter().map(ToString::to_string).collect()),
            Answer::Texts(texts) => (Vec::new(), texts.iter().cloned().collect()),
            Answer::Scores { labels, numbers } => (numbers.iter().copied().collect(), labels.into_texts()),
        };
        Values { numbers, labels }
    }
}

impl Drop for Values {
    fn drop(&mut self) {
        self.numbers.zeroize();
        self.labels.zeroize();
    }
}
