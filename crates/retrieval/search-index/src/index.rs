//! An index of vectors: which vector is in which column of which cluster, and the rows of the table.

use ndarray::{Array2, ArrayView2, Axis};
use rayon::prelude::*;
use unspoken_pir_scheme::PirParameters;
use unspoken_pir_scheme::dense::MaskSeed;
use unspoken_pir_scheme::dense::scores::ScoreShape;

use crate::clusters::{Clusters, blocks};
use crate::directory::{Directory, MAX_ASKED};
use crate::error::IndexError;
use crate::plan::Plan;
use crate::vectors::Quantised;

/// An index of vectors in memory.
#[derive(Clone, Debug)]
pub struct Index {
    shape: ScoreShape,
    directory: Directory,
    coordinates: Array2<i8>,
    /// The number of the vector at each position: cluster by cluster, block by block. `None` where there is none.
    positions: Vec<Option<u32>>,
}

impl Index {
    /// Clusters vectors of length 1, one in each row, and lays them out as planned. `report` is told how many steps of
    /// how many are done.
    ///
    /// # Errors
    /// If there are none, more than the plan has room for, or the table has no such shape.
    pub fn new(
        parameters: &PirParameters,
        directions: ArrayView2<'_, f32>,
        plan: &Plan,
        masks: MaskSeed,
        report: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, IndexError> {
        if directions.is_empty() {
            return Err(IndexError::Empty);
        }
        let (room, count) = (ScoreShape::cluster_documents(parameters), plan.blocks * plan.groups);
        if directions.nrows() > room * count {
            let needed = format!("at most {}: {count} clusters of {room}", room * count);
            return Err(IndexError::Plan { found: format!("{} vectors", directions.nrows()), needed });
        }
        let quantised = Quantised::new(directions);
        let width = directions.ncols();
        let shape = ScoreShape::new([width, plan.blocks, plan.groups], quantised.norm(), masks)?;
        let clusters = Clusters::new(directions, count, room, report);
        let order = blocks(&clusters.centres, plan.groups);
        let mut positions = vec![None; room * count];
        for (place, &cluster) in order.iter().enumerate() {
            let members = clusters.members[cluster].iter().map(|&member| Some(member as u32));
            positions[place * room..].iter_mut().zip(members).for_each(|(position, member)| *position = member);
        }
        let centres = clusters.centres.select(Axis(0), &order);
        let directory = Directory::new(&centres, quantised.scale(), plan.groups, plan.asked);
        Ok(Index { shape, directory, coordinates: quantised.coordinates().to_owned(), positions })
    }

    /// The shape of the table.
    pub fn shape(&self) -> &ScoreShape {
        &self.shape
    }

    /// What clients know of the index.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The number of the vector at each position: cluster by cluster, block by block. `None` where there is none.
    pub fn positions(&self) -> &[Option<u32>] {
        &self.positions
    }

    /// The `most` best positions for a vector of length 1 among the blocks that a client asks, with their cosines, as a
    /// client without errors of encryption finds them.
    pub fn search(&self, direction: &[f32], asked: usize, most: usize) -> Vec<(usize, f32)> {
        let room = self.room() * self.shape.groups();
        let of_block = |block: usize| {
            let positions = block * room..(block + 1) * room;
            positions.filter_map(|position| Some((position, self.cosine(self.positions[position]?, direction))))
        };
        let mut found: Vec<(usize, f32)> =
            self.directory.blocks(direction, asked).iter().flat_map(|&block| of_block(block)).collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1));
        found.truncate(most);
        found
    }

    /// The bytes of a group in the order of a dense table. The last column is the check.
    ///
    /// # Errors
    /// If the table has no such group.
    pub fn group_bytes(&self, parameters: &PirParameters, group: usize) -> Result<Vec<u8>, IndexError> {
        let part = self.shape.part(parameters, group..group + 1)?;
        let (width, room) = (self.shape.width(), self.room());
        let mut bytes = vec![0; part.table_bytes(parameters)];
        for block in 0..self.shape.blocks() {
            let cluster = block * self.shape.groups() + group;
            let members = &self.positions[cluster * room..(cluster + 1) * room];
            for (column, member) in members.iter().enumerate() {
                let Some(member) = *member else { continue };
                for (row, coordinate) in self.coordinates.row(member as usize).iter().enumerate() {
                    bytes[part.byte_at(block * width + row, column)] = coordinate.cast_unsigned();
                }
            }
        }
        let check = self.shape.check_coordinate().cast_unsigned();
        (0..self.shape.rows()).for_each(|row| bytes[part.byte_at(row, room)] = check);
        Ok(bytes)
    }

    /// Number of documents in each cluster, in the order of the blocks.
    pub fn counts(&self) -> Vec<u32> {
        let count = |members: &[Option<u32>]| members.iter().flatten().count() as u32;
        self.positions.chunks(self.room()).map(count).collect()
    }

    fn cosine(&self, member: u32, direction: &[f32]) -> f32 {
        let coordinates = self.coordinates.row(member as usize);
        let score: f32 = coordinates.iter().zip(direction).map(|(&byte, x)| f32::from(byte) * x).sum();
        score / self.directory.scale()
    }

    fn room(&self) -> usize {
        self.positions.len() / (self.shape.blocks() * self.shape.groups())
    }

    /// The same index for questions that ask another number of blocks.
    #[must_use]
    pub fn asking(self, asked: usize) -> Self {
        Index { directory: self.directory.asking(asked), ..self }
    }

    /// The part of the `most` nearest neighbours of some vectors of the index that a client finds if it asks 1, 2 and
    /// more blocks, up to [`MAX_ASKED`]. The vectors themselves are left out.
    pub fn recalls(&self, directions: ArrayView2<'_, f32>, sample: &[usize], most: usize) -> Vec<f64> {
        let asked = self.shape.blocks().min(MAX_ASKED);
        let room = self.room() * self.shape.groups();
        let found_of = |&number: &usize| {
            let direction = directions.row(number).to_vec();
            let exact = neighbours(directions, number, most);
            let mut best: Vec<(f32, usize)> = Vec::new();
            let blocks = self.directory.blocks(&direction, asked);
            let found = blocks.iter().map(|&block| {
                let members = self.positions[block * room..(block + 1) * room].iter().flatten();
                let others = members.filter(|&&member| member as usize != number);
                best.extend(others.map(|&member| (self.cosine(member, &direction), member as usize)));
                best.sort_by(|a, b| b.0.total_cmp(&a.0));
                best.truncate(most);
                best.iter().filter(|(_, member)| exact.contains(member)).count()
            });
            found.collect::<Vec<usize>>()
        };
        let add = |a: Vec<usize>, b: Vec<usize>| a.into_iter().zip(b).map(|(a, b)| a + b).collect();
        let found = sample.par_iter().map(found_of).reduce(|| vec![0; asked], add);
        let all = sample.len() * most.min(directions.nrows().saturating_sub(1));
        // Without neighbours all of them are found.
        found.into_iter().map(|found| if all == 0 { 1.0 } else { found as f64 / all as f64 }).collect()
    }
}

/// The `most` nearest neighbours of a vector.
fn neighbours(directions: ArrayView2<'_, f32>, number: usize, most: usize) -> Vec<usize> {
    let cosines = directions.dot(&directions.row(number));
    let mut best: Vec<usize> = (0..cosines.len()).filter(|&member| member != number).collect();
    let most = most.min(best.len());
    if most > 0 && most < best.len() {
        best.select_nth_unstable_by(most - 1, |&a, &b| cosines[b].total_cmp(&cosines[a]));
    }
    best.truncate(most);
    best
}
