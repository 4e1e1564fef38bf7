//! Warnings on standard error.

use unspoken_fasttext::TextCoverage;

/// Prints the warnings about texts that a model reads only in part.
pub fn warn_of_texts(coverage: &TextCoverage) {
    coverage.warnings().for_each(|warning| eprintln!("warning: {warning}"));
}
