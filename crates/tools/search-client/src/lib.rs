#![doc = include_str!("../README.md")]

use std::time::Duration;

use unspoken_client::transport::{Cancel, Transport};
use unspoken_client::{ClientError, Progress, ServiceClient, StateDir, UsageStats};
use unspoken_pir::{PirClient, PirOptions, Question};
use unspoken_pir_scheme::Mode;
use unspoken_protocol::ProtocolError;
use unspoken_search::{Description, Hit, SearchClient, SearchError};
use unspoken_search_index::Document;
use unspoken_wire::is_application_name;

/// End of the name of the application of a collection's documents, after that of the collection.
const DOCUMENTS: &str = "-documents";

/// Pauses before a search is done again, if the collection is changed meanwhile. Services take up a change one after
/// the other, within seconds.
const PAUSES: [Duration; 3] = [Duration::from_millis(500), Duration::from_millis(1500), Duration::from_millis(3000)];

/// The names of a service's applications without those of the documents of its collections, which nobody asks alone.
pub fn without_documents(names: Vec<String>) -> Vec<String> {
    let of_collection = |name: &String| name.strip_suffix(DOCUMENTS).is_some_and(|of| names.iter().any(|n| n == of));
    names.iter().filter(|name| !of_collection(name)).cloned().collect()
}

/// A document that was found and fetched.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The cosine of its vector and the query's, with the error of encryption and of coordinates of 8 bits.
    pub cosine: f32,
    /// Its position in the collection, which a rebuild changes.
    pub position: u64,
    /// The document.
    pub document: Document,
}

/// A client of a collection, connected to the application that searches it and to the one of its documents.
pub struct Searcher {
    search: ServiceClient<SearchClient>,
    documents: ServiceClient<PirClient>,
}

impl Searcher {
    /// Connects to the collection of an application, and to its documents. `open` opens a connection and the key
    /// directory for an application of the service.
    ///
    /// # Errors
    /// If the service cannot be reached, refuses, or describes what cannot be searched.
    pub fn connect<E: From<ClientError>>(
        application: &str,
        open: impl Fn(&str) -> Result<(Transport, StateDir), E>,
        progress: &mut dyn FnMut(Progress),
        cancel: &Cancel,
    ) -> Result<Self, E> {
        Self::connect_as(application, open, false, progress, cancel)
    }

    /// Like [`Searcher::connect`], but accepts insecure presets: for tests.
    ///
    /// # Errors
    /// As for [`Searcher::connect`].
    pub fn insecure_connect<E: From<ClientError>>(
        application: &str,
        open: impl Fn(&str) -> Result<(Transport, StateDir), E>,
        progress: &mut dyn FnMut(Progress),
        cancel: &Cancel,
    ) -> Result<Self, E> {
        Self::connect_as(application, open, true, progress, cancel)
    }

    fn connect_as<E: From<ClientError>>(
        application: &str,
        open: impl Fn(&str) -> Result<(Transport, StateDir), E>,
        insecure: bool,
        progress: &mut dyn FnMut(Progress),
        cancel: &Cancel,
    ) -> Result<Self, E> {
        let (transport, state) = open(application)?;
        let connect = if insecure { ServiceClient::insecure_connect } else { ServiceClient::connect };
        let search: ServiceClient<SearchClient> = connect(transport, application, (), &state, progress, cancel)?;
        let name = search.description().documents().to_owned();
        if !is_application_name(&name) {
            let needed = "a name of applications; do not trust this service";
            let error =
                ProtocolError::mismatch("description: application of the documents", format!("{name:?}"), needed);
            return Err(ClientError::of_application(SearchError::from(error)).into());
        }
        let (transport, state) = open(&name)?;
        let options = PirOptions::new(Mode::Packed, state.clone());
        let connect = if insecure { ServiceClient::insecure_connect } else { ServiceClient::connect };
        // Before the first question, so that the time of its answer says nothing.
        let documents = connect(transport, &name, options, &state, progress, cancel)?;
        Ok(Searcher { search, documents })
    }

    /// What the service describes.
    pub fn description(&self) -> &Description {
        self.search.description()
    }

    /// The client of the application that searches.
    pub fn search(&self) -> &ServiceClient<SearchClient> {
        &self.search
    }

    /// Bytes and seconds of searching, and of fetching documents.
    pub fn usage(&self) -> [UsageStats; 2] {
        [self.search.usage(), self.documents.usage()]
    }

    /// Finds the `most` documents nearest to each vector, the nearest first, and fetches them. There are fewer if the
    /// blocks that were asked have fewer, or documents were removed.
    ///
    /// # Errors
    /// If a vector does not fit, the service refuses, an answer cannot be read, or the collection is changed again and
    /// again.
    pub fn find(
        &mut self,
        vectors: &[Vec<f32>],
        most: usize,
        progress: &mut dyn FnMut(Progress),
        cancel: &Cancel,
    ) -> Result<Vec<Vec<Found>>, ClientError> {
        self.find_and_show(vectors, most, progress, &mut |_| (), cancel)
    }

    /// Like [`Searcher::find`], and passes the bytes of every request, as the service sees them, to `show`.
    ///
    /// # Errors
    /// As for [`Searcher::find`].
    pub fn find_and_show(
        &mut self,
        vectors: &[Vec<f32>],
        most: usize,
        progress: &mut dyn FnMut(Progress),
        show: &mut dyn FnMut(&[u8]),
        cancel: &Cancel,
    ) -> Result<Vec<Vec<Found>>, ClientError> {
        for pause in PAUSES.iter().map(Some).chain([None]) {
            if let Some(found) = self.find_in_one_version(vectors, most, progress, show, cancel)? {
                return Ok(found);
            }
            pause.map_or(Ok(()), |&pause| cancel.sleep(pause))?;
        }
        Err(ClientError::of_application(SearchError::Replaced))
    }

    /// As [`Searcher::find`]; `None` if the index or the documents were changed between both steps.
    fn find_in_one_version(
        &mut self,
        vectors: &[Vec<f32>],
        most: usize,
        progress: &mut dyn FnMut(Progress),
        show: &mut dyn FnMut(&[u8]),
        cancel: &Cancel,
    ) -> Result<Option<Vec<Vec<Found>>>, ClientError> {
        let mut scores: Vec<Vec<u8>> = Vec::new();
        let searched =
            self.search.ask_and_see(vectors, progress, show, &mut |answer| scores.push(answer.to_vec()), cancel);
        // A service that makes an answer unreadable must not learn that it was: the same number of documents is
        // fetched.
        let hits: &[Vec<Hit>] = match &searched {
            Ok(hits) => hits,
            Err(_) if !scores.is_empty() => &[],
            Err(_) => return searched.map(|_| None),
        };
        let mut wanted: Vec<Question> = Vec::with_capacity(most * vectors.len());
        for number in 0..vectors.len() {
            let hits = hits.get(number).map(Vec::as_slice).unwrap_or_default();
            wanted.extend(hits.iter().take(most).map(|hit| Question::Index(hit.position)));
            wanted.resize((number + 1) * most, Question::Index(0));
        }
        let mut versions: Vec<Option<u64>> = Vec::new();
        let mut arrived = |answer: &[u8]| versions.push(PirClient::version_of(answer));
        let fetched = self.documents.ask_and_see(&wanted, progress, show, &mut arrived, cancel);
        if versions.is_empty() && fetched.is_err() {
            return fetched.map(|_| None);
        }
        // Versions are not encrypted. Before all else: whether both steps are done again must not depend on what was
        // read.
        let is_of = |version: &Option<u64>, answer: &[u8]| {
            version.is_some_and(|version| SearchClient::has_version_of(answer, version))
        };
        if versions.iter().any(|version| scores.iter().any(|answer| !is_of(version, answer))) {
            return Ok(None);
        }
        let (searched, fetched) = (searched?, fetched?);
        let mut found = Vec::with_capacity(vectors.len());
        for (hits, answers) in searched.iter().zip(fetched.chunks(most.max(1))) {
            let mut of_vector = Vec::with_capacity(most);
            for (hit, answer) in hits.iter().zip(answers) {
                let record = answer.record.as_ref().map(|record| record.as_slice()).unwrap_or_default();
                let document = Document::from_record(record)
                    .map_err(|error| ClientError::of_application(SearchError::Document(error)))?;
                // Removed after the scores were computed.
                let Some(document) = document else { continue };
                of_vector.push(Found { cosine: hit.cosine, position: hit.position, document });
            }
            found.push(of_vector);
        }
        Ok(Some(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_of_collections_are_left_out() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let offered = names(&["search/notes", "search/notes-documents", "pir/other-documents"]);
        assert_eq!(without_documents(offered), names(&["search/notes", "pir/other-documents"]));
    }
}
