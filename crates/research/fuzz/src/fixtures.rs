//! Fixtures: small parameters, a small model and both sides of a classifier, the same in every run.

use std::borrow::Borrow;
use std::ops::Deref;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

use unspoken_ckks::{CkksLiteral, CkksParameters, Preset};
use unspoken_classify::{
    ClassifyClient, ClassifyError, ClassifyOptions, ClassifyServer, Description, HeadClient, HeadModel, HeadServer,
    HeadTables,
};
use unspoken_digits::{DigitsClient, DigitsError, DigitsServer};
use unspoken_digits_model::{Network, Shape, TrainingRecord};
use unspoken_embed::{EmbedClient, EmbedError, EmbedOptions, EmbedServer};
use unspoken_embedding::{
    CompressOptions, CompressedTable, EmbeddingTable, GumbelOptions, LinearHead, TokenList, compress,
    compress_by_gumbel,
};
use unspoken_fasttext::{Model, Tokeniser, TrainOptions, fit};
use unspoken_lookup::LookupPlan;
use unspoken_protocol::{CkksClientHalf, ClientHalf, ClientId, KeyLoader, ProtocolError};
use unspoken_query::QueryForm;
use unspoken_ring::{Basis, SecretRng};
use unspoken_rlwe::{EncapsulationLiteral, EvaluationKeys, SecretKey};

use crate::messages::{self, MAX_QUERY_BYTES_MADE, PRESET};

/// A test preset with terminal primes.
const TERMINAL_PRESET: &str = "insecure_n11_depth12_scale40";

/// The smallest supported ring degree.
const DEGREE: usize = 512;

/// The test preset in the smallest ring, with fewer primes. Its primes work for every smaller ring degree too.
fn small(base_primes: usize, levels: usize, special_primes: usize, digit_len: usize) -> CkksParameters {
    CkksParameters::new(small_literal(base_primes, levels, special_primes, digit_len)).expect("a possible set")
}

fn small_literal(base_primes: usize, levels: usize, special_primes: usize, digit_len: usize) -> CkksLiteral {
    let mut literal = Preset::find(PRESET).expect("a preset").literal().expect("enough primes");
    literal.rlwe.name = "insecure_fuzz".into();
    literal.rlwe.ring.degree = DEGREE;
    let surplus = literal.levels[0].chain - base_primes;
    literal.rlwe.ring.chain.drain(base_primes..base_primes + surplus);
    literal.levels.truncate(levels + 1);
    literal.levels.iter_mut().for_each(|level| level.chain -= surplus);
    literal.rlwe.ring.chain.truncate(literal.levels[levels].chain);
    literal.rlwe.ring.special.truncate(special_primes);
    literal.rlwe.ring.digit_len = digit_len;
    literal
}

/// Number of chain primes of the keys of [`BOOT`] under the sparse secret.
pub const SPARSE_PRIMES: usize = 3;

/// Like [`SMALL`] with one more level, for bootstrapping, in a ring of twice the degree: the ring of its queries is
/// the smallest one.
pub static BOOT: LazyLock<CkksParameters> = LazyLock::new(|| {
    let mut literal = small_literal(1, 2, 4, 2);
    literal.rlwe.ring.degree = 2 * DEGREE;
    literal.rlwe.encapsulation = Some(EncapsulationLiteral { base: 1, primes: SPARSE_PRIMES });
    CkksParameters::new(literal).expect("a possible set")
});

/// The test preset for subring queries; their ring is the smallest one.
pub static QUERY: LazyLock<CkksParameters> = LazyLock::new(|| {
    Preset::find("insecure_n11_query_depth11_scale40").and_then(Preset::build).expect("a possible set")
});

/// A secret of [`BOOT`].
pub static BOOT_SECRET: LazyLock<SecretKey> =
    LazyLock::new(|| SecretKey::generate(BOOT.rlwe(), &mut rng()).expect("a secret"));

/// Three chain primes and a terminal prime on three levels that are not nested; the second digit of a key has only one
/// prime.
pub static SMALL: LazyLock<CkksParameters> = LazyLock::new(|| {
    let mut literal = small_literal(1, 1, 2, 2);
    let with_terminal = Preset::find(TERMINAL_PRESET).and_then(Preset::literal).expect("a preset");
    literal.rlwe.ring.terminal = with_terminal.rlwe.ring.terminal[..1].to_vec();
    literal.levels.insert(1, Basis::chain(1).with_terminal(1));
    CkksParameters::new(literal).expect("a possible set")
});

/// A secret of [`SMALL`].
pub static SMALL_SECRET: LazyLock<SecretKey> =
    LazyLock::new(|| SecretKey::generate(SMALL.rlwe(), &mut rng()).expect("a secret"));

/// With the number of primes that [`CLASSIFIER`] needs.
static DEEP: LazyLock<CkksParameters> = LazyLock::new(|| small(3, 3, 4, 4));

/// A model of two subtables of eight columns.
pub static MODEL: LazyLock<Model> = LazyLock::new(|| {
    let texts = ["win free cash", "see you at home", "claim your prize", "the train is late"];
    let texts: Vec<String> = (0..24).map(|i| texts[i % 4].to_owned()).collect();
    let labels: Vec<String> = (0..24).map(|i| ["spam", "ham"][i % 2].to_owned()).collect();
    let options = TrainOptions {
        tokeniser: Tokeniser { max_tokens: 8, ..Tokeniser::default() },
        subtables: 2,
        columns: 8,
        dimension: 4,
        batch: 8,
        relaxed_epochs: 2,
        hard_epochs: 2,
        ..TrainOptions::default()
    };
    fit(&texts, &labels, &options, &mut |_| {}, &AtomicBool::new(false)).expect("a model")
});

fn classifier(parameters: &CkksParameters) -> ClassifyServer {
    let plan = Some(LookupPlan::BabyGiant { babies: 2 });
    let options = ClassifyOptions { plan, short_queries: false, ..ClassifyOptions::default() };
    ClassifyServer::new(MODEL.tables(), parameters, &options).expect("levels suffice")
}

/// A server in the smallest ring.
pub static CLASSIFIER: LazyLock<ClassifyServer> = LazyLock::new(|| classifier(&DEEP));

/// The description of a server with a preset that a client can look up.
pub static DESCRIPTION: LazyLock<Description> =
    LazyLock::new(|| classifier(&Preset::find(PRESET).and_then(Preset::build).expect("builds")).description().clone());

/// The client of [`CLASSIFIER`]; its secret is the same in every run.
pub fn client() -> ClassifyClient {
    client_of(CLASSIFIER.description().clone()).expect("the same model")
}

/// A client of a server with this description.
pub fn client_of(description: Description) -> Result<ClassifyClient, unspoken_classify::ClassifyError> {
    let secret = secret_of(description.parameters())?;
    ClassifyClient::open(description, Arc::new(MODEL.encoder().clone()), Some(&secret))
}

/// The bundle of switching keys of [`client`].
pub static BUNDLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = Vec::new();
    client().keyring().write_keys(&mut bytes, |_, _| {}, &AtomicBool::new(false)).expect("writes to memory");
    bytes
});

/// The keys of [`BUNDLE`], expanded.
pub static KEYS: LazyLock<EvaluationKeys> =
    LazyLock::new(|| CLASSIFIER.load_keys(&mut BUNDLE.as_slice()).expect("the client's keys"));

/// Rows of three numbers.
static ROWS: LazyLock<EmbeddingTable> = LazyLock::new(|| {
    let names = ["the", "prize", "[UNK]", "train", "is", "late", "claim", "your", "free", "cash", "##s", "a"];
    let tokens = TokenList::new(names.map(String::from).to_vec()).expect("a list");
    let values = (0..3 * names.len()).map(|i| ((i * i) as f32 * 0.37).sin()).collect();
    EmbeddingTable::new(tokens, 3, values).expect("a table")
});

/// A compressed table of two subtables with eight columns each; its rows have three numbers.
pub static TABLE: LazyLock<CompressedTable> = LazyLock::new(|| {
    let options = CompressOptions { subtables: 2, columns: 8, rounds: 2, ..CompressOptions::default() };
    compress(&ROWS, &options, &mut |_| {}, &AtomicBool::new(false)).expect("compresses")
});

/// The same rows, compressed by the encoder network.
pub static GUMBEL_TABLE: LazyLock<CompressedTable> = LazyLock::new(|| {
    let options = GumbelOptions { subtables: 2, columns: 8, epochs: 2, ..GumbelOptions::default() };
    compress_by_gumbel(&ROWS, &options, &mut |_| {}, &AtomicBool::new(false)).expect("compresses")
});

fn embedder(parameters: &CkksParameters, short_queries: bool) -> EmbedServer {
    let plan = Some(LookupPlan::BabyGiant { babies: 2 });
    let options = EmbedOptions { plan, short_queries, ..EmbedOptions::default() };
    EmbedServer::new(TABLE.subtables(), parameters, &options).expect("levels suffice")
}

/// A server of embeddings in the smallest ring.
pub static EMBEDDER: LazyLock<EmbedServer> = LazyLock::new(|| embedder(&DEEP, false));

/// The same with short queries.
pub static SHORT_EMBEDDER: LazyLock<EmbedServer> = LazyLock::new(|| embedder(&DEEP, true));

/// The same with short compact queries.
pub static SHORT_COMPACT_EMBEDDER: LazyLock<EmbedServer> = LazyLock::new(|| {
    let plan = Some(LookupPlan::BabyGiant { babies: 2 });
    let options = EmbedOptions { plan, query: QueryForm::Compact, ..EmbedOptions::default() };
    EmbedServer::new(TABLE.subtables(), &QUERY, &options).expect("levels suffice")
});

/// A compressed table of two subtables with eight columns each; its rows have 60 numbers.
static WIDE_TABLE: LazyLock<CompressedTable> = LazyLock::new(|| {
    let tokens = TokenList::new((0..12).map(|i| format!("w{i}")).collect()).expect("a list");
    let values = (0..60 * 12).map(|i| ((i * i) as f32 * 0.37).sin()).collect();
    let rows = EmbeddingTable::new(tokens, 60, values).expect("a table");
    let options = CompressOptions { subtables: 2, columns: 8, rounds: 2, ..CompressOptions::default() };
    compress(&rows, &options, &mut |_| {}, &AtomicBool::new(false)).expect("compresses")
});

/// A server of [`WIDE_TABLE`], which looks up few tokens by strides.
pub static STRIDED_EMBEDDER: LazyLock<EmbedServer> = LazyLock::new(|| {
    let parameters = Preset::find("insecure_n11_depth9_scale50").and_then(Preset::build).expect("a possible set");
    EmbedServer::new(WIDE_TABLE.subtables(), &parameters, &EmbedOptions::default()).expect("levels suffice")
});

/// A client of [`STRIDED_EMBEDDER`]; its secret is the same in every run.
pub fn wide_embed_client_of(description: unspoken_embed::Description) -> Result<EmbedClient, EmbedError> {
    let secret = secret_of(description.parameters())?;
    EmbedClient::open(description, Arc::new(WIDE_TABLE.codes().clone()), Some(&secret))
}

/// The descriptions of embedding servers with a preset that a client can look up: without short queries, which real
/// slots cannot have, and with them.
pub static EMBEDDING_DESCRIPTIONS: LazyLock<[unspoken_embed::Description; 2]> = LazyLock::new(|| {
    let parameters = Preset::find(PRESET).and_then(Preset::build).expect("builds");
    [false, true].map(|short_queries| embedder(&parameters, short_queries).description().clone())
});

/// A client of an embedding server with this description; its secret is the same in every run.
pub fn embed_client_of(description: unspoken_embed::Description) -> Result<EmbedClient, EmbedError> {
    let secret = secret_of(description.parameters())?;
    EmbedClient::open(description, Arc::new(TABLE.codes().clone()), Some(&secret))
}

/// A head of three classes over [`TABLE`].
pub static HEAD: LazyLock<LinearHead> = LazyLock::new(|| {
    let classes = ["bad", "fair", "good"].map(String::from).to_vec();
    let weights = (0..9).map(|i| f64::from(i * i % 5) - 2.0).collect();
    LinearHead::new(classes, 8, 3, weights, vec![0.5, 0.0, -0.5]).expect("a head")
});

fn layer(parameters: &CkksParameters) -> HeadServer {
    let plan = Some(LookupPlan::BabyGiant { babies: 2 });
    let options = ClassifyOptions { plan, short_queries: false, ..ClassifyOptions::default() };
    HeadServer::new(&HeadTables::new(&HEAD, TABLE.subtables()).expect("the head fits the table"), parameters, &options)
        .expect("levels suffice")
}

/// A server of a head in the smallest ring.
pub static LAYER: LazyLock<HeadServer> = LazyLock::new(|| layer(&DEEP));

/// The description of a server of a head with a preset that a client can look up.
pub static LAYER_DESCRIPTION: LazyLock<unspoken_classify::HeadDescription> =
    LazyLock::new(|| layer(&Preset::find(PRESET).and_then(Preset::build).expect("builds")).description().clone());

/// A client of a head with this description; its secret is the same in every run.
pub fn layer_client_of(description: unspoken_classify::HeadDescription) -> Result<HeadClient, ClassifyError> {
    let secret = secret_of(description.parameters())?;
    let model = HeadModel { codes: Arc::new(TABLE.codes().clone()), cut: true };
    HeadClient::open(description, model, Some(&secret))
}

/// The smallest possible network for digits.
pub static NETWORK: LazyLock<Network> = LazyLock::new(|| {
    let shape = Shape { channels: 1, hidden: 16 };
    let parameters = (0..shape.parameters()).map(|i| (i % 11) as f64 / 16.0 - 0.25).collect();
    Network::new(shape, parameters, TrainingRecord::default()).expect("a network")
});

/// A recogniser in the smallest ring.
pub static RECOGNISER: LazyLock<DigitsServer> =
    LazyLock::new(|| DigitsServer::new(&NETWORK, &small(3, 5, 4, 4), Some(1)).expect("levels suffice"));

/// The description of a recogniser with a preset that a client can look up.
pub static DIGITS_DESCRIPTION: LazyLock<unspoken_digits::Description> = LazyLock::new(|| {
    let parameters = Preset::find(PRESET).and_then(Preset::build).expect("builds");
    DigitsServer::new(&NETWORK, &parameters, Some(2)).expect("levels suffice").description().clone()
});

/// A client of a recogniser with this description; its secret is the same in every run.
pub fn digits_client_of(description: unspoken_digits::Description) -> Result<DigitsClient, DigitsError> {
    let secret = secret_of(description.parameters())?;
    DigitsClient::open(description, (), Some(&secret))
}

/// A generator with the same output in every run.
pub fn rng() -> SecretRng {
    SecretRng::insecure_from_seed(1)
}

/// The client that sends the queries.
pub const CLIENT: ClientId = ClientId::new([1; 16]);

/// A query of a client.
pub fn query<H: ClientHalf, Q: Borrow<H::Question>>(client: &mut H, questions: &[Q]) -> Result<Vec<u8>, H::Error> {
    let encoded = client.encode(questions)?;
    client.query(&encoded)
}

/// Generates the keys, and a query of these questions, that the description of a client asks for, and checks the
/// announced sizes: a query has at most `most` bytes.
pub fn serve_a_hostile_server<H, Q>(mut client: H, most: usize, questions: &[Q])
where
    H: ClientHalf + CkksClientHalf,
    Q: Borrow<H::Question>,
{
    if most > MAX_QUERY_BYTES_MADE {
        return;
    }
    if let Ok(query) = query(&mut client, questions) {
        assert!(query.len() <= most, "a query of {} bytes, announced {most}", query.len());
    }
    messages::make_keys(client.keyring());
}

/// The keys of a client, loaded by its server.
pub fn keys_of<S: KeyLoader>(server: &S, client: &impl CkksClientHalf) -> S::Keys {
    let mut bundle = Vec::new();
    client.keyring().write_keys(&mut bundle, |_, _| {}, &AtomicBool::new(false)).expect("writes to memory");
    server.load_keys(&mut bundle.as_slice()).unwrap_or_else(|_| panic!("the client's keys"))
}

/// The bytes of a secret for these parameters, the same in every run.
fn secret_of(parameters: &CkksParameters) -> Result<impl Deref<Target = Vec<u8>> + use<>, ProtocolError> {
    Ok(SecretKey::generate(parameters.rlwe(), &mut rng()).and_then(|key| key.to_bytes())?)
}

/// Decodes an answer to these questions.
pub fn read<H: ClientHalf, Q: Borrow<H::Question>>(
    client: &H,
    answer: &[u8],
    questions: &[Q],
) -> Result<Vec<H::Answer>, H::Error> {
    client.read(answer, &client.encode(questions)?)
}
