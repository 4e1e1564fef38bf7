//! Cells of Parquet files as fields, by the logical types of their columns. `docs/pir-database.md` has the table.

use std::sync::Arc;

use chrono::DateTime;
use parquet::basic::{ConvertedType, LogicalType, TimeUnit};
use parquet::data_type::{ByteArray, Decimal};
use parquet::record::{Field as Cell, Row};
use parquet::schema::types::Type;
use serde_json::Value;

use crate::field::Field;

/// The zone of instants.
const UTC: &str = " +00:00";

/// Columns without names that pandas adds for the index of a table.
pub(crate) fn is_pandas_index(name: &str) -> bool {
    let number = name.strip_prefix("__index_level_").and_then(|rest| rest.strip_suffix("__"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The path of a part of a column that cannot be read, if there is one.
pub(crate) fn unreadable_part(column: &Type) -> Option<String> {
    if column.is_primitive() {
        let interval = column.get_basic_info().converted_type() == ConvertedType::INTERVAL;
        return interval.then(|| column.name().to_owned());
    }
    let part = column.get_fields().iter().find_map(|part| unreadable_part(part))?;
    Some(format!("{}.{part}", column.name()))
}

/// The field of a cell of a column. `Err` says what was found.
pub(crate) fn field(cell: Cell, column: &Type) -> Result<Field, String> {
    match &cell {
        Cell::Group(_) | Cell::ListInternal(_) | Cell::MapInternal(_) => {
            let mut out = String::new();
            write_json(cell, column, &mut out)?;
            Ok(Field::Json(out))
        }
        _ => scalar(cell, leaf(column)),
    }
}

fn scalar(cell: Cell, column: &Type) -> Result<Field, String> {
    let logical = column.get_basic_info().logical_type_ref();
    let zone = match logical {
        Some(LogicalType::Timestamp(timestamp)) if !timestamp.is_adjusted_to_u_t_c => "",
        // Older files say only the unit, and mean instants.
        _ => UTC,
    };
    Ok(match (cell, logical) {
        (Cell::Null, _) => Field::Null,
        (Cell::Str(text), _) => Field::Text(text),
        (Cell::Bytes(bytes), Some(LogicalType::Uuid)) => Field::Text(uuid(&bytes)?),
        (Cell::Bytes(bytes), _) => Field::Bytes(bytes.data().to_owned()),
        (Cell::Decimal(decimal), _) => Field::Text(decimal_text(decimal)),
        (Cell::TimeMillis(time), _) => Field::Text(time_text(time.into(), TimeUnit::MILLIS)?),
        (Cell::TimeMicros(time), _) => Field::Text(time_text(time, TimeUnit::MICROS)?),
        (Cell::Long(time), Some(LogicalType::Time(of))) => Field::Text(time_text(time, of.unit)?),
        (Cell::TimestampMillis(time), _) => Field::Text(timestamp_text(time, TimeUnit::MILLIS, zone)?),
        (Cell::TimestampMicros(time), _) => Field::Text(timestamp_text(time, TimeUnit::MICROS, zone)?),
        (Cell::Long(time), Some(LogicalType::Timestamp(of))) => Field::Text(timestamp_text(time, of.unit, zone)?),
        // Format as 32 bits: the shortest text differs from the text of 64 bits.
        (Cell::Float16(value), _) => float(value.into()),
        (Cell::Float(value), _) => float(value),
        (Cell::Double(value), _) => Field::number(value),
        (other, _) => Field::from_value(other.to_json_value()),
    })
}

fn float(value: f32) -> Field {
    if value.is_finite() { Field::Json(value.to_string()) } else { Field::number(value.into()) }
}

/// All digits. The decoder ends those without a fraction with a point.
fn decimal_text(decimal: Decimal) -> String {
    let text = match Cell::Decimal(decimal).to_json_value() {
        Value::String(text) => text,
        other => other.to_string(),
    };
    text.strip_suffix('.').map(str::to_owned).unwrap_or(text)
}

fn uuid(bytes: &ByteArray) -> Result<String, String> {
    let bytes: [u8; 16] = bytes.data().try_into().map_err(|_| format!("a UUID of {} bytes", bytes.len()))?;
    let digits = format!("{:032x}", u128::from_be_bytes(bytes));
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| digits.get(part).unwrap_or_default().to_owned());
    Ok(parts.join("-"))
}

/// Units of a second, and the digits of a fraction of it.
fn resolution(unit: TimeUnit) -> (i64, usize) {
    match unit {
        TimeUnit::MILLIS => (1_000, 3),
        TimeUnit::MICROS => (1_000_000, 6),
        TimeUnit::NANOS => (1_000_000_000, 9),
    }
}

fn time_text(time: i64, unit: TimeUnit) -> Result<String, String> {
    let (second, digits) = resolution(unit);
    let (seconds, fraction) = (time.div_euclid(second), time.rem_euclid(second));
    if !(0..86_400).contains(&seconds) {
        return Err(format!("a time of day of {seconds} seconds"));
    }
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    Ok(format!("{hours:02}:{minutes:02}:{:02}.{fraction:0digits$}", seconds % 60))
}

fn timestamp_text(time: i64, unit: TimeUnit, zone: &str) -> Result<String, String> {
    let (second, digits) = resolution(unit);
    let (seconds, fraction) = (time.div_euclid(second), time.rem_euclid(second));
    let date = DateTime::from_timestamp(seconds, 0).ok_or("a time whose year has more than six digits")?;
    Ok(format!("{}.{fraction:0digits$}{zone}", date.format("%Y-%m-%d %H:%M:%S")))
}

/// Appends the JSON of a cell, with the members of structures in the order of the file.
fn write_json(cell: Cell, column: &Type, out: &mut String) -> Result<(), String> {
    match cell {
        Cell::Group(row) => write_row(row, column, out),
        Cell::ListInternal(list) => {
            let column = content(column);
            write_all(out, ['[', ']'], list.elements(), |element, out| write_json(element.clone(), column, out))
        }
        Cell::MapInternal(map) => {
            let [key, value] = pair(column) else {
                return Err("a map that has no pairs of key and value".to_owned());
            };
            write_all(out, ['{', '}'], map.entries(), |(name, entry), out| {
                let name = String::from_utf8(field(name.clone(), key)?.into_bytes());
                let name = name.map_err(|_| "a key of a map that is not UTF-8")?;
                out.push_str(&Value::from(name).to_string());
                out.push(':');
                write_json(entry.clone(), value, out)
            })
        }
        other => {
            scalar(other, leaf(column))?.write_json(out);
            Ok(())
        }
    }
}

fn write_row(row: Row, column: &Type, out: &mut String) -> Result<(), String> {
    let cells: Vec<(String, Cell)> = row.into_columns();
    let structure = structure(column, &cells);
    write_all(out, ['{', '}'], &cells, |(name, cell), out| {
        let part = structure.get_fields().iter().find(|part| part.name() == name);
        let part = part.ok_or_else(|| format!("a member {name:?} that the schema lacks"))?;
        out.push_str(&Value::from(name.as_str()).to_string());
        out.push(':');
        write_json(cell.clone(), part, out)
    })
}

fn write_all<T>(
    out: &mut String,
    [begin, end]: [char; 2],
    items: &[T],
    mut write: impl FnMut(&T, &mut String) -> Result<(), String>,
) -> Result<(), String> {
    out.push(begin);
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write(item, out)?;
    }
    out.push(end);
    Ok(())
}

/// The repeated part of a list or a map. A column that is repeated itself has no other.
fn content(column: &Type) -> &Type {
    let listed = matches!(
        column.get_basic_info().converted_type(),
        ConvertedType::LIST | ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE
    );
    match column.is_group() && listed {
        true => column.get_fields().first().map_or(column, |part| part),
        false => column,
    }
}

/// The parts of the group with the keys and the values of a map: each group around it, of lists and of the map, has one
/// part.
fn pair(column: &Type) -> &[Arc<Type>] {
    let mut found = column;
    loop {
        match found.is_group().then(|| found.get_fields()) {
            Some([only]) => found = only,
            Some(parts) => return parts,
            None => return &[],
        }
    }
}

/// The group with these members. Around the elements of a list the decoder leaves out the groups of one part.
fn structure<'a>(column: &'a Type, cells: &[(String, Cell)]) -> &'a Type {
    let mut found = column;
    while found.is_group() {
        let parts = found.get_fields();
        match parts {
            [only] if !cells.iter().all(|(name, _)| name == only.name()) => found = only,
            _ => break,
        }
    }
    found
}

/// The column of a value without parts.
fn leaf(column: &Type) -> &Type {
    let mut found = column;
    while found.is_group() {
        let Some(part) = found.get_fields().first() else { break };
        found = part;
    }
    found
}
