//! The vectors that are searched: synthetic ones, and those of files below `data/`.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::Context;
use fastrand::Rng;
use ndarray::{Array2, ArrayViewMut2, Axis, ShapeBuilder, s};
use npyz::{NpyFile, Order};
use rayon::prelude::*;
use unspoken_search_index::directions;

/// Queries that are kept out of a collection.
pub(super) const HELD_OUT: usize = 200;

/// Coordinates of synthetic vectors.
const WIDTH: usize = 384;

/// The variance of the principal component `i` of synthetic vectors is `(1 + i / KNEE)^-DECAY`: a fit to the first 256
/// of the titles of ICD-10 by all-MiniLM-L6-v2, whose logarithms are off by 0.19 (root mean square).
const KNEE: f64 = 6.0;
const DECAY: f64 = 1.35;

/// Vectors that are made together.
const CHUNK: usize = 4096;

/// Where a collection is from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// So many random vectors.
    Synthetic(usize),
    /// A NumPy file below the directory of the repository, and what makes it.
    File { name: &'static str, path: &'static str, made_by: &'static str },
}

pub(super) const ICD_10: Source =
    Source::File { name: "ICD-10 titles, MiniLM", path: "data/search/icd10-minilm.npy", made_by: "make tables-search" };

pub(super) const GLOVE: Source = Source::File {
    name: "GloVe words",
    path: "data/glove/glove_6B_50d_emb.npy",
    made_by: "python3 scripts/fetch_data.py glove",
};

/// Vectors of length 1, one in each row.
pub(super) struct Collection {
    /// What it is, with its size.
    pub(super) name: String,
    pub(super) documents: Array2<f32>,
    /// Of the same kind as the documents, and not among them.
    pub(super) queries: Array2<f32>,
}

impl Source {
    /// Makes or reads the collection. `Err` inside says what is missing and what makes it.
    pub(super) fn open(self, root: &Path) -> anyhow::Result<Result<Collection, String>> {
        match self {
            Source::Synthetic(documents) => synthetic(documents).map(Ok),
            Source::File { name, path, made_by } => match root.join(path).exists() {
                true => read(name, &root.join(path)).map(Ok),
                false => Ok(Err(format!("{name}: not measured, {path} is absent; {made_by} makes it"))),
            },
        }
    }
}

/// Random vectors with the spectrum of real ones, without the near duplicates that real collections have.
fn synthetic(documents: usize) -> anyhow::Result<Collection> {
    let deviation = |component: usize| (1.0 + component as f64 / KNEE).powf(-DECAY / 2.0) as f32;
    // The coordinates of real vectors are no principal components: all have about the same variance.
    let mut map = rotation();
    map.outer_iter_mut().enumerate().for_each(|(component, mut row)| row *= deviation(component));
    let chunk = |(number, mut rows): (usize, ArrayViewMut2<'_, f32>)| {
        let made = normal(rows.nrows(), &mut Rng::with_seed(number as u64));
        rows.assign(&made.dot(&map));
    };
    let mut vectors = Array2::zeros((documents + HELD_OUT, WIDTH));
    vectors.axis_chunks_iter_mut(Axis(0), CHUNK).into_par_iter().enumerate().for_each(chunk);
    let vectors = directions(vectors)?;
    let (queries, documents) = vectors.view().split_at(Axis(0), HELD_OUT);
    Ok(Collection {
        name: format!("synthetic, {} x {WIDTH}", documents.nrows()),
        documents: documents.to_owned(),
        queries: queries.to_owned(),
    })
}

/// Normally distributed numbers of variance 1, `WIDTH` in each row.
fn normal(rows: usize, rng: &mut Rng) -> Array2<f32> {
    // Box and Muller, of whose two numbers one is taken.
    let mut number = || {
        let radius = (-2.0 * (1.0 - rng.f32()).ln()).sqrt();
        radius * (std::f32::consts::TAU * rng.f32()).cos()
    };
    Array2::from_shape_fn((rows, WIDTH), |_| number())
}

/// A random rotation: normal vectors, made orthogonal one after the other.
fn rotation() -> Array2<f32> {
    let mut rows = normal(WIDTH, &mut Rng::with_seed(u64::MAX));
    for number in 0..WIDTH {
        let (before, mut from_here) = rows.view_mut().split_at(Axis(0), number);
        let before = before.view();
        let mut row = from_here.row_mut(0);
        // Twice, since one pass loses digits.
        for _ in 0..2 {
            let along = before.dot(&row);
            let projected = before.t().dot(&along);
            row -= &projected;
        }
        let length = row.dot(&row).sqrt();
        row /= length;
    }
    rows
}

/// The vectors of a file, of which every so many is kept out as a query.
fn read(name: &str, path: &Path) -> anyhow::Result<Collection> {
    let all = read_npy(path).with_context(|| format!("cannot read {}", path.display()))?;
    // Words without a vector have zeros.
    let given: Vec<usize> = (0..all.nrows()).filter(|&row| all.row(row).iter().any(|&x| x != 0.0)).collect();
    let step = given.len() / HELD_OUT;
    anyhow::ensure!(step > 1, "found {} vectors in {}, needed {}", given.len(), path.display(), 2 * HELD_OUT);
    let is_query = |place: usize| place.is_multiple_of(step) && place / step < HELD_OUT;
    let part = |wanted: bool| {
        let places = given.iter().enumerate().filter(|&(place, _)| is_query(place) == wanted);
        directions(all.select(Axis(0), &places.map(|(_, &row)| row).collect::<Vec<_>>()))
    };
    let (documents, queries) = (part(false)?, part(true)?);
    Ok(Collection { name: format!("{name}, {} x {}", documents.nrows(), documents.ncols()), documents, queries })
}

fn read_npy(path: &Path) -> anyhow::Result<Array2<f32>> {
    let file = NpyFile::new(BufReader::new(File::open(path)?))?;
    let [rows, columns] = *file.shape() else { anyhow::bail!("found the shape {:?}, needed two axes", file.shape()) };
    let shape = (rows as usize, columns as usize);
    let by_rows = file.order() == Order::C;
    let values: Vec<f32> = match file.try_data::<f32>() {
        Ok(values) => values.collect::<Result<_, _>>()?,
        Err(file) => file.data::<f64>()?.map(|value| value.map(|value| value as f32)).collect::<Result<_, _>>()?,
    };
    match by_rows {
        true => Ok(Array2::from_shape_vec(shape, values)?),
        false => Ok(Array2::from_shape_vec(shape.f(), values)?.as_standard_layout().into_owned()),
    }
}

impl Collection {
    /// Documents.
    pub(super) fn len(&self) -> usize {
        self.documents.nrows()
    }

    /// Coordinates of a vector.
    pub(super) fn width(&self) -> usize {
        self.documents.ncols()
    }

    /// The vectors of the first queries.
    pub(super) fn first_queries(&self, count: usize) -> Vec<Vec<f32>> {
        self.queries.slice(s![..count.min(self.queries.nrows()), ..]).outer_iter().map(|row| row.to_vec()).collect()
    }
}

#[cfg(test)]
mod tests {
    use npyz::WriterBuilder;

    use super::*;

    #[test]
    fn synthetic_vectors_have_length_one_and_coordinates_of_one_size() {
        let made = synthetic(2000).unwrap();
        assert_eq!((made.len(), made.width(), made.queries.nrows()), (2000, WIDTH, HELD_OUT));
        let squares = made.documents.mapv(|x| x * x);
        assert!(squares.sum_axis(Axis(1)).iter().all(|length| (length - 1.0).abs() < 1e-4));
        let sizes = squares.mean_axis(Axis(0)).unwrap();
        let (least, most) = sizes.iter().fold((f32::MAX, 0.0f32), |(a, b), &x| (a.min(x), b.max(x)));
        assert!(most / least < 4.0, "{least} to {most}");
        assert_eq!(synthetic(2000).unwrap().documents, made.documents, "the same vectors again");
    }

    #[test]
    fn rotations_are_orthogonal() {
        let rotation = rotation();
        let product = rotation.dot(&rotation.t()) - Array2::<f32>::eye(WIDTH);
        assert!(product.iter().all(|error| error.abs() < 1e-4));
    }

    #[test]
    fn files_give_documents_and_queries_and_absent_ones_say_what_makes_them() {
        let folder = tempfile::tempdir().unwrap();
        let absent = GLOVE.open(folder.path()).unwrap().err().unwrap();
        assert!(absent.contains("fetch_data.py glove"), "{absent}");
        let path = folder.path().join("a.npy");
        let write = |rows: u64, order: Order| {
            let options = npyz::WriteOptions::new().default_dtype().shape(&[rows, 3]).order(order);
            let mut writer = options.writer(File::create(&path).unwrap()).begin_nd().unwrap();
            let row_of = |i: u64| if order == Order::C { i / 3 } else { i % rows };
            writer.extend((0..3 * rows).map(|i| (row_of(i) % 7) as f32)).unwrap();
            writer.finish().unwrap();
        };
        for order in [Order::C, Order::Fortran] {
            write(1000, order);
            let made = read("a", &path).unwrap();
            // One in seven has zeros.
            assert_eq!((made.len() + HELD_OUT, made.width(), made.queries.nrows()), (857, 3, HELD_OUT));
            assert!(made.documents.iter().all(|x| (x * x - 1.0 / 3.0).abs() < 1e-6), "by rows");
        }
        write(10, Order::C);
        assert!(read("a", &path).err().unwrap().to_string().contains("needed 400"));
    }
}
