//! Tables and views of SQLite databases.

use std::path::PathBuf;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};

use crate::ahead::read_ahead;
use crate::error::{Place, SourceError, list};
use crate::field::Field;
use crate::record::{Columns, MAX_RECORD_BYTES, Record};
use crate::source::Source;
use crate::spec::SourceSpec;
use crate::sqlite_file::File;

const READABLE: &str = "a row that can be read";

pub(crate) fn open(spec: &SourceSpec) -> Result<Source, SourceError> {
    let file = File::find(&spec.path).map_err(|source| SourceError::io(&spec.path, source))?;
    let refuse = |error: rusqlite::Error| SourceError::file(&spec.path, error.to_string(), file.needed());
    let connection = connect(&file).map_err(refuse)?;
    let tables = tables(&connection).map_err(refuse)?;
    let table = choose_table(spec, &tables)?;
    let from = if table.view { quote(&table.name) } else { format!("{} NOT INDEXED", quote(&table.name)) };
    let names = {
        let statement = connection.prepare(&format!("SELECT * FROM {from}")).map_err(refuse)?;
        statement.column_names().map(str::to_owned).collect::<Vec<_>>()
    };
    let columns = Columns::choose(spec, &names)?;
    let count = format!("SELECT count(*) FROM {}", quote(&table.name));
    let len = if table.view { None } else { connection.query_row(&count, (), |row| row.get::<_, i64>(0)).ok() };
    let len = len.and_then(|len| u64::try_from(len).ok());
    let used: Vec<String> = columns.used().iter().filter_map(|&i| names.get(i)).map(|name| quote(name)).collect();
    let reading = Reading {
        path: spec.path.clone(),
        connection,
        // Without an index, rows are returned in the order of the table, whichever columns are read.
        statement: format!("SELECT {} FROM {from}", if used.is_empty() { "NULL".into() } else { used.join(", ") }),
        columns: columns.projected(),
        file,
    };
    Ok(Source::new(Box::new(read_ahead(move |take| reading.read(take))), len))
}

/// Opens a file for reading. Nothing is written beside it, unless another program has left changes there that must be
/// read.
fn connect(file: &File) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match file.unchanging() {
        Some(name) => Connection::open_with_flags(name, flags | OpenFlags::SQLITE_OPEN_URI)?,
        None => Connection::open_with_flags(file.path(), flags)?,
    };
    // Do not trust the file's schema, and limit the length of all values to the length of a record.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, 2 * MAX_RECORD_BYTES as i32)?;
    Ok(connection)
}

struct Table {
    name: String,
    view: bool,
}

fn tables(connection: &Connection) -> rusqlite::Result<Vec<Table>> {
    let statement = "SELECT name, type = 'view' FROM sqlite_schema \
                     WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
    let mut statement = connection.prepare(statement)?;
    let rows = statement.query_map((), |row| Ok(Table { name: row.get(0)?, view: row.get(1)? }))?;
    rows.collect()
}

fn choose_table<'a>(spec: &SourceSpec, tables: &'a [Table]) -> Result<&'a Table, SourceError> {
    let found = match (&spec.table, tables) {
        (None, [only]) => Some(only),
        (None, _) => None,
        (Some(name), _) => tables.iter().find(|table| table.name == *name),
    };
    found.ok_or_else(|| {
        let names: Vec<String> = tables.iter().map(|table| table.name.clone()).collect();
        SourceError::Table {
            path: spec.path.clone(),
            found: if names.is_empty() { "none".into() } else { list(&names) },
            needed: spec.table.as_ref().map_or("one, or a name".into(), |name| format!("{name:?}")),
        }
    })
}

/// Quotes an SQL identifier.
fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// What is read: rows borrow from the statement, the statement from the connection.
struct Reading {
    path: PathBuf,
    file: File,
    connection: Connection,
    statement: String,
    columns: Columns,
}

impl Reading {
    /// Calls `take` with records until it returns `false`.
    fn read(&self, take: &mut dyn FnMut(Record) -> bool) -> Result<(), SourceError> {
        let mut place = Place { path: &self.path, unit: "row", number: 1 };
        let refuse = |place: &Place<'_>, error: rusqlite::Error| place.refuse(error.to_string(), READABLE);
        let mut statement = self.connection.prepare(&self.statement).map_err(|error| refuse(&place, error))?;
        let mut rows = statement.query(()).map_err(|error| refuse(&place, error))?;
        while let Some(row) = rows.next().map_err(|error| refuse(&place, error))? {
            let record = self.columns.record(&place, |i| field(&place, row, i))?;
            if !take(record) {
                return Ok(());
            }
            place.number += 1;
        }
        self.file.check_unchanged().map_err(|source| SourceError::io(&self.path, source))
    }
}

fn field(place: &Place<'_>, row: &Row<'_>, i: usize) -> Result<Field, SourceError> {
    let refuse = |error: rusqlite::Error| place.refuse(error.to_string(), READABLE);
    Ok(match row.get_ref(i).map_err(refuse)? {
        ValueRef::Null => Field::Null,
        ValueRef::Integer(value) => Field::Json(value.to_string()),
        ValueRef::Real(value) => Field::number(value),
        ValueRef::Text(text) => match str::from_utf8(text) {
            Ok(text) => Field::Text(text.to_owned()),
            Err(_) => {
                let column = row.as_ref().column_name(i).map_err(refuse)?;
                return Err(place.refuse(format!("text that is not UTF-8 in column {column:?}"), "UTF-8, or a BLOB"));
            }
        },
        ValueRef::Blob(bytes) => Field::Bytes(bytes.to_owned()),
    })
}
