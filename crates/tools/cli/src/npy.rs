//! NumPy files of real numbers.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read};
use std::path::Path;

use anyhow::Context;
use ndarray::{ArrayD, ShapeBuilder};
use npyz::{NpyFile, Order, WriterBuilder};

/// Reads an array of `f64` or `f32`.
pub fn read(path: &Path) -> anyhow::Result<ArrayD<f64>> {
    read_as(path, |value| value, f64::from)
}

/// As [`read`], as `f32`.
pub fn read_f32(path: &Path) -> anyhow::Result<ArrayD<f32>> {
    read_as(path, |value| value as f32, |value| value)
}

fn read_as<T>(path: &Path, of_double: fn(f64) -> T, of_single: fn(f32) -> T) -> anyhow::Result<ArrayD<T>> {
    read_file(path, of_double, of_single).with_context(|| format!("cannot read {}", path.display()))
}

fn read_file<T>(path: &Path, of_double: fn(f64) -> T, of_single: fn(f32) -> T) -> anyhow::Result<ArrayD<T>> {
    read_array(NpyFile::new(BufReader::new(File::open(path)?))?, of_double, of_single)
}

/// Reads an array of a file, or of an archive of them.
pub fn read_array<T>(
    file: NpyFile<impl Read>,
    of_double: fn(f64) -> T,
    of_single: fn(f32) -> T,
) -> anyhow::Result<ArrayD<T>> {
    let shape = file.shape().iter().map(|&extent| usize::try_from(extent)).collect::<Result<Vec<_>, _>>()?;
    let (order, dtype) = (file.order(), file.dtype().descr());
    let values: Vec<T> = match file.try_data::<f64>() {
        Ok(values) => values.map(|value| value.map(of_double)).collect::<Result<_, _>>()?,
        Err(file) => match file.try_data::<f32>() {
            Ok(values) => values.map(|value| value.map(of_single)).collect::<Result<_, _>>()?,
            Err(_) => anyhow::bail!("its entries are {dtype}; needed float64 or float32"),
        },
    };
    let array = match order {
        Order::C => ArrayD::from_shape_vec(shape, values),
        Order::Fortran => ArrayD::from_shape_vec(shape.f(), values),
    };
    Ok(array?)
}

/// Writes an array of `f64`.
pub fn write(path: &Path, array: &ArrayD<f64>) -> anyhow::Result<()> {
    write_file(path, array).with_context(|| format!("cannot write {}", path.display()))
}

fn write_file(path: &Path, array: &ArrayD<f64>) -> anyhow::Result<()> {
    let shape: Vec<u64> = array.shape().iter().map(|&extent| extent as u64).collect();
    let file = BufWriter::new(File::create(path)?);
    let mut writer = npyz::WriteOptions::new().default_dtype().shape(&shape).writer(file).begin_nd()?;
    writer.extend(array.iter().copied())?;
    Ok(writer.finish()?)
}

#[cfg(test)]
mod tests {
    use ndarray::Dimension;

    use super::*;

    #[test]
    fn arrays_are_written_and_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.npy");
        for shape in [vec![], vec![3], vec![2, 3], vec![2, 3, 4]] {
            let array = ArrayD::from_shape_fn(shape, |index| {
                (0..index.ndim()).fold(0.5, |all, axis| 10.0 * all + index[axis] as f64)
            });
            write(&path, &array).unwrap();
            assert_eq!(read(&path).unwrap(), array);
        }
        // In column-major order, and as float32.
        let file = File::create(&path).unwrap();
        let options = npyz::WriteOptions::new().default_dtype().shape(&[2, 2]).order(Order::Fortran);
        let mut writer = options.writer(file).begin_nd().unwrap();
        writer.extend([1.0f32, 3.0, 2.0, 4.0]).unwrap();
        writer.finish().unwrap();
        assert_eq!(read(&path).unwrap(), ndarray::array![[1.0, 2.0], [3.0, 4.0]].into_dyn());
        let mut writer = npyz::WriteOptions::new()
            .default_dtype()
            .shape(&[1])
            .writer(File::create(&path).unwrap())
            .begin_nd()
            .unwrap();
        writer.extend([1i64]).unwrap();
        writer.finish().unwrap();
        assert!(format!("{:#}", read(&path).unwrap_err()).contains("needed float64 or float32"));
        std::fs::write(&path, "text").unwrap();
        assert!(read(&path).is_err());
    }
}
