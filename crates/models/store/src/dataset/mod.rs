//! Labelled texts and their stratified split.

mod read;

use std::collections::BTreeMap;

use crate::error::StoreError;
use crate::random::Random;

/// Random stream of [`Dataset::split`]; trainers use other streams of the same seed.
const SPLIT_STREAM: u64 = 1;

/// Labelled texts, in file order: `labels()[i]` belongs to `texts()[i]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dataset {
    texts: Vec<String>,
    labels: Vec<String>,
}

/// Three disjoint parts of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// Training part; the vocabulary is built from it alone.
    pub train: Dataset,
    /// Validation part, for choosing between checkpoints.
    pub validation: Dataset,
    /// Test part, held out: no choice depends on it.
    pub test: Dataset,
}

impl Dataset {
    /// Pairs texts with labels.
    ///
    /// # Errors
    /// [`StoreError::Length`] if the numbers of texts and labels differ.
    pub fn new(texts: Vec<String>, labels: Vec<String>) -> Result<Self, StoreError> {
        if texts.len() != labels.len() {
            return Err(StoreError::Length { texts: texts.len(), labels: labels.len() });
        }
        Ok(Self { texts, labels })
    }

    fn push(&mut self, text: &str, label: &str) {
        self.texts.push(text.to_owned());
        self.labels.push(label.to_owned());
    }

    /// The texts, in file order.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// The labels, in file order.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// The number of labelled texts.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there are no texts.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The fraction of the most frequent label: the accuracy of always predicting it. Zero for an empty set.
    pub fn majority_share(&self) -> f64 {
        let largest = self.by_label().values().map(Vec::len).max().unwrap_or(0);
        largest as f64 / self.len().max(1) as f64
    }

    /// Splits each class at random in the same proportions (Appendix D.2 uses 0.1
    /// and 0.1). Of the `n` records of a class, `round(n * test)` go to the test
    /// part, `round(n * validation)` to the validation part and the rest, in file
    /// order like the others, to training. The same seed gives the same split.
    ///
    /// # Errors
    /// [`StoreError::Fractions`] unless both shares are at least 0 and their sum is
    /// below 1.
    pub fn split(&self, validation: f64, test: f64, seed: u64) -> Result<Split, StoreError> {
        if !(validation >= 0.0 && test >= 0.0 && validation + test < 1.0) {
            return Err(StoreError::Fractions { validation, test });
        }
        let mut random = Random::new(seed, SPLIT_STREAM);
        let mut parts = [Vec::new(), Vec::new(), Vec::new()];
        for mut members in self.by_label().into_values() {
            random.shuffle(&mut members);
            let count = members.len() as f64;
            let tests = (count * test).round() as usize;
            let validations = ((count * validation).round() as usize).min(members.len() - tests);
            parts[2].extend(members.drain(..tests));
            parts[1].extend(members.drain(..validations));
            parts[0].extend(members);
        }
        let [train, validation, test] = parts.map(|mut indices| {
            indices.sort_unstable();
            self.select(&indices)
        });
        Ok(Split { train, validation, test })
    }

    fn select(&self, indices: &[usize]) -> Self {
        let mut selected = Self::default();
        for &index in indices {
            selected.push(&self.texts[index], &self.labels[index]);
        }
        selected
    }

    fn by_label(&self) -> BTreeMap<&str, Vec<usize>> {
        let mut members: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, label) in self.labels.iter().enumerate() {
            members.entry(label).or_default().push(index);
        }
        members
    }

    /// BLAKE3 of all labels and texts, in hexadecimal, which identifies training data.
    pub fn checksum(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for field in self.labels.iter().zip(&self.texts).flat_map(|(l, t)| [l, t]) {
            hasher.update(&(field.len() as u64).to_le_bytes());
            hasher.update(field.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(ham: usize, spam: usize) -> Dataset {
        let texts = (0..ham + spam).map(|i| i.to_string()).collect();
        let labels = (0..ham + spam).map(|i| if i < ham { "ham" } else { "spam" }.to_owned()).collect();
        Dataset::new(texts, labels).expect("as many of each")
    }

    #[test]
    fn split_is_stratified_disjoint_and_seeded() {
        let data = numbered(870, 130);
        let split = data.split(0.1, 0.1, 7).expect("splits");
        assert_eq!([&split.train, &split.validation, &split.test].map(Dataset::len), [800, 100, 100]);
        for part in [&split.train, &split.validation, &split.test] {
            assert!((part.majority_share() - 0.87).abs() < 1e-9);
        }
        let mut all: Vec<String> =
            [&split.train, &split.validation, &split.test].iter().flat_map(|part| part.texts().to_vec()).collect();
        all.sort_unstable_by_key(|text| text.parse::<usize>().expect("a number"));
        assert_eq!(all, data.texts());
        assert_eq!(split, data.split(0.1, 0.1, 7).expect("splits"));
        assert_ne!(split, data.split(0.1, 0.1, 8).expect("splits"));
    }

    #[test]
    fn impossible_fractions_are_refused() {
        for (validation, test) in [(0.5, 0.5), (-0.1, 0.1), (0.1, f64::NAN)] {
            assert!(numbered(5, 5).split(validation, test, 0).is_err());
        }
    }

    #[test]
    fn checksum_depends_on_content_and_boundaries() {
        let one = |text: &str, label: &str| {
            Dataset::new(vec![text.to_owned()], vec![label.to_owned()]).expect("as many of each").checksum()
        };
        assert_eq!(one("ab", "c"), one("ab", "c"));
        assert_ne!(one("ab", "c"), one("b", "ca"));
        assert_ne!(one("ab", "c"), one("ab", "d"));
    }
}
