//! A row of a table of results.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::clock::median;

/// One result with its baseline from the same run. Serialises to the fields of `unspoken-bench --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The suite.
    pub suite: &'static str,
    /// The measured case.
    pub case: String,
    /// Name of the metric.
    pub metric: &'static str,
    /// Unit of the metric.
    pub unit: &'static str,
    /// Our value: the median of the repetitions.
    pub ours: f64,
    /// The baseline's median; `None` (`null`) if there is no baseline.
    pub baseline: Option<f64>,
    /// Name of the baseline; empty if there is none.
    pub baseline_name: String,
    /// Improvement factor, **above 1 for better**: `baseline / ours` if less is better, `ours / baseline` if more is
    /// better. It is the median of the ratios of paired repetitions, so it can differ from the ratio of the two
    /// medians.
    pub ratio: Option<f64>,
    /// Parameters of the measurement: sizes, levels, threads, clock, repetitions.
    pub params: Map<String, Value>,
}

/// Whether small or large values are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Less,
    More,
}

impl Better {
    fn ratio(self, ours: f64, baseline: f64) -> Option<f64> {
        let ratio = match self {
            Better::Less => baseline / ours,
            Better::More => ours / baseline,
        };
        ratio.is_finite().then_some(ratio)
    }

    /// The median of pairwise ratios.
    fn paired_ratio(self, ours: &[f64], baseline: &[f64]) -> Option<f64> {
        let ratios: Option<Vec<f64>> = ours.iter().zip(baseline).map(|(&a, &b)| self.ratio(a, b)).collect();
        ratios.filter(|ratios| !ratios.is_empty()).map(|ratios| median(&ratios))
    }
}

/// A metric: name, unit, and which values are better.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
}

impl Metric {
    pub(crate) const fn less(name: &'static str, unit: &'static str) -> Self {
        Metric { name, unit, better: Better::Less }
    }

    pub(crate) const fn more(name: &'static str, unit: &'static str) -> Self {
        Metric { name, unit, better: Better::More }
    }

    /// A row of samples in the metric's unit; `baseline` is a name and the samples taken in turn with ours.
    pub(crate) fn row(
        self,
        suite: &'static str,
        case: impl Into<String>,
        ours: &[f64],
        baseline: Option<(&str, &[f64])>,
        params: Map<String, Value>,
    ) -> Row {
        Row {
            suite,
            case: case.into(),
            metric: self.name,
            unit: self.unit,
            ours: median(ours),
            baseline: baseline.map(|(_, samples)| median(samples)),
            baseline_name: baseline.map_or_else(String::new, |(name, _)| name.to_owned()),
            ratio: baseline.and_then(|(_, samples)| self.better.paired_ratio(ours, samples)),
            params,
        }
    }
}

/// Builds a map of parameters: `params! { "n": 65536, "backend": "avx2" }`.
macro_rules! params {
    ($($key:literal : $value:expr),* $(,)?) => {{
        #[allow(unused_mut)]
        let mut map = serde_json::Map::new();
        $(map.insert($key.to_owned(), serde_json::json!($value));)*
        map
    }};
}
pub(crate) use params;

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Metric = Metric::less("time", "ms");

    #[test]
    fn a_row_has_exactly_the_fields_of_the_contract() {
        let row = TIME.row("engine", "rotate", &[2.0], Some(("OpenFHE", &[7.0])), params! { "n": 65536 });
        let expected = serde_json::json!({
            "suite": "engine", "case": "rotate", "metric": "time", "unit": "ms", "ours": 2.0, "baseline": 7.0,
            "baseline_name": "OpenFHE", "ratio": 3.5, "params": { "n": 65536 },
        });
        assert_eq!(serde_json::to_value(&row).unwrap(), expected);
        let alone = serde_json::to_value(TIME.row("engine", "rotate", &[2.0], None, params! {})).unwrap();
        assert!(alone["baseline"].is_null() && alone["ratio"].is_null());
        assert_eq!(alone["baseline_name"], "");
        assert_eq!(alone.as_object().unwrap().len(), 9);
    }

    #[test]
    fn ratios_are_paired_and_above_one_for_better() {
        // Paired ratios 2, 3, 10: the median is 3, while the ratio of the medians is 2.5.
        let (ours, baseline): ([f64; 3], [f64; 3]) = ([2.0, 1.0, 4.0], [4.0, 3.0, 40.0]);
        assert_eq!(TIME.row("", "", &ours, Some(("", &baseline)), params! {}).ratio, Some(3.0));
        let rate = Metric::more("rate", "GMAC/s").row("", "", &[10.0], Some(("", &[4.0])), params! {});
        assert_eq!(rate.ratio, Some(2.5));
    }

    #[test]
    fn a_ratio_to_nothing_is_absent() {
        let row = TIME.row("", "", &[0.0], Some(("", &[0.0])), params! {});
        assert_eq!(row.ratio, None);
        assert!(serde_json::to_value(&row).unwrap()["ratio"].is_null());
    }
}
