//! Queries to a collection of a service.

use numpy::PyReadonlyArray2;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use unspoken_client::{Cost, Progress, UsageStats};
use unspoken_protocol::AnyHalf;
use unspoken_search::SearchClient;
use unspoken_search_client::{Found, Searcher, without_documents};

use crate::collection::{Hit, hit};
use crate::connections::{Answers, Client, Part, Place};
use crate::failure::Failure;
use crate::interruptible;
use crate::progress::Reporter;

/// A collection brings nothing: its queries are vectors.
pub(crate) struct Collection;

impl Part for Collection {
    fn connect(
        self: Box<Self>,
        py: Python<'_>,
        place: Place<'_>,
        _: (usize, usize),
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<(Box<dyn Client>, String)> {
        let insecure = place.service.accepts_insecure_parameters();
        interruptible::run(py, Reporter::from_argument(progress)?, |report, cancel| {
            let application = place.chosen(without_documents, cancel)?;
            let open = |application: &str| {
                let (transport, _, state) = Place { application: Some(application), ..place }.target(cancel)?;
                Ok::<_, Failure>((transport, state))
            };
            let connect = if insecure { Searcher::insecure_connect } else { Searcher::connect };
            let searcher = connect(&application, open, &mut |step: Progress| report(step.into()), cancel)?;
            Ok((Box::new(Search { searcher }) as Box<dyn Client>, application))
        })
    }

    /// Of searching: each document that is fetched costs what one of an application of private retrieval does.
    fn cost(self: Box<Self>, py: Python<'_>, place: Place<'_>, questions: usize) -> PyResult<Cost> {
        let application =
            interruptible::run(py, Reporter::Silent, |_, cancel| place.chosen(without_documents, cancel))?;
        Place { application: Some(&application), ..place }.cost::<SearchClient>(py, questions, |_| ())
    }
}

/// A collection of a service, connected.
struct Search {
    searcher: Searcher,
}

/// Questions are an array with a vector in each row, and the number of documents for each. Answers are, for each
/// vector, cosine, position, id and content of the documents.
impl Client for Search {
    fn half(&self) -> &dyn AnyHalf {
        self.searcher.search().half()
    }

    fn key(&self) -> &str {
        self.searcher.search().key().as_str()
    }

    /// With those of fetching.
    fn usage(&self) -> UsageStats {
        let [search, documents] = self.searcher.usage();
        search.with_helper(documents)
    }

    /// The error is the predicted standard deviation of a cosine, from encryption.
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let description = self.searcher.description();
        let facts = PyDict::new(py);
        facts.set_item("width", description.shape().width())?;
        facts.set_item("documents", description.document_count())?;
        facts.set_item("embedder", description.embedder())?;
        facts.set_item("asked", description.directory().asked())?;
        facts.set_item("error", description.cosine_deviation())?;
        Ok(facts)
    }

    fn ask<'py>(
        &mut self,
        questions: &Bound<'py, PyAny>,
        _: Option<u32>,
        reporter: Reporter,
    ) -> PyResult<Answers<'py>> {
        let py = questions.py();
        let (vectors, most): (PyReadonlyArray2<'_, f32>, usize) = questions.extract()?;
        let vectors: Vec<Vec<f32>> = vectors.as_array().outer_iter().map(|row| row.to_vec()).collect();
        let found: Vec<Vec<Found>> = interruptible::run(py, reporter, |report, cancel| {
            Ok(self.searcher.find(&vectors, most, &mut |step: Progress| report(step.into()), cancel)?)
        })?;
        let hits = |found: Vec<Found>| -> Vec<Hit<'py>> {
            found.iter().map(|found| hit(py, found.cosine, found.position, &found.document)).collect()
        };
        let hits: Vec<Vec<Hit<'py>>> = found.into_iter().map(hits).collect();
        Ok((hits.into_pyobject(py)?.into_any(), Vec::new()))
    }
}
