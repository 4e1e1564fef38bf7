//! Clusters of vectors, and blocks of clusters.
//!
//! Spherical k-means: the centre of a cluster is the direction of the sum of its vectors. A cluster has room for as
//! many vectors as a group has columns, so the last step gives each vector the nearest cluster that has room, the most
//! similar pairs first.

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis, s};
use rayon::prelude::*;
use unspoken_ring::SecretRng;
use zeroize::Zeroizing;

use crate::ranked::{Ranked, best_first};

/// Rounds of k-means.
const ROUNDS: usize = 12;

/// Vectors per cluster that k-means looks at, at most.
const SAMPLED: usize = 256;

/// Clusters that a vector may go to, the nearest ones, before it takes any with room.
const CHOICES: usize = 16;

/// Similarities that are computed at the same time, about: they stay in the cache.
const SIMILARITIES: usize = 1 << 18;

/// Centres of clusters, and the cluster of each vector.
#[derive(Clone, Debug)]
pub(crate) struct Clusters {
    /// Vectors of length 1.
    pub(crate) centres: Array2<f32>,
    /// For each cluster, the numbers of its vectors.
    pub(crate) members: Vec<Vec<usize>>,
}

impl Clusters {
    /// Makes `count` clusters of at most `room` of the vectors of length 1. `count * room` vectors fit, or more.
    /// `report` is told how many steps of how many are done.
    pub(crate) fn new(
        vectors: ArrayView2<'_, f32>,
        count: usize,
        room: usize,
        report: &mut dyn FnMut(usize, usize),
    ) -> Self {
        let steps = ROUNDS + 1;
        let centres = centres(vectors, count, &mut |round| report(round, steps));
        let members = members(vectors, &centres, room);
        report(steps, steps);
        Clusters { centres, members }
    }
}

/// A permutation of `0..count` that depends on the count alone: the same vectors give the same index.
fn shuffled(count: usize) -> Vec<usize> {
    let mut bytes = vec![0; 8 * count];
    SecretRng::insecure_from_seed(count as u64).fill(&mut bytes);
    let keys: Vec<u64> =
        bytes.chunks_exact(8).map(|eight| u64::from_le_bytes(eight.try_into().expect("eight bytes"))).collect();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_unstable_by_key(|&number| keys[number]);
    order
}

/// The centres that k-means finds among a sample of the vectors.
fn centres(vectors: ArrayView2<'_, f32>, count: usize, report: &mut dyn FnMut(usize)) -> Array2<f32> {
    let mut order = shuffled(vectors.nrows());
    order.truncate((SAMPLED * count).max(count));
    let sample = vectors.select(Axis(0), &order);
    let start: Vec<usize> = (0..count).map(|cluster| cluster % order.len()).collect();
    let mut centres = sample.select(Axis(0), &start);
    for round in 0..ROUNDS {
        report(round);
        let nearest = nearest(sample.view(), &centres, 1);
        let mut sums = Array2::<f32>::zeros(centres.raw_dim());
        for (vector, clusters) in sample.outer_iter().zip(&nearest) {
            let mut sum = sums.row_mut(clusters[0].1 as usize);
            sum += &vector;
        }
        for (mut sum, centre) in sums.outer_iter_mut().zip(centres.outer_iter()) {
            let length = sum.dot(&sum).sqrt();
            // An empty cluster keeps its centre.
            if length > 0.0 { sum /= length } else { sum.assign(&centre) }
        }
        centres = sums;
    }
    centres
}

/// For each vector its `most` nearest centres, the nearest first, with the similarities.
fn nearest(vectors: ArrayView2<'_, f32>, centres: &Array2<f32>, most: usize) -> Vec<Vec<(f32, u32)>> {
    let most = most.min(centres.nrows());
    let rows = (SIMILARITIES / centres.nrows()).clamp(16, 1024);
    let of_chunk = |start: usize| {
        let end = (start + rows).min(vectors.nrows());
        let similarities = vectors.slice(s![start..end, ..]).dot(&centres.t());
        let best = |row: ArrayView1<'_, f32>| {
            let mut best: Vec<(f32, u32)> = Vec::with_capacity(most);
            for (&similarity, centre) in row.iter().zip(0..) {
                if best.len() == most {
                    // Nearly all centres end here.
                    if similarity <= best[most - 1].0 {
                        continue;
                    }
                    best.pop();
                }
                let place = best.partition_point(|better| better.0 >= similarity);
                best.insert(place, (similarity, centre));
            }
            best
        };
        similarities.outer_iter().map(best).collect::<Vec<_>>()
    };
    let starts: Vec<usize> = (0..vectors.nrows()).step_by(rows).collect();
    starts.into_par_iter().flat_map_iter(of_chunk).collect()
}

/// Gives each vector a cluster with room, the most similar pairs first.
fn members(vectors: ArrayView2<'_, f32>, centres: &Array2<f32>, room: usize) -> Vec<Vec<usize>> {
    let near = nearest(vectors, centres, CHOICES);
    let mut members = vec![Vec::new(); centres.nrows()];
    let mut waiting: Vec<usize> = (0..vectors.nrows()).collect();
    for choice in 0..CHOICES.min(centres.nrows()) {
        waiting.sort_by(|&a, &b| near[b][choice].0.total_cmp(&near[a][choice].0));
        waiting.retain(|&vector| {
            let cluster: &mut Vec<usize> = &mut members[near[vector][choice].1 as usize];
            let is_full = cluster.len() >= room;
            if !is_full {
                cluster.push(vector);
            }
            is_full
        });
    }
    for vector in waiting {
        let similar = centres.dot(&vectors.row(vector));
        let with_room = (0..members.len()).filter(|&cluster| members[cluster].len() < room);
        let best = with_room.max_by(|&a, &b| similar[a].total_cmp(&similar[b]));
        members[best.expect("there is room for all vectors")].push(vector);
    }
    members.par_iter_mut().for_each(|members| members.sort_unstable());
    members
}

/// Puts clusters into blocks of `groups` clusters, neighbours together: a query for a block gets all of its scores. The
/// last block may have fewer. Returns the clusters in the order of the blocks.
pub(crate) fn blocks(centres: &Array2<f32>, groups: usize) -> Vec<usize> {
    let mean: Array1<f32> = centres.sum_axis(Axis(0));
    // The most remote ones first: they have the fewest neighbours.
    let mut left: Vec<usize> = (0..centres.nrows()).collect();
    let remote = centres.dot(&mean);
    left.sort_by(|&a, &b| remote[b].total_cmp(&remote[a]));
    let mut order = Vec::with_capacity(left.len());
    while let Some(first) = left.pop() {
        order.push(first);
        let similar = centres.dot(&centres.row(first));
        for _ in 1..groups.min(left.len() + 1) {
            let best = (0..left.len()).max_by(|&a, &b| similar[left[a]].total_cmp(&similar[left[b]]));
            order.push(left.remove(best.expect("one is left")));
        }
    }
    order
}

/// The `most` blocks of the clusters most similar to a vector, the most similar first; of equal ones the first.
/// `similarities` are those of the clusters, in the order of [`blocks`]. No branch and no address depends on them.
pub(crate) fn nearest_blocks(similarities: &[f32], groups: usize, most: usize) -> Zeroizing<Vec<usize>> {
    let best = |block: &[f32]| block.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let best = similarities.chunks(groups).map(best).zip(0..);
    let mut ranked: Zeroizing<Vec<Ranked>> =
        Zeroizing::new(best.map(|(best, block)| Ranked::new(best, block)).collect());
    best_first(&mut ranked);
    Zeroizing::new(ranked.iter().take(most).map(|block| block.number() as usize).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors::directions;

    /// Vectors around `count` directions.
    fn around(count: usize, each: usize) -> Array2<f32> {
        let vectors = Array2::from_shape_fn((count * each, 32), |(i, j)| {
            let (place, noise) = ((i % count * 7 + j * 13) as f32, (i * 31 + j * 17) as f32);
            place.sin() + 0.1 * noise.sin()
        });
        directions(vectors).unwrap()
    }

    #[test]
    fn every_vector_is_in_one_cluster_with_room() {
        let vectors = around(10, 50);
        for (count, room) in [(10, 60), (10, 50), (1, 500), (500, 1), (7, 100)] {
            let clusters = Clusters::new(vectors.view(), count, room, &mut |_, _| ());
            assert_eq!(clusters.members.len(), count);
            assert!(clusters.members.iter().all(|members| members.len() <= room), "{count} {room}");
            let mut all: Vec<usize> = clusters.members.concat();
            all.sort_unstable();
            assert_eq!(all, (0..500).collect::<Vec<_>>());
        }
        let clusters = Clusters::new(vectors.view(), 20, 60, &mut |_, _| ());
        let pure =
            clusters.members.iter().filter(|members| members.iter().all(|member| member % 10 == members[0] % 10));
        assert!(pure.count() >= 14, "clusters follow the directions");
        assert_eq!(
            Clusters::new(vectors.view(), 20, 60, &mut |_, _| ()).members,
            clusters.members,
            "the same index again"
        );
    }

    #[test]
    fn neighbours_share_a_block() {
        let vectors = around(6, 1);
        let centres = ndarray::concatenate![Axis(0), vectors, vectors];
        let order = blocks(&centres, 2);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..12).collect::<Vec<_>>());
        assert!(order.chunks(2).all(|pair| pair[0] % 6 == pair[1] % 6), "{order:?}");
        assert_eq!(blocks(&centres, 5).len(), 12);
        let similarities = [0.1, 0.2, 0.9, 0.0, 0.3, 0.3];
        assert_eq!(*nearest_blocks(&similarities, 2, 2), [1, 2]);
        assert_eq!(*nearest_blocks(&similarities, 2, 9), [1, 2, 0]);
        assert_eq!(*nearest_blocks(&[0.5; 4], 1, 3), [0, 1, 2]);
    }

    #[test]
    fn the_nearest_blocks_are_those_that_sorting_finds() {
        for (count, groups) in [(1, 1), (7, 3), (64, 4), (575, 1), (575, 8)] {
            let similarities: Vec<f32> = (0..count).map(|i| ((i * 7919 % 101) as f32 * 0.37).sin()).collect();
            let best: Vec<f32> =
                similarities.chunks(groups).map(|block| block.iter().copied().fold(-2.0, f32::max)).collect();
            let mut order: Vec<usize> = (0..best.len()).collect();
            order.sort_by(|&a, &b| best[b].total_cmp(&best[a]));
            for most in [1, order.len() / 2, order.len()] {
                assert_eq!(*nearest_blocks(&similarities, groups, most), order[..most], "{count} {groups}");
            }
        }
    }
}
