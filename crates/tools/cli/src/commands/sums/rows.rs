//! The values of contributions, from the command line or a CSV file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

use anyhow::Context;
use unspoken_sums::Column;
use zeroize::Zeroizing;

/// The values of one contribution. Wiped when dropped.
pub type Row = Zeroizing<Vec<i64>>;

/// A value of the command line.
#[derive(Clone)]
pub struct NamedValue {
    name: String,
    value: i64,
}

impl FromStr for NamedValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let needed = || "needed NAME=VALUE with an integer, for instance visits=3".to_owned();
        let (name, value) = text.split_once('=').ok_or_else(needed)?;
        Ok(NamedValue { name: name.into(), value: value.parse().map_err(|_| needed())? })
    }
}

/// Refuses a name that is given twice.
pub fn check_names(values: &[NamedValue]) -> anyhow::Result<()> {
    for (position, value) in values.iter().enumerate() {
        let twice = values[..position].iter().any(|earlier| earlier.name == value.name);
        anyhow::ensure!(!twice, "{} is given twice", value.name);
    }
    Ok(())
}

/// One contribution of named values, in the order of the columns.
pub fn from_values(columns: &[Column], values: &[NamedValue]) -> anyhow::Result<Row> {
    if let Some(unknown) = values.iter().find(|value| columns.iter().all(|column| column.name() != value.name)) {
        anyhow::bail!("the collection has no column {}; its columns are {}", unknown.name, names(columns));
    }
    let mut row = Zeroizing::new(Vec::with_capacity(columns.len()));
    for column in columns {
        let given = values.iter().find(|value| value.name == column.name());
        let missing = || format!("{} is missing; give each of {}", column.name(), names(columns));
        row.push(given.with_context(missing)?.value);
    }
    Ok(row)
}

/// A file, or standard input for "-".
pub fn open(path: &Path) -> anyhow::Result<Box<dyn Read>> {
    Ok(match path.as_os_str() == "-" {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(path).with_context(|| format!("cannot read {}", path.display()))?),
    })
}

/// The rows of an open CSV file whose first line names the columns. Other columns are ignored.
pub fn from_csv(columns: &[Column], path: &Path, input: Box<dyn Read>) -> anyhow::Result<Vec<Row>> {
    let failed = || format!("cannot read {}", path.display());
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(input);
    let header = reader.headers().with_context(failed)?.clone();
    let place = |column: &Column| {
        let mut places = (0..header.len()).filter(|&place| &header[place] == column.name());
        match (places.next(), places.next()) {
            (Some(place), None) => Ok(place),
            (None, _) => Err(anyhow::anyhow!(
                "{} has no column {}; its first line must name {}",
                path.display(),
                column.name(),
                names(columns)
            )),
            (Some(first), Some(second)) => Err(anyhow::anyhow!(
                "{}: columns {} and {} are both called {}; rename or remove one",
                path.display(),
                first + 1,
                second + 1,
                column.name()
            )),
        }
    };
    let places = columns.iter().map(place).collect::<anyhow::Result<Vec<_>>>()?;
    let mut rows = Vec::new();
    for (number, record) in reader.records().enumerate() {
        let record = record.with_context(failed)?;
        let mut row = Zeroizing::new(Vec::with_capacity(columns.len()));
        for (column, &place) in columns.iter().zip(&places) {
            let value = record.get(place).and_then(|text| text.parse().ok());
            // The text itself may be private.
            row.push(value.with_context(|| {
                format!("{}: row {} has no integer in column {}", path.display(), number + 1, column.name())
            })?);
        }
        rows.push(row);
    }
    anyhow::ensure!(!rows.is_empty(), "{} has no rows below its first line", path.display());
    Ok(rows)
}

fn names(columns: &[Column]) -> String {
    columns.iter().map(Column::name).collect::<Vec<_>>().join(", ")
}
