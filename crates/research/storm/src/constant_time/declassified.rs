//! Functions that may branch on data that are marked secret, each with the reason.
//!
//! The cases mark more than is secret: whatever comes from a marked generator is marked, public seeds included, and so
//! is every ciphertext. And a check of a secret has a result that is not secret: whether the caller gets an error. A
//! report in one of these functions is not a finding; it is counted.

use super::valgrind::Report;

/// A function, and why its branches and addresses may depend on marked data.
pub struct Declassified {
    /// Text that the name of the function contains.
    pub function: &'static str,
    /// Why this reveals nothing.
    pub reason: &'static str,
    /// Whether the functions that it calls are declassified, too.
    pub callees: bool,
}

impl Declassified {
    const fn function(function: &'static str, reason: &'static str) -> Self {
        Declassified { function, reason, callees: false }
    }

    const fn with_callees(function: &'static str, reason: &'static str) -> Self {
        Declassified { function, reason, callees: true }
    }
}

const SEED: &str = "expands a public seed by rejection";
const VALID: &str = "one branch on whether all values are valid: the caller gets an error or not";
const TAG: &str = "one branch on whether the tag of a sealed entry is right: the caller gets the entry or an error";
const ANSWER: &str = "the label or digit is what the caller gets; requests do not depend on it";
const SHARED: &str = "noise and rounding of scores that the caller may publish; requests do not depend on them";
const PROOF: &str = "one branch on whether the proof of a service is right, over elements that it has seen";
const LENGTH: &str = "the length of an opened record is what the caller gets; requests do not depend on it";
const LARGE: &str = "which results are too large is what the caller gets; no request depends on it";
const ROW: &str = "why a row has no answer is what the caller gets, after the exchange";
const SUMS: &str = "the sums are what the collector gets; no request depends on them";
const HITS: &str = "the number of documents in an answer is what the caller gets; requests do not depend on it";
const RECORD: &str = "finding a record in a decrypted cell takes a time that depends on its lengths (SECURITY.md)";

/// All declassified functions.
pub static DECLASSIFIED: &[Declassified] = &[
    Declassified::function("fill_uniform", SEED),
    Declassified::function("select_below", SEED),
    Declassified::function("declassify::declassify", VALID),
    Declassified::function("check_each", VALID),
    Declassified::function("check_largest", VALID),
    Declassified::function("check_bound", VALID),
    Declassified::function("check_elements", VALID),
    Declassified::function("check_range", VALID),
    Declassified::function("check_index", VALID),
    Declassified::function("check_indices", VALID),
    Declassified::function("check_tokens", VALID),
    Declassified::function("check_values", VALID),
    Declassified::function("SecretKey::from_bytes", VALID),
    Declassified::function("decrypt_inout_detached", TAG),
    Declassified::function("outputs<unspoken_symmetric_pir", PROOF),
    Declassified::function("client::only_documents", HITS),
    Declassified::with_callees("CollectorKey::from_bytes", VALID),
    Declassified::with_callees("results::read_coefficients", SUMS),
    Declassified::with_callees("record::unpadded", LENGTH),
    Declassified::with_callees("unseal::is_right", LENGTH),
    Declassified::with_callees("encoder::Encoder::label", ANSWER),
    Declassified::with_callees("network::digit", ANSWER),
    Declassified::with_callees("HeadClient::labelled", ANSWER),
    Declassified::with_callees("HeadClient::share", SHARED),
    Declassified::with_callees("PirClient::find_records", RECORD),
    Declassified::with_callees("layout::Port::read", LARGE),
    Declassified::with_callees("EncodedRow::problem", ROW),
    Declassified::with_callees("model::client::predicted", ANSWER),
];

/// The reason why a report is not a finding, if there is one. Unless the callees of a function are declassified, only
/// the innermost function counts, with the functions inlined into it; a called function is another function.
pub fn reason(report: &Report) -> Option<&'static Declassified> {
    let inner = &report.frames[..report.innermost];
    DECLASSIFIED.iter().find(|known| {
        let frames = if known.callees { &report.frames[..] } else { inner };
        frames.iter().any(|frame| frame.contains(known.function))
    })
}
