//! Apache Parquet files.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Row;
use parquet::record::reader::RowIter;
use parquet::schema::types::{Type, TypePtr};

use crate::error::{Place, SourceError};
use crate::field::Field;
use crate::parquet_cell::{self, is_pandas_index, unreadable_part};
use crate::record::{Columns, Record};
use crate::source::Source;
use crate::spec::SourceSpec;

/// Rows decoded at once in each column.
const BATCH: usize = 256;

pub(crate) fn open(spec: &SourceSpec) -> Result<Source, SourceError> {
    let path = &spec.path;
    let file = File::open(path).map_err(|source| SourceError::io(path, source))?;
    let refuse =
        |found: String| SourceError::file(path, found, "a Parquet file that is whole; write or fetch it again");
    let reader = guarded(|| SerializedFileReader::new(file)).map_err(refuse)?;
    let len = count_rows(reader.metadata()).map_err(refuse)?;
    let schema = reader.metadata().file_metadata().schema();
    let names: Vec<String> = schema.get_fields().iter().map(|field| field.name().to_owned()).collect();
    let mut columns = Columns::choose(spec, &names)?;
    if spec.value_columns.is_empty() {
        columns = columns.without(is_pandas_index);
    }
    let used = columns.used().iter().filter_map(|&i| schema.get_fields().get(i).cloned()).collect::<Vec<_>>();
    if used.is_empty() {
        return Err(SourceError::file(path, "no columns", "at least one"));
    }
    if let Some(part) = used.iter().find_map(|column| unreadable_part(column)) {
        let found = format!("the type INTERVAL in column {part:?}");
        return Err(SourceError::file(path, found, "another type: convert it to text, or leave the column out"));
    }
    let projection = Type::group_type_builder(schema.name()).with_fields(used.clone()).build();
    let rows = guarded(|| RowIter::from_file_into(Box::new(reader)).with_batch_size(BATCH).project(Some(projection?)));
    let (rows, columns) = (rows.map_err(refuse)?, columns.projected());
    let mut rows = Rows { path: path.clone(), rows, types: used, columns, number: 0 };
    Ok(Source::new(Box::new(std::iter::from_fn(move || rows.next().transpose())), Some(len)))
}

/// Runs a part of the decoder. It panics on some damaged files; a panic becomes an error of the file.
fn guarded<T>(work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(outcome) => outcome.map_err(|error| error.to_string()),
        Err(_) => Err("data that the decoder gives up on".to_owned()),
    }
}

/// Number of rows of the file. Columns that are not repeated must have a value for each row: the decoder would invent
/// missing ones.
fn count_rows(metadata: &ParquetMetaData) -> Result<u64, String> {
    let mut sum = 0u64;
    for group in metadata.row_groups() {
        let rows = u64::try_from(group.num_rows()).map_err(|_| "a negative number of rows")?;
        sum = sum.checked_add(rows).ok_or("more rows than can be counted")?;
        for column in group.columns() {
            if column.column_descr().max_rep_level() == 0 && column.num_values() != group.num_rows() {
                let name = column.column_path().string();
                return Err(format!("{} values of {name:?} in {rows} rows", column.num_values()));
            }
        }
    }
    Ok(sum)
}

struct Rows {
    path: PathBuf,
    rows: RowIter<'static>,
    /// Types of the columns that are read.
    types: Vec<TypePtr>,
    columns: Columns,
    number: u64,
}

impl Rows {
    fn next(&mut self) -> Result<Option<Record>, SourceError> {
        self.number += 1;
        let place = Place { path: &self.path, unit: "row", number: self.number };
        let refuse = |found| place.refuse(found, "a row that can be read");
        let (rows, types) = (&mut self.rows, &self.types);
        let fields = |row: Row| {
            let cells = row.into_columns().into_iter().zip(types);
            cells.map(|((_, cell), column)| parquet_cell::field(cell, column)).collect::<Result<Vec<Field>, String>>()
        };
        let fields = guarded(|| Ok(rows.next().transpose()?.map(fields))).map_err(refuse)?;
        let (fields, columns) = (fields.transpose().map_err(refuse)?, &self.columns);
        let record = |fields: Vec<Field>| columns.record(&place, |i| Ok(fields.get(i).cloned().unwrap_or(Field::Null)));
        fields.map(record).transpose()
    }
}
