//! Drugs.com: reviews with ratings, tab-separated.

use std::path::Path;

use super::collect::Collector;
use super::table;
use crate::dataset::Dataset;
use crate::error::StoreError;

const COLUMNS: [&str; 2] = ["review", "rating"];
const NEGATIVE: &str = "negative";
const POSITIVE: &str = "positive";
/// The largest rating that is negative.
const LAST_NEGATIVE: f64 = 5.0;

pub(super) fn read(path: &Path) -> Result<Dataset, StoreError> {
    let mut collector = Collector::new(path);
    table::read(path, b'\t', COLUMNS, |line, [review, rating]| {
        let label = label(rating).ok_or_else(|| {
            let needed = "a whole number from 1 to 10, or negative or positive";
            collector.refuse(line, format!("the rating {rating:?}"), needed)
        })?;
        collector.push(&text(review), label)
    })?;
    Ok(collector.finish())
}

/// The label of a rating, a number such as `9` or `9.0`, or a label.
fn label(rating: &str) -> Option<&'static str> {
    if let Some(label) = [NEGATIVE, POSITIVE].into_iter().find(|label| *label == rating) {
        return Some(label);
    }
    let number: f64 = rating.parse().ok()?;
    let allowed = (1.0..=10.0).contains(&number) && number.fract() == 0.0;
    allowed.then_some(if number <= LAST_NEGATIVE { NEGATIVE } else { POSITIVE })
}

/// The review without its outer quotes, with entities decoded and single spaces.
fn text(review: &str) -> String {
    let inner = review.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(review);
    let decoded = html_escape::decode_html_entities(inner);
    decoded.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const HEAD: &str = "\tdrugName\tcondition\treview\trating\tdate\tusefulCount\n";

    fn read_of(records: &str) -> Result<Dataset, StoreError> {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        fs::write(file.path(), format!("{HEAD}{records}")).expect("write");
        read(file.path())
    }

    #[test]
    fn reviews_are_decoded_and_ratings_are_labels() {
        let records = [
            "206461\tValsartan\tPain\t\"\"\"It&#039;s  &quot;ok&quot; &amp; I&rsquo;m\r\r\nwell\"\"\"\t9.0\tMay\t27\n",
            "95260\tGuanfacine\tADHD\t\"\"\"&#x41; &unknown; &#1114112;\"\"\"\t5\tMay 2\t192\n",
            "1\tA\tB\tbad\t1.0\tMay 3\t0\n2\tA\tB\t\t6\tMay 4\t0\n3\tA\tB\tworse\tnegative\tMay 5\t0\n",
        ];
        let data = read_of(&records.concat()).expect("reads");
        assert_eq!(data.labels(), ["positive", "negative", "negative", "positive", "negative"]);
        assert_eq!(data.texts(), ["It's \"ok\" & I’m well", "A &unknown; &#1114112;", "bad", "", "worse"]);
    }

    #[test]
    fn other_ratings_and_records_are_named() {
        for rating in ["0", "11", "5.5", "", "neutral", "NaN", "inf"] {
            let error = read_of(&format!("1\tA\tB\tok\t7\tMay 1\t0\n2\tA\tB\tx\t{rating}\tMay 2\t1\n"));
            let error = error.expect_err("refused").to_string();
            assert!(error.contains(&format!("line 3: found the rating {rating:?}, needed a whole number")), "{error}");
        }
        let error = read_of("1\tA\tB\tok\t7\tMay 1\t0\n2\tA\tB\n").expect_err("refused");
        assert!(matches!(error, StoreError::Record { line: 3, .. }), "{error}");
    }
}
