//! Targets for the file formats of labelled texts.

use std::fs;

use unspoken_store::{Dataset, StoreError};

use crate::Target;
use crate::files::{self, Directory};

const DRUGS: [&str; 1] = ["drugsComTrain_raw.tsv"];
const ENRON_CSV: [&str; 1] = ["enron_spam_data.csv"];
const ENRON_MAILS: [&str; 2] = ["ham.txt", "spam.txt"];

/// `Dataset::read_drug_reviews`: each review has one of two labels, and its white space is single spaces.
pub static DRUG_REVIEWS: Target = Target {
    name: "texts_drug_reviews",
    run: |data| {
        let directory = Directory::of(data, &DRUGS);
        let read = Dataset::read_drug_reviews(directory.path().join(DRUGS[0]));
        if let Ok(found) = &read {
            assert!(found.texts().iter().all(|text| *text == text.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
        has_labels(read, ["negative", "positive"])
    },
    repair: |data| lengths(data, DRUGS.len()),
    seeds: || {
        let review =
            "\tcondition\treview\trating\n1\tPain\t\"\"\"I can&#039;t &amp; &lt; \r\n\"\"\"\t9.0\n2\tADHD\tbad\t1\n";
        vec![files::join([review.as_bytes()].into_iter())]
    },
};

/// `Dataset::read_enron_spam` of a CSV file: each mail has one of two labels.
pub static ENRON_SPAM_CSV: Target = Target {
    name: "texts_enron_spam_csv",
    run: |data| {
        let directory = Directory::of(data, &ENRON_CSV);
        has_labels(Dataset::read_enron_spam(directory.path().join(ENRON_CSV[0])), ["ham", "spam"])
    },
    repair: |data| lengths(data, ENRON_CSV.len()),
    seeds: || {
        let mails = "Message ID,Subject,Message,Spam/Ham,Date\n0,tree,,ham,1999\n1,win,\"a,\n\"\"b\"\"\",spam,2003\n";
        vec![files::join([mails.as_bytes()].into_iter())]
    },
};

/// `Dataset::read_enron_spam` of folders: every file is a mail, whatever its bytes.
pub static ENRON_SPAM_MAILS: Target = Target {
    name: "texts_enron_spam_mails",
    run: |data| {
        let mails = files::copied(data, ENRON_MAILS.len());
        let directory = Directory::empty();
        for (label, mail) in ["ham", "spam"].iter().zip(mails) {
            let folder = directory.path().join(label);
            fs::create_dir(&folder).expect("makes a folder");
            fs::write(folder.join("0001.txt"), mail).expect("writes");
        }
        let found = Dataset::read_enron_spam(directory.path()).expect("two mails");
        assert_eq!(found.labels(), ["ham", "spam"]);
        true
    },
    repair: |data| lengths(data, ENRON_MAILS.len()),
    seeds: || vec![files::join([&b"Subject: caf\xe9\r\nsee you\r\n"[..], b"no subject"].into_iter())],
};

/// Whether texts were read; each must have one of the labels.
fn has_labels(read: Result<Dataset, StoreError>, labels: [&str; 2]) -> bool {
    let Ok(found) = read else { return false };
    assert_eq!(found.texts().len(), found.labels().len());
    assert!(found.labels().iter().all(|label| labels.contains(&label.as_str())));
    true
}

/// Repairs the lengths of the files.
fn lengths(data: &mut Vec<u8>, count: usize) {
    let files = files::copied(data, count);
    *data = files::join(files.iter().map(Vec::as_slice));
}
