//! The client's half: encrypts rows, and decrypts predictions.

use std::borrow::Borrow;

use ndarray::{Array2, ArrayD, IxDyn};
use unspoken_ckks::Slots;
use unspoken_encrypt::{EncryptionPlan, Needs};
use unspoken_onnx::{Answer, Outputs};
use unspoken_protocol::{CkksClientHalf, CkksDescription, ClientHalf, Keyring, ProtocolError};

use crate::description::Description;
use crate::error::ModelError;
use crate::row::{EncodedRow, Row};
use crate::wiped::WipedArrays;

/// A client of a model: its secret key and the server's description. It needs no part of the model.
pub struct ModelClient {
    description: Description,
    keyring: Keyring,
}

/// The answer for one row.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// The outputs of the model, in its order, each for a batch of one row. They contain the noise of the encryption,
    /// which depends on the secret key: keep them to yourself.
    pub outputs: Vec<Answer>,
    /// What the server computed, from which they follow.
    results: WipedArrays<f32, IxDyn>,
}

impl ClientHalf for ModelClient {
    type Error = ModelError;
    type Description = Description;
    type Model = ();
    type Question = Row;
    type Encoded = EncodedRow;
    /// The error is why the row has none: see [`EncodedRow`]. The service must not learn that there is one.
    type Answer = Result<Predicted, ModelError>;

    const VERB: &'static str = "predicting";

    fn open(description: Description, (): (), stored: Option<&[u8]>) -> Result<Self, ModelError> {
        let keyring = Keyring::new(description.header().clone(), stored)?;
        Ok(ModelClient { description, keyring })
    }

    fn description(&self) -> &Description {
        &self.description
    }

    fn batch(&self) -> usize {
        self.description.batch()
    }

    fn query_bytes(&self, _questions: usize) -> usize {
        self.description.query_bytes()
    }

    fn answer_bytes(&self, _questions: usize) -> usize {
        self.description.answer_bytes()
    }

    fn expected_answer_bytes(&self, questions: usize) -> usize {
        self.description.header().expected_answer_bytes(self.answer_bytes(questions))
    }

    /// Ranges come from the service, so it must not see whether numbers are in them: only what does not depend on the
    /// numbers of rows is an error here.
    fn encode<Q: Borrow<Row>>(&self, rows: &[Q]) -> Result<Vec<EncodedRow>, ModelError> {
        rows.iter().enumerate().map(|(number, row)| row.borrow().encoded(number, self.description.inputs())).collect()
    }

    /// The length in bytes is always the same, whatever the rows and their number.
    fn query(&mut self, rows: &[EncodedRow]) -> Result<Vec<u8>, ModelError> {
        let (level, scale) = (self.description.query_level(), self.description.parameters().scale());
        let mut vectors = Vec::new();
        for (place, input) in self.description.inputs().iter().enumerate() {
            let numbers = EncodedRow::numbers(rows, place);
            let table = input.table(&numbers, rows.len())?;
            vectors.extend(input.port.arrange(table)?.into_iter().map(Slots::from));
        }
        let encrypt = |slots: &Slots| self.keyring.encrypt(slots, level, scale);
        Ok(self.description.header().pack(vectors.iter().map(encrypt).collect::<Result<_, _>>()?))
    }

    fn check_answer(&self, answer: &[u8], _rows: usize) -> Result<(), ModelError> {
        self.unpacked(answer).map(drop)
    }

    fn read(&self, answer: &[u8], rows: &[EncodedRow]) -> Result<Vec<Self::Answer>, ModelError> {
        let (description, vectors) = (&self.description, self.unpacked(answer)?);
        let opened = vectors.iter().map(|vector| self.keyring.open(vector)).collect::<Result<Vec<_>, _>>()?;
        let (mut rest, mut results) = (opened.as_slice(), WipedArrays::from(Vec::new()));
        for port in description.results() {
            let (own, others) = rest.split_at(port.layout().vectors());
            rest = others;
            let values = port.read(own, rows.len())?.values;
            let (middle, radius) = (port.encoding().middle(), port.encoding().radius());
            let slots = values.indexed_iter().map(|((_, e), value)| (value - middle[e]) / radius[e]);
            self.keyring.check_bound(slots).map_err(far_outside)?;
            results.push(values);
        }
        let of_row = |(row, asked): (usize, &EncodedRow)| match asked.problem(description.inputs()) {
            None => predicted(description.outputs(), &results, row).map(Ok),
            Some(problem) => Ok(Err(ModelError::Row(problem))),
        };
        rows.iter().enumerate().map(of_row).collect()
    }
}

/// Results beyond the bound have another usual cause here than the keys of somebody else.
fn far_outside(error: ProtocolError) -> ProtocolError {
    match error {
        ProtocolError::Unreadable { .. } => ProtocolError::Unreadable {
            found: "one that this secret key does not open, or results beyond those of any row in the ranges",
            needed:
                "rows like the calibration rows, also where ranges allow others: the owner's model.predict names a \
                     row that is not, and a wider margin or more calibration rows help; or else a service that \
                     computes honestly, and for these keys"
                    .into(),
        },
        other => other,
    }
}

/// The outputs of a row, from the results of a batch.
pub(crate) fn predicted(outputs: &Outputs, results: &[Array2<f64>], row: usize) -> Result<Predicted, ModelError> {
    let of_row = |(values, shape): (&Array2<f64>, &Vec<usize>)| {
        let shape = [&[1], shape.as_slice()].concat();
        let numbers = values.row(row).iter().map(|value| *value as f32).collect();
        let wrong = |_| ProtocolError::mismatch("result", values.ncols(), format!("{shape:?}"));
        ArrayD::from_shape_vec(IxDyn(&shape), numbers).map_err(wrong)
    };
    let results = results.iter().zip(outputs.result_shapes()).map(of_row).collect::<Result<WipedArrays<_, _>, _>>()?;
    Ok(Predicted { outputs: outputs.finish(&results)?, results })
}

impl ModelClient {
    /// The outputs for results that `change` makes of those of a row, from each and the radius of its range. Labels are
    /// those of the row.
    ///
    /// # Errors
    /// If the outputs cannot be computed.
    pub fn changed(&self, row: &Predicted, change: impl Fn(f64, f64) -> f64) -> Result<Vec<Answer>, ModelError> {
        let mut results = row.results.clone();
        for (result, port) in results.iter_mut().zip(self.description.results()) {
            let numbers = result.iter_mut().zip(port.encoding().radius());
            numbers.for_each(|(number, radius)| *number = change((*number).into(), *radius) as f32);
        }
        let changed = self.description.outputs().finish(&results)?;
        let with_label = |(own, changed): (&Answer, Answer)| match own {
            Answer::Integers(_) | Answer::Texts(_) => own.clone(),
            Answer::Numbers(_) | Answer::Scores { .. } => changed,
        };
        Ok(row.outputs.iter().zip(changed).map(with_label).collect())
    }

    /// The vectors of an answer.
    fn unpacked(&self, answer: &[u8]) -> Result<Vec<Vec<u8>>, ModelError> {
        let count = self.description.answer_vectors();
        let vectors = self.description.header().unpack("answer", answer, self.description.answer_bytes(), count)?;
        if vectors.len() != count {
            return Err(ProtocolError::mismatch("answer", format!("{} vectors", vectors.len()), count).into());
        }
        Ok(vectors)
    }
}

impl CkksClientHalf for ModelClient {
    fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    fn keyring_mut(&mut self) -> &mut Keyring {
        &mut self.keyring
    }

    fn prepare(&mut self, needs: Needs) -> Result<EncryptionPlan, ProtocolError> {
        let burst = needs.burst.saturating_mul(self.description.query_vectors());
        self.keyring.prepare(self.description.query_level(), Needs { burst, ..needs })
    }
}
