//! Real tables of numbers; one column of each (`scripts/fetch_data.py genes bitcoin covid`).

use std::path::Path;

use crate::harness::Harness;

/// A column of a table.
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) values: Vec<f64>,
}

/// Names, files and columns. They replace the tables of the paper: hg38, Bitcoin's trade volume, and US Covid
/// statistics from other sources.
const TABLES: [(&str, &str, &str); 3] = [
    ("exons of human genes", "data/tables/genes.csv", "exons"),
    ("Bitcoin volume by month", "data/tables/bitcoin.csv", "Volume"),
    ("ages of Covid tests", "data/tables/covid.csv", "age"),
];

impl Table {
    /// The tables that have been downloaded; reports the missing ones.
    pub(super) fn all(harness: &mut Harness<'_>) -> anyhow::Result<Vec<Table>> {
        let mut found = Vec::new();
        for (name, file, column) in TABLES {
            let path = harness.options.root.join(file);
            match path.exists() {
                true => found.push(Table { name, values: read(&path, column)? }),
                false => harness.progress(format!("{file} is absent and left out; scripts/fetch_data.py downloads it")),
            }
        }
        Ok(found)
    }
}

/// Reads the numbers of a column of a CSV file without quotes.
fn read(path: &Path, column: &str) -> anyhow::Result<Vec<f64>> {
    let refuse = |reason: String| {
        anyhow::anyhow!("cannot read {}: {reason}; scripts/fetch_data.py downloads it anew", path.display())
    };
    let text = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let Some(place) = head.split(',').position(|name| name == column) else {
        return Err(refuse(format!("found the columns {head}, needed {column}")));
    };
    let number = |(i, line): (usize, &str)| {
        let field = line.split(',').nth(place).unwrap_or_default();
        let value: Option<f64> = field.parse().ok().filter(|x: &f64| x.is_finite() && *x >= 0.0);
        value.ok_or_else(|| refuse(format!("row {}: found '{field}', needed a number of 0 or more", i + 1)))
    };
    lines.enumerate().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_read_and_what_is_no_number_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.csv");
        std::fs::write(&path, "month,Volume\na,1.5\nb,20\n").unwrap();
        assert_eq!(read(&path, "Volume").unwrap(), [1.5, 20.0]);
        assert!(read(&path, "volume").unwrap_err().to_string().contains("month,Volume"));
        for bad in ["x", "", "NaN", "inf", "-1"] {
            std::fs::write(&path, format!("month,Volume\na,1\nb,{bad}\n")).unwrap();
            let message = read(&path, "Volume").unwrap_err().to_string();
            assert!(message.contains("row 2") && message.contains(&format!("'{bad}'")), "{message}");
        }
    }
}
