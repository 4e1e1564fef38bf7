//! What the logical types of Parquet become.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, FixedLenByteArrayType, FloatType, Int32Type, Int64Type, Int96, Int96Type,
};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use tempfile::TempDir;
use unspoken_sources::{Record, Source, SourceError, SourceSpec};

/// The values of a column, one in each row, or with their levels.
enum Values {
    Truth(bool),
    Int32(Vec<i32>),
    Int64(i64),
    Int96([u32; 3]),
    Float(f32),
    Bytes(&'static [u8]),
    Fixed(Vec<u8>),
}

use Values::{Bytes, Fixed, Float, Int32, Int64};

fn write(writer: &mut SerializedColumnWriter<'_>, values: &Values, levels: Option<&[[i16; 2]]>) {
    let (defined, repeated): (Vec<i16>, Vec<i16>) =
        levels.unwrap_or_default().iter().map(|&[defined, repeated]| (defined, repeated)).unzip();
    let (defined, repeated) = (levels.map(|_| &defined[..]), levels.map(|_| &repeated[..]));
    match values {
        Values::Truth(value) => writer.typed::<BoolType>().write_batch(&[*value], defined, repeated),
        Int32(values) => writer.typed::<Int32Type>().write_batch(values, defined, repeated),
        Int64(value) => writer.typed::<Int64Type>().write_batch(&[*value], defined, repeated),
        Values::Int96([low, high, day]) => {
            let mut value = Int96::new();
            value.set_data(*low, *high, *day);
            writer.typed::<Int96Type>().write_batch(&[value], defined, repeated)
        }
        Float(value) => writer.typed::<FloatType>().write_batch(&[*value], defined, repeated),
        Bytes(value) => {
            writer.typed::<ByteArrayType>().write_batch(&[ByteArray::from(value.to_vec())], defined, repeated)
        }
        Fixed(value) => {
            let value = ByteArray::from(value.clone()).into();
            writer.typed::<FixedLenByteArrayType>().write_batch(&[value], defined, repeated)
        }
    }
    .unwrap();
}

/// A file of one row, with a leaf of this schema for each of `leaves`.
fn file(schema: &str, leaves: &[(Values, Option<&[[i16; 2]]>)]) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(File::create(&path).unwrap(), schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for (values, levels) in leaves {
        let mut column = group.next_column().unwrap().unwrap();
        write(&mut column, values, *levels);
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    (directory, path)
}

fn read(path: &Path, key: Option<&str>, values: &[&str]) -> Result<Vec<Record>, SourceError> {
    let mut spec = SourceSpec::guess(path).unwrap();
    spec.key_column = key.map(str::to_owned);
    spec.value_columns = values.iter().map(|&name| name.to_owned()).collect();
    Source::open(&spec)?.collect()
}

/// 2024-05-01 12:34:56.789012345.
const NANOS: i64 = 1_714_566_896_789_012_345;
const DAY: i64 = 19_844;
const NANOS_OF_DAY: i64 = NANOS - DAY * 86_400 * 1_000_000_000;

#[test]
fn every_logical_type_becomes_the_text_that_a_client_asks_for() {
    let integer = |value: i128| Fixed(value.to_be_bytes().to_vec());
    let int32 = |value: i32| Int32(vec![value]);
    let (low, high) = (NANOS_OF_DAY as u32, (NANOS_OF_DAY >> 32) as u32);
    let cases = [
        ("fixed_len_byte_array(16) c (DECIMAL(38,0))", integer(1001), "1001"),
        ("fixed_len_byte_array(16) c (DECIMAL(38,0))", integer(-1), "-1"),
        ("fixed_len_byte_array(16) c (DECIMAL(38,3))", integer(-5), "-0.005"),
        ("binary c (DECIMAL(9,0))", Bytes(&[0xf9]), "-7"),
        ("int32 c (DECIMAL(9,0))", int32(0), "0"),
        ("int64 c (DECIMAL(10,2))", Int64(1250), "12.50"),
        ("int32 c (DATE)", int32(DAY as i32), "2024-05-01"),
        ("int32 c (TIME(MILLIS,true))", int32((NANOS_OF_DAY / 1_000_000) as i32), "12:34:56.789"),
        ("int64 c (TIME(MICROS,false))", Int64(NANOS_OF_DAY / 1000), "12:34:56.789012"),
        ("int64 c (TIME(NANOS,false))", Int64(NANOS_OF_DAY), "12:34:56.789012345"),
        ("int64 c (TIMESTAMP(MILLIS,true))", Int64(NANOS / 1_000_000), "2024-05-01 12:34:56.789 +00:00"),
        ("int64 c (TIMESTAMP(MILLIS,false))", Int64(NANOS / 1_000_000), "2024-05-01 12:34:56.789"),
        ("int64 c (TIMESTAMP(MICROS,false))", Int64(NANOS / 1000), "2024-05-01 12:34:56.789012"),
        ("int64 c (TIMESTAMP(MICROS,false))", Int64(-1), "1969-12-31 23:59:59.999999"),
        ("int64 c (TIMESTAMP(NANOS,true))", Int64(NANOS), "2024-05-01 12:34:56.789012345 +00:00"),
        ("int64 c (TIMESTAMP(NANOS,false))", Int64(NANOS), "2024-05-01 12:34:56.789012345"),
        // What older programs write: instants.
        ("int64 c (TIMESTAMP_MILLIS)", Int64(NANOS / 1_000_000), "2024-05-01 12:34:56.789 +00:00"),
        ("int96 c", Values::Int96([low, high, DAY as u32 + 2_440_588]), "2024-05-01 12:34:56.789 +00:00"),
        ("fixed_len_byte_array(16) c (UUID)", integer(0x1f), "00000000-0000-0000-0000-00000000001f"),
        ("fixed_len_byte_array(2) c (FLOAT16)", Fixed(vec![0x00, 0x38]), "0.5"),
        ("fixed_len_byte_array(2) c (FLOAT16)", Fixed(vec![0x00, 0x7e]), "NaN"),
        ("fixed_len_byte_array(3) c", Fixed(b"raw".to_vec()), "raw"),
        ("float c", Float(0.1), "0.1"),
        ("boolean c", Values::Truth(true), "true"),
        ("int32 c (INTEGER(8,false))", int32(200), "200"),
        ("int64 c (INTEGER(64,false))", Int64(-1), "18446744073709551615"),
        ("binary c (STRING)", Bytes("é".as_bytes()), "é"),
        ("binary c (ENUM)", Bytes(b"RED"), "RED"),
        ("binary c (JSON)", Bytes(b"{\"a\": 1}"), "{\"a\": 1}"),
        ("binary c (BSON)", Bytes(b"bytes"), "bytes"),
        ("binary c", Bytes(b"bytes"), "bytes"),
    ];
    for (column, value, expected) in cases {
        let (_directory, path) = file(&format!("message rows {{ required {column}; }}"), &[(value, None)]);
        let found = read(&path, Some("c"), &["c"]).unwrap();
        let expected = Record { key: Some(expected.into()), value: expected.into(), beside: None };
        assert_eq!(found, [expected], "{column}");
    }
}

#[test]
fn parts_of_nested_columns_are_converted_as_columns_are() {
    let schema = "message rows {
        required int64 __index_level_0__;
        required group amounts (LIST) { repeated group list { required int32 element (DECIMAL(9,0)); } }
        required group at { required int64 when (TIMESTAMP(NANOS,false)); required float share; }
        required group prices (MAP) {
            repeated group key_value { required int32 key (DATE); required int32 value (DECIMAL(9,2)); }
        }
        required group ids (LIST) {
            repeated group list { required group element { required fixed_len_byte_array(16) element (UUID); } }
        }
        required group maps (LIST) { repeated group list { required group element (MAP) {
            repeated group key_value { required int32 key (DATE); required int32 value (DECIMAL(9,2)); }
        } } }
    }";
    let leaves = [
        (Int64(7), None),
        (Int32(vec![1, -2]), Some(&[[1, 0], [1, 1]][..])),
        (Int64(NANOS), None),
        (Float(0.1), None),
        (Int32(vec![0, 1]), Some(&[[1, 0], [1, 1]])),
        (Int32(vec![5, 250]), Some(&[[1, 0], [1, 1]])),
        (Fixed(vec![0; 16]), Some(&[[1, 0]])),
        (Int32(vec![0, 1]), Some(&[[2, 0], [2, 2]])),
        (Int32(vec![5, 250]), Some(&[[2, 0], [2, 2]])),
    ];
    let (_directory, path) = file(schema, &leaves);
    let value = "{\"amounts\":[\"1\",\"-2\"],\"at\":{\"when\":\"2024-05-01 12:34:56.789012345\",\"share\":0.1},\
                 \"prices\":{\"1970-01-01\":\"0.05\",\"1970-01-02\":\"2.50\"},\
                 \"ids\":[{\"element\":\"00000000-0000-0000-0000-000000000000\"}],\
                 \"maps\":[{\"1970-01-01\":\"0.05\",\"1970-01-02\":\"2.50\"}]}";
    // The index that pandas has written is no value, unless it is named.
    assert_eq!(read(&path, None, &[]).unwrap(), [Record { key: None, value: value.into(), beside: None }]);
    let named = read(&path, Some("__index_level_0__"), &["__index_level_0__"]).unwrap();
    assert_eq!(named, [Record { key: Some(b"7".to_vec()), value: b"7".to_vec(), beside: None }]);
}

#[test]
fn values_that_cannot_be_told_are_refused_by_name() {
    let interval = "message rows { required group a { required fixed_len_byte_array(12) gap (INTERVAL); } }";
    let (_directory, path) = file(interval, &[(Fixed(vec![0; 12]), None)]);
    let message = read(&path, None, &[]).unwrap_err().to_string();
    assert!(message.contains("the type INTERVAL in column \"a.gap\""), "{message}");
    let (_directory, path) =
        file("message rows { required int64 t (TIME(NANOS,true)); }", &[(Int64(86_400_000_000_000), None)]);
    let message = read(&path, None, &[]).unwrap_err().to_string();
    assert!(message.contains("row 1: found a time of day of 86400 seconds"), "{message}");
}

#[test]
fn a_list_of_numbers_is_read_beside_the_value() {
    let schema = "message rows {
        required binary text (STRING);
        required group v (LIST) { repeated group list { required float element; } }
    }";
    let leaves = [(Bytes(b"one"), None), (Float(0.1), Some(&[[1, 0]][..]))];
    let (_directory, path) = file(schema, &leaves);
    let spec = SourceSpec::guess(&path).unwrap();
    let spec = SourceSpec { value_columns: vec!["text".into()], beside: Some("v".into()), ..spec };
    let found: Vec<Record> = Source::open(&spec).unwrap().map(Result::unwrap).collect();
    assert_eq!(found, [Record { key: None, value: "one".into(), beside: Some("[0.1]".into()) }]);
}
