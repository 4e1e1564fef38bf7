//! A collection that is indexed and laid out as the product does it, a client, and passes over its table.

use std::sync::atomic::AtomicBool;

use unspoken_pir_scheme::dense::scores::{ScoreResponse, answer};
use unspoken_pir_scheme::dense::{DenseTable, MaskSeed, RowsQuery};
use unspoken_pir_scheme::{PirParameters, PirSecret};
use unspoken_ring::SecretRng;
use unspoken_search_index::{Index, Plan, Wish};

use super::data::Collection;
use super::exact;
use crate::error::wrong;
use crate::row::Metric;

/// Neighbours that are looked for.
pub(super) const NEIGHBOURS: usize = 10;

/// The recall that collections are laid out for; some are measured for another one, too.
pub(super) const RECALL: f64 = 0.95;

/// Documents on which the recall is measured that decides how many blocks are asked: as `unspoken search build` does.
const SAMPLED: usize = 256;

/// The link that layouts are chosen for, in bytes a second, and the cores of the service.
const LINK: f64 = 100e6 / 8.0;
const CORES: f64 = 2.0;

/// Largest error of a decrypted cosine, in predicted deviations.
const DEVIATIONS: f64 = 8.0;

pub(super) const RECALL_OF: Metric = Metric::more("recall", "of 10");

/// What a layout is chosen for: as `unspoken search build` does without options.
pub(super) fn wish(documents: usize, width: usize) -> Wish {
    let memory = (3 * documents as u64 * width as u64).max(256 << 20);
    Wish { documents, width, link: LINK, cores: CORES, memory }
}

/// An index of a collection and its table.
pub(super) struct Subject {
    pub(super) parameters: PirParameters,
    pub(super) collection: Collection,
    pub(super) index: Index,
    pub(super) table: DenseTable,
    /// Recall with 1, 2 and more blocks asked, on documents of the collection.
    pub(super) recalls: Vec<f64>,
    /// The documents nearest to each query, by exact search.
    nearest: Vec<Vec<usize>>,
}

/// A client of its own for each question: secrets, and the questions asked.
pub(super) struct Client {
    secret: PirSecret,
    rng: SecretRng,
}

/// A query vector, the blocks that it asks, and the queries for them.
pub(super) struct Question {
    pub(super) vector: Vec<f32>,
    pub(super) blocks: Vec<usize>,
    pub(super) queries: Vec<RowsQuery>,
}

impl Subject {
    /// Clusters the collection, chooses how many blocks are asked for a recall of [`RECALL`], and prepares the table.
    pub(super) fn new(parameters: &PirParameters, collection: Collection) -> anyhow::Result<Self> {
        let wish = wish(collection.len(), collection.width());
        let plan = Plan::all(parameters, &wish)?.remove(0);
        let index = Index::new(parameters, collection.documents.view(), &plan, MaskSeed([7; 16]), &mut |_, _| ())?;
        let step = (collection.len() / SAMPLED).max(1);
        let sample: Vec<usize> = (0..collection.len()).step_by(step).take(SAMPLED).collect();
        let recalls = index.recalls(collection.documents.view(), &sample, NEIGHBOURS);
        let groups = 0..index.shape().groups();
        let part = index.shape().part(parameters, groups.clone())?;
        let bytes = groups.map(|group| index.group_bytes(parameters, group)).collect::<Result<Vec<_>, _>>()?.concat();
        let table = DenseTable::from_bytes(parameters, part, bytes)?;
        let nearest = exact::search_all(&collection.documents, &collection.queries, NEIGHBOURS);
        let subject = Subject { parameters: parameters.clone(), collection, index, table, recalls, nearest };
        Ok(subject.asking(RECALL))
    }

    /// The same index, whose questions ask as many blocks as this recall needs, or all that are measured.
    pub(super) fn asking(self, recall: f64) -> Self {
        let enough = self.recalls.iter().position(|&found| found >= recall);
        let asked = enough.map_or(self.recalls.len(), |place| place + 1);
        Subject { index: self.index.asking(asked), ..self }
    }

    /// Blocks, groups and asked blocks.
    pub(super) fn layout(&self) -> [usize; 3] {
        [self.index.shape().blocks(), self.index.shape().groups(), self.asked()]
    }

    pub(super) fn asked(&self) -> usize {
        self.index.directory().asked()
    }

    /// What the planner predicts for this layout.
    pub(super) fn plan(&self) -> Plan {
        let wish = wish(self.collection.len(), self.collection.width());
        Plan::new(&self.parameters, &wish, self.layout())
    }

    /// The part of the nearest documents that clients without errors of encryption find, over all queries.
    pub(super) fn recall(&self) -> f64 {
        let found = self.collection.queries.outer_iter().zip(&self.nearest).map(|(query, nearest)| {
            let found = self.index.search(&query.to_vec(), self.asked(), NEIGHBOURS);
            self.found(found.iter().map(|&(position, _)| position), nearest)
        });
        found.sum::<usize>() as f64 / (self.nearest.len() * NEIGHBOURS) as f64
    }

    /// How many of the documents at these positions are among the nearest ones.
    fn found(&self, positions: impl Iterator<Item = usize>, nearest: &[usize]) -> usize {
        let documents = positions.filter_map(|position| self.index.positions()[position]);
        documents.filter(|&document| nearest.contains(&(document as usize))).count()
    }

    /// The responses to all queries of some questions, from one pass over the table.
    pub(super) fn pass(&self, questions: &[Question]) -> anyhow::Result<Vec<Vec<ScoreResponse>>> {
        let queries: Vec<&RowsQuery> = questions.iter().flat_map(|question| &question.queries).collect();
        let (shape, never) = (self.index.shape(), AtomicBool::new(false));
        Ok(answer(&self.parameters, shape, 0..shape.groups(), &self.table.groups(), &queries, &never)?)
    }

    /// How many of the ten nearest documents of query `number` the decrypted scores find, and how many they find
    /// without errors of encryption. All cosines are compared.
    pub(super) fn check(
        &self,
        client: &Client,
        number: usize,
        question: &Question,
        responses: &[Vec<ScoreResponse>],
    ) -> anyhow::Result<[usize; 2]> {
        let hits = client.read(self, question, responses)?;
        let exact = self.index.search(&question.vector, self.asked(), hits.len());
        let error = DEVIATIONS * self.cosine_deviation()?;
        let worst = exact.iter().fold(0.0f64, |worst, &(position, cosine)| {
            let found = hits[hits_place(&hits, position)].1;
            worst.max(f64::from((found - cosine).abs()))
        });
        if worst.is_nan() || worst > error {
            return Err(wrong(format!("{}: cosines of query {number}", self.collection.name), worst, error));
        }
        let mut best = hits;
        best.sort_by(|a, b| b.1.total_cmp(&a.1));
        let nearest = &self.nearest[number];
        let of_both = [&best, &exact].map(|hits| self.found(hits.iter().take(NEIGHBOURS).map(|hit| hit.0), nearest));
        Ok(of_both)
    }

    /// Predicted standard deviation of the error of a cosine.
    pub(super) fn cosine_deviation(&self) -> anyhow::Result<f64> {
        let (shape, scale) = (self.index.shape(), f64::from(self.index.directory().scale()));
        Ok(shape.deviation(&self.parameters)? * f64::from(shape.norm()) / scale)
    }
}

/// Place of a position among hits in the order of positions.
fn hits_place(hits: &[(usize, f32)], position: usize) -> usize {
    hits.partition_point(|hit| hit.0 < position)
}

impl Client {
    pub(super) fn new(parameters: &PirParameters, seed: u64) -> anyhow::Result<Self> {
        let mut rng = SecretRng::insecure_from_seed(seed);
        Ok(Client { secret: PirSecret::generate(parameters, &mut rng)?, rng })
    }

    /// Asks the blocks nearest to a vector.
    pub(super) fn ask(&mut self, subject: &Subject, vector: &[f32]) -> anyhow::Result<Question> {
        let (shape, directory) = (subject.index.shape(), subject.index.directory());
        let blocks = directory.blocks(vector, directory.asked()).to_vec();
        let mut query = |&block: &usize| self.secret.score_query(shape, block, vector, &mut self.rng);
        let queries = blocks.iter().map(&mut query).collect::<Result<_, _>>()?;
        Ok(Question { vector: vector.to_vec(), blocks, queries })
    }

    /// The cosines of all documents of the blocks that were asked, in the order of positions.
    pub(super) fn read(
        &self,
        subject: &Subject,
        question: &Question,
        responses: &[Vec<ScoreResponse>],
    ) -> anyhow::Result<Vec<(usize, f32)>> {
        let (shape, scale) = (subject.index.shape(), subject.index.directory().scale());
        let positions = subject.index.positions();
        let room = positions.len() / (shape.blocks() * shape.groups());
        let mut hits = Vec::new();
        for (&block, responses) in question.blocks.iter().zip(responses) {
            for (group, response) in responses.iter().enumerate() {
                let scores = self.secret.scores(shape, &question.vector, response)?;
                let first = (block * shape.groups() + group) * room;
                let all = scores.iter().enumerate().map(|(column, score)| (first + column, score / scale));
                hits.extend(all.filter(|&(position, _)| positions[position].is_some()));
            }
        }
        hits.sort_by_key(|hit| hit.0);
        Ok(hits)
    }
}

/// Vectors of tests.
#[cfg(test)]
pub(super) fn small(documents: usize, width: usize) -> anyhow::Result<Collection> {
    let vectors = ndarray::Array2::from_shape_fn((documents + 20, width), |(i, j)| {
        ((i * 7919 + j * 104_729) % 10_007) as f32 - 5003.0 + 9000.0 * ((i % 9 * 5 + j) as f32).sin()
    });
    let vectors = unspoken_search_index::directions(vectors)?;
    let (queries, documents) = vectors.view().split_at(ndarray::Axis(0), 20);
    let name = format!("small, {} x {width}", documents.nrows());
    Ok(Collection { name, documents: documents.to_owned(), queries: queries.to_owned() })
}

#[cfg(test)]
mod tests {
    use unspoken_pir_scheme::Preset;

    use super::*;

    #[test]
    fn decrypted_cosines_find_what_the_index_finds() {
        let parameters = Preset::InsecureN11.build().unwrap();
        let subject = Subject::new(&parameters, small(5000, 24).unwrap()).unwrap();
        assert!(subject.recall() > 0.5, "{}", subject.recall());
        let mut client = Client::new(&parameters, 1).unwrap();
        let question = client.ask(&subject, &subject.collection.first_queries(1)[0]).unwrap();
        let responses = subject.pass(std::slice::from_ref(&question)).unwrap();
        let [encrypted, clear] = subject.check(&client, 0, &question, &responses).unwrap();
        assert!(clear > 0 && encrypted.abs_diff(clear) <= 1, "{encrypted} {clear}");
        let stranger = Client::new(&parameters, 2).unwrap();
        assert!(subject.check(&stranger, 0, &question, &responses).is_err());
        assert_eq!(wish(1000, 10).memory, 256 << 20);
    }
}
