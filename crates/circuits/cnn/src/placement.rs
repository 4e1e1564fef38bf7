//! The placement of pixels. Few rotations move all pixels under the kernel to their output.
//!
//! Outputs of one channel are numbered `L = 8 y + x`. A pixel used by output `L` has a position `c` (modulo 64) where
//! `c - L` is one of the nine steps `8 v + u`, `u` and `v` below 3. The 24 x 24 pixels of the upper left corner belong
//! to nine phases (row and column modulo 3). Each phase is a plane of 8 x 8 pixels at natural positions. The other 208
//! pixels are used by outputs at the border only and have up to nine possible positions each. A matching distributes
//! them over the smallest possible number of planes.

use unspoken_digits_model::{FEATURES_PER_CHANNEL, IMAGE_SIDE, KERNEL, OUTPUT_SIDE, PIXELS, STRIDE};

/// Number of steps in each direction, which is the number of positions of a phase that the kernel covers.
pub(crate) const REACH: usize = KERNEL.div_ceil(STRIDE);
/// Number of rows and columns whose pixels are in the plane of their phase.
const INNER_SIDE: usize = STRIDE * OUTPUT_SIDE;
/// The phases, ordered so that phases of equal reach are neighbours.
const PHASES: [(usize, usize); STRIDE * STRIDE] =
    [(0, 1), (0, 2), (1, 0), (2, 0), (1, 1), (1, 2), (2, 1), (2, 2), (0, 0)];

/// The plane and the position of a pixel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PixelPlacement {
    pub plane: usize,
    pub position: usize,
}

/// The outputs of one channel that use a pixel, each with the row and column of the kernel at this pixel.
pub(crate) fn uses(pixel: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let (row, column) = (pixel / IMAGE_SIDE, pixel % IMAGE_SIDE);
    (0..FEATURES_PER_CHANNEL).filter_map(move |output| {
        let (top, left) = (output / OUTPUT_SIDE * STRIDE, output % OUTPUT_SIDE * STRIDE);
        let under = |at: usize, start: usize| at.checked_sub(start).filter(|&offset| offset < KERNEL);
        Some((output, under(row, top)?, under(column, left)?))
    })
}

/// The step from an output to a position, as rows and columns, if both are within reach.
pub(crate) fn step(position: usize, output: usize) -> Option<(usize, usize)> {
    let step = (position + FEATURES_PER_CHANNEL - output) % FEATURES_PER_CHANNEL;
    let (rows, columns) = (step / OUTPUT_SIDE, step % OUTPUT_SIDE);
    (rows < REACH && columns < REACH).then_some((rows, columns))
}

/// The placement of every pixel, and the number of planes.
pub(crate) fn place_pixels() -> (Vec<PixelPlacement>, usize) {
    let mut placements = vec![PixelPlacement::default(); PIXELS];
    let (inner, outer): (Vec<usize>, Vec<usize>) =
        (0..PIXELS).partition(|&p| p / IMAGE_SIDE < INNER_SIDE && p % IMAGE_SIDE < INNER_SIDE);
    for pixel in inner {
        let (row, column) = (pixel / IMAGE_SIDE, pixel % IMAGE_SIDE);
        let phase = (row % STRIDE, column % STRIDE);
        let plane = PHASES.iter().position(|&other| other == phase).unwrap_or_default();
        placements[pixel] = PixelPlacement { plane, position: row / STRIDE * OUTPUT_SIDE + column / STRIDE };
    }
    let assigned = (1..).find_map(|capacity| assign_all(&outer, capacity)).unwrap_or_default();
    let planes = assigned.iter().map(Vec::len).max().unwrap_or_default();
    for (position, mut pixels) in assigned.into_iter().enumerate() {
        // Similar pixels share a plane, so that fewer products of a plane and a step are not zero.
        pixels.sort_by_key(|&p| (p / IMAGE_SIDE < INNER_SIDE, p));
        for (extra, pixel) in pixels.into_iter().enumerate() {
            placements[pixel] = PixelPlacement { plane: PHASES.len() + extra, position };
        }
    }
    (placements, PHASES.len() + planes)
}

/// Assigns a position to each pixel, with at most `capacity` pixels per position. Returns the pixels of each position,
/// or `None` if this is not possible.
fn assign_all(pixels: &[usize], capacity: usize) -> Option<Vec<Vec<usize>>> {
    let allowed = |&pixel: &usize| -> Vec<usize> {
        (0..FEATURES_PER_CHANNEL).filter(|&c| uses(pixel).all(|(output, ..)| step(c, output).is_some())).collect()
    };
    let positions: Vec<(usize, Vec<usize>)> = pixels.iter().map(|pixel| (*pixel, allowed(pixel))).collect();
    let mut assigned: Vec<Vec<usize>> = vec![Vec::new(); FEATURES_PER_CHANNEL];
    for &(pixel, _) in &positions {
        let mut seen = [false; FEATURES_PER_CHANNEL];
        if !assign(pixel, &positions, capacity, &mut assigned, &mut seen) {
            return None;
        }
    }
    Some(assigned)
}

/// Finds a position for one pixel and moves others if necessary (Kuhn's augmenting paths).
fn assign(
    pixel: usize,
    positions: &[(usize, Vec<usize>)],
    capacity: usize,
    assigned: &mut [Vec<usize>],
    seen: &mut [bool],
) -> bool {
    let Ok(index) = positions.binary_search_by_key(&pixel, |&(p, _)| p) else { return false };
    for &position in &positions[index].1 {
        if std::mem::replace(&mut seen[position], true) {
            continue;
        }
        if assigned[position].len() < capacity {
            assigned[position].push(pixel);
            return true;
        }
        for i in 0..assigned[position].len() {
            let other = assigned[position][i];
            if assign(other, positions, capacity, assigned, seen) {
                assigned[position][i] = pixel;
                return true;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_pixel_has_a_position_of_its_own_within_reach() {
        let (placements, planes) = place_pixels();
        let distinct: HashSet<PixelPlacement> = placements.iter().copied().collect();
        assert_eq!(distinct.len(), PIXELS);
        assert_eq!(planes, 15);
        for (pixel, placement) in placements.iter().enumerate() {
            assert!(placement.plane < planes && placement.position < FEATURES_PER_CHANNEL);
            assert!(uses(pixel).all(|(output, ..)| step(placement.position, output).is_some()), "{pixel}");
        }
        let all: usize = (0..PIXELS).map(|p| uses(p).count()).sum();
        assert_eq!(all, FEATURES_PER_CHANNEL * KERNEL * KERNEL);
    }
}
