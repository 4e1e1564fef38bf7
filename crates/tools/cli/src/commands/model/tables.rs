//! Rows of tables from files.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::Context;
use ndarray::{Array2, ArrayD, ArrayView2, Ix2};
use npyz::NpyFile;
use serde_json::Value;
use unspoken_model::{InputShape, WipedArrays};
use zeroize::Zeroizing;
use zip::ZipArchive;

/// Rows of a file, wiped when dropped.
pub struct Tables {
    /// For each input of the model its rows, flattened.
    pub rows: WipedArrays<f64, Ix2>,
    /// For each input the names of the columns that have its numbers; none in a file without such names.
    pub columns: Vec<Vec<String>>,
}

/// Rows for each input of a model.
///
/// A `.npz` file has an array for each input, by its name, or one array if there is one input; a `.npy` file has one. A
/// `.csv` file has a line of names, then a line for each row: columns with the names of the inputs' elements or of
/// inputs of one number each, in any order, or the numbers of all inputs in their order. A `.json` or `.jsonl` file has
/// rows as lists, for one input, or as objects with the names of inputs. The first axis of an array counts rows. What
/// is no number in a cell of a text is read as NaN.
pub fn read(path: &Path, inputs: &[InputShape]) -> anyhow::Result<Tables> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let unnamed = |rows| Tables { rows, columns: vec![Vec::new(); inputs.len()] };
    let tables = match extension {
        "npz" => npz(path, inputs).map(unnamed),
        "npy" => crate::npy::read(path).and_then(|array| Ok(unnamed(vec![rows_of(array, one(inputs)?)?].into()))),
        "csv" => csv(path, inputs),
        "json" | "jsonl" => json(path, inputs).map(unnamed),
        _ => anyhow::bail!("{}: found extension {extension:?}, needed npz, npy, csv, json or jsonl", path.display()),
    };
    let tables = tables.with_context(|| path.display().to_string())?;
    let found =
        inputs.iter().zip(tables.rows.iter()).map(|(input, table)| format!("{} of {:?}", table.nrows(), input.name));
    let count = tables.rows.first().map_or(0, |table| table.nrows());
    anyhow::ensure!(
        count > 0 && tables.rows.iter().all(|table| table.nrows() == count),
        "{}: found rows: {}; needed as many of each input, and at least one",
        path.display(),
        found.collect::<Vec<_>>().join(", ")
    );
    Ok(tables)
}

/// The only input.
fn one(inputs: &[InputShape]) -> anyhow::Result<&InputShape> {
    match inputs {
        [input] => Ok(input),
        _ => anyhow::bail!("found one array, needed one for each of the inputs {}", names(inputs)),
    }
}

fn names(inputs: &[InputShape]) -> String {
    inputs.iter().map(|input| format!("{:?}", input.name)).collect::<Vec<_>>().join(", ")
}

/// Rows of an array whose first axis counts them.
fn rows_of(array: ArrayD<f64>, input: &InputShape) -> anyhow::Result<Array2<f64>> {
    let (rows, row) = array.shape().split_first().context("found a number, needed an axis of rows")?;
    let fits = row == input.shape || row.iter().product::<usize>() == input.size();
    anyhow::ensure!(fits, "input {:?}: found rows of shape {row:?}, needed {:?}", input.name, input.shape);
    let whole = (*rows, input.size());
    // The array is another one than the table, and wiped.
    let array = WipedArrays::from(vec![array]);
    Ok(array[0].to_shape(whole)?.into_owned())
}

fn npz(path: &Path, inputs: &[InputShape]) -> anyhow::Result<WipedArrays<f64, Ix2>> {
    let mut archive = ZipArchive::new(BufReader::new(File::open(path)?))?;
    let found = archive.file_names().map(|name| Ok(name?.into_owned())).collect::<anyhow::Result<Vec<String>>>()?;
    let mut tables = WipedArrays::from(Vec::new());
    for input in inputs {
        let name = match found.as_slice() {
            [only] if inputs.len() == 1 => only.clone(),
            _ => format!("{}.npy", input.name),
        };
        let missing = || format!("found arrays {found:?}, needed one for each of the inputs {}", names(inputs));
        let file = archive.by_name(&name).with_context(missing)?;
        let array = NpyFile::new(file).map_err(anyhow::Error::from);
        let array = array.and_then(|array| crate::npy::read_array(array, |value| value, f64::from));
        tables.push(rows_of(array.with_context(|| format!("array {name:?}"))?, input)?);
    }
    Ok(tables)
}

fn csv(path: &Path, inputs: &[InputShape]) -> anyhow::Result<Tables> {
    let mut reader = csv::Reader::from_path(path)?;
    let header: Vec<String> = reader.headers()?.iter().map(|name| name.trim().to_owned()).collect();
    let size: usize = inputs.iter().map(InputShape::size).sum();
    let names_of = |input: &InputShape| match (input.elements.as_slice(), input.size()) {
        ([], 1) => Some(vec![input.name.clone()]),
        ([], _) => None,
        (elements, _) => Some(elements.to_vec()),
    };
    // Columns have the names of elements, or are the numbers of all inputs in their order.
    let columns = match inputs.iter().map(names_of).collect::<Option<Vec<_>>>() {
        Some(needed) => by_name(&header, &needed.concat())?,
        None => None,
    };
    let columns = columns.unwrap_or_else(|| (0..header.len()).collect());
    anyhow::ensure!(columns.len() == size, "found {} columns, needed {size}: {}", columns.len(), names(inputs));
    let mut numbers = Zeroizing::new(Vec::new());
    for record in reader.records() {
        let record = record?;
        let number = |column: &usize| record.get(*column).unwrap_or_default().trim().parse().unwrap_or(f64::NAN);
        numbers.extend(columns.iter().map(number));
    }
    let all = ArrayView2::from_shape((numbers.len() / size.max(1), size), &numbers)?;
    let mut first = 0;
    let part = |input: &InputShape| {
        let own = first..first + input.size();
        first = own.end;
        let names = columns[own.clone()].iter().map(|column| header[*column].clone()).collect();
        (all.slice(ndarray::s![.., own]).to_owned(), names)
    };
    let (rows, columns): (Vec<_>, _) = inputs.iter().map(part).unzip();
    Ok(Tables { rows: rows.into(), columns })
}

/// The columns with these names; none if no column has one of them.
fn by_name(header: &[String], needed: &[String]) -> anyhow::Result<Option<Vec<usize>>> {
    let places: Vec<Option<usize>> =
        needed.iter().map(|name| header.iter().position(|column| column == name)).collect();
    if places.iter().all(Option::is_none) {
        return Ok(None);
    }
    let missing: Vec<&String> =
        needed.iter().zip(&places).filter_map(|(name, place)| place.is_none().then_some(name)).collect();
    anyhow::ensure!(
        missing.is_empty(),
        "found the columns {header:?} without {missing:?}, needed one for each of the names {needed:?}, or for none"
    );
    Ok(Some(places.into_iter().flatten().collect()))
}

fn json(path: &Path, inputs: &[InputShape]) -> anyhow::Result<WipedArrays<f64, Ix2>> {
    let text = Zeroizing::new(unspoken_files::read_text(path)?);
    let whole: Result<Value, _> = serde_json::from_str(&text);
    let rows: Vec<Value> = match whole {
        // A list of numbers is one row.
        Ok(Value::Array(rows)) if rows.iter().any(|row| row.is_array() || row.is_object()) => rows,
        Ok(row) => vec![row],
        Err(_) => {
            text.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str).collect::<Result<_, _>>()?
        }
    };
    let mut numbers: Vec<Vec<f64>> = vec![Vec::new(); inputs.len()];
    for (row, value) in rows.iter().enumerate() {
        read_row(value, inputs, &mut numbers).with_context(|| format!("row {row}"))?;
    }
    let table = |(input, numbers): (&InputShape, Vec<f64>)| Array2::from_shape_vec((rows.len(), input.size()), numbers);
    Ok(inputs.iter().zip(numbers).map(table).collect::<Result<_, _>>()?)
}

fn read_row(value: &Value, inputs: &[InputShape], numbers: &mut [Vec<f64>]) -> anyhow::Result<()> {
    if let Value::Object(fields) = value {
        let unknown = fields.keys().find(|name| inputs.iter().all(|input| input.name != **name));
        anyhow::ensure!(unknown.is_none(), "found {:?}, needed {}", unknown, names(inputs));
    }
    for (input, numbers) in inputs.iter().zip(numbers) {
        let own = match value {
            Value::Object(fields) => {
                fields.get(&input.name).with_context(|| format!("needed input {:?}", input.name))?
            }
            value => {
                one(inputs)?;
                value
            }
        };
        let before = numbers.len();
        flatten(own, numbers)?;
        let found = numbers.len() - before;
        let (needed, shape) = (input.size(), &input.shape);
        anyhow::ensure!(
            found == needed,
            "input {:?}: found {found} numbers, needed {needed} for the shape {shape:?}",
            input.name
        );
    }
    Ok(())
}

fn flatten(value: &Value, numbers: &mut Vec<f64>) -> anyhow::Result<()> {
    match value {
        Value::Array(values) => values.iter().try_for_each(|value| flatten(value, numbers)),
        Value::Number(number) => {
            numbers.extend(number.as_f64());
            Ok(())
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {
            numbers.push(f64::NAN);
            Ok(())
        }
        Value::Object(_) => anyhow::bail!("found an object, needed numbers"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    fn input(name: &str, size: usize, elements: &[&str]) -> InputShape {
        let elements = elements.iter().map(|name| (*name).to_owned()).collect();
        InputShape { name: name.to_owned(), shape: vec![size], table_rows: None, elements }
    }

    /// An array of numpy with rows of one number.
    fn npy(rows: usize) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00\x46\x00".to_vec();
        let head = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, 1), }}");
        bytes.extend(format!("{head:69}\n").into_bytes());
        bytes.extend((0..rows).flat_map(|row| (row as f32).to_le_bytes()));
        bytes
    }

    #[test]
    fn inputs_have_as_many_rows_as_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.npz");
        let inputs = [input("x", 1, &[]), input("y", 1, &[])];
        for (rows, expected) in
            [([3, 3], None), ([3, 2], Some("3 of \"x\", 2 of \"y\"")), ([2, 3], Some("2 of \"x\", 3"))]
        {
            let mut archive = ZipWriter::new(File::create(&path).unwrap());
            for (name, rows) in ["x.npy", "y.npy"].into_iter().zip(rows) {
                archive.start_file(name, SimpleFileOptions::default()).unwrap();
                archive.write_all(&npy(rows)).unwrap();
            }
            archive.finish().unwrap();
            match (read(&path, &inputs), expected) {
                (Ok(tables), None) => assert_eq!(tables.rows[1].nrows(), 3),
                (Err(error), Some(part)) => assert!(error.to_string().contains(part), "{error}"),
                (found, _) => panic!("{rows:?}: {}", found.is_ok()),
            }
        }
    }

    #[test]
    fn columns_have_all_names_or_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.csv");
        let inputs = [input("x", 2, &["a", "b"]), input("y", 1, &[])];
        for (header, expected) in [
            ("a,b,y", Ok([1.0, 2.0, 3.0])),
            ("y,b,a", Ok([3.0, 2.0, 1.0])),
            // No name is that of the model: columns are in its order.
            ("p,q,r", Ok([1.0, 2.0, 3.0])),
            ("a,B,y", Err("found the columns [\"a\", \"B\", \"y\"] without [\"b\"]")),
            ("a,q,r", Err("without [\"b\", \"y\"]")),
        ] {
            std::fs::write(&path, format!("{header}\n1,2,3\n")).unwrap();
            let found = read(&path, &inputs)
                .map(|tables| [tables.rows[0][(0, 0)], tables.rows[0][(0, 1)], tables.rows[1][(0, 0)]]);
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{header}"),
                (Err(error), Err(part)) => assert!(format!("{error:#}").contains(part), "{error:#}"),
                (found, _) => panic!("{header}: {found:?}"),
            }
        }
    }
}
