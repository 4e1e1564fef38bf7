//! The file of a plan in a cache: `Unspplan`, the format version, the key, the plan, and the SHA-256 of everything
//! before. Numbers are little-endian.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::copies::{Copies, Layer};
use crate::diagonals::{Packing, Shifts};
use crate::error::{PermuteError, wrong};
use crate::network::{Edge, Network, Node, Source};
use crate::permutation::Permutation;
use crate::plan::{Operations, PermutationPlan, Stage, Strategy};

/// Identifies a task.
pub(crate) type PlanKey = [u8; 32];

const MAGIC: &[u8; 8] = b"Unspplan";
const VERSION: u32 = 1;
const CHECKSUM_BYTES: usize = 32;

/// The values that are stored as their index here.
const STRATEGIES: [Strategy; 5] =
    [Strategy::Identity, Strategy::Diagonals, Strategy::Factors, Strategy::Benes, Strategy::Windowed];
const PACKINGS: [Packing; 2] = [Packing::Repeated, Packing::Blocks];
const SHIFTS: [Shifts; 3] = [Shifts::Exact, Shifts::Forward, Shifts::Balanced];

/// What follows the packing and the length.
const STAGES: u8 = 0;
const NETWORK: u8 = 1;
const COPIES: u8 = 2;

/// What an edge starts from, and whether it has a mask.
const INPUT: u8 = 0;
const NODE: u8 = 1;
const UNMASKED: u8 = 0;
const MASKED: u8 = 1;

/// The file of a plan.
pub(crate) fn encode(key: &PlanKey, plan: &PermutationPlan) -> Vec<u8> {
    let mut out = Writer(MAGIC.to_vec());
    out.u32(VERSION);
    out.0.extend(key);
    out.u8(index(&PACKINGS, plan.packing()));
    out.count(plan.length());
    match plan.program() {
        Operations::Stages(stages) => {
            out.u8(STAGES);
            out.u8(index(&STRATEGIES, plan.strategy()));
            out.all(stages, |out, stage| {
                out.u8(index(&SHIFTS, stage.shifts));
                out.count(stage.babies);
                stage.factor.source().iter().for_each(|&from| out.u32(from));
            });
        }
        Operations::Network(network) => {
            out.u8(NETWORK);
            out.network(network);
        }
        Operations::Copies(copies) => {
            out.u8(COPIES);
            out.count(copies.count);
            out.all(&copies.layers, |out, layer| {
                out.count(layer.babies);
                out.all(&layer.shifts, |out, (&shift, positions)| {
                    out.i64(shift);
                    out.positions(positions);
                });
            });
        }
    }
    let checksum = Sha256::digest(&out.0);
    out.0.extend(checksum);
    out.0
}

/// The plan of a file, checked as every plan that is read.
///
/// # Errors
/// If these are not the bytes of a plan with this key for vectors of `length`.
pub(crate) fn decode(key: &PlanKey, length: usize, bytes: &[u8]) -> Result<PermutationPlan, PermuteError> {
    let (content, checksum) = bytes.split_at_checked(bytes.len().saturating_sub(CHECKSUM_BYTES)).ok_or_else(cut)?;
    if Sha256::digest(content)[..] != *checksum {
        return Err(wrong("the checksum", "another", "that of the file"));
    }
    let mut input = Reader(content);
    if input.take(MAGIC.len())? != MAGIC || input.u32()? != VERSION || input.take(key.len())? != key {
        return Err(wrong("the file", "another format, version or key", "those of the cache"));
    }
    let packing = input.one_of(&PACKINGS)?;
    let found = input.count()?;
    if found != length {
        return Err(wrong("the length", found, length));
    }
    let plan = match input.u8()? {
        STAGES => {
            let strategy = input.one_of(&STRATEGIES)?;
            let stages = input.all(|input| {
                let (shifts, babies) = (input.one_of(&SHIFTS)?, input.count()?);
                let factor = Permutation::new(input.numbers(length)?)?;
                Ok(Stage { factor, shifts, babies })
            })?;
            PermutationPlan::stages(strategy, packing, length, stages)?
        }
        NETWORK => PermutationPlan::network(packing, length, input.network()?)?,
        COPIES => {
            let count = input.count()?;
            let layers = input.all(|input| {
                let babies = input.count()?;
                let shifts = input.map(|input| Ok((input.i64()?, input.positions()?)))?;
                Ok(Layer { shifts, babies })
            })?;
            let plan = PermutationPlan::copies(length, Copies { count, layers })?;
            if packing != plan.packing() {
                return Err(wrong("the packing", "another", "that of copies"));
            }
            plan
        }
        kind => return Err(wrong("the kind of its operations", kind, "one of 0 to 2")),
    };
    if !input.0.is_empty() {
        return Err(wrong("the file", format!("{} more bytes", input.0.len()), "none"));
    }
    Ok(plan)
}

fn index<T: PartialEq>(all: &[T], one: T) -> u8 {
    all.iter().position(|other| *other == one).map_or(u8::MAX, |index| index as u8)
}

fn cut() -> PermuteError {
    wrong("the file", "cut off", "all of it")
}

struct Writer(Vec<u8>);

impl Writer {
    fn u8(&mut self, number: u8) {
        self.0.push(number);
    }

    fn u32(&mut self, number: u32) {
        self.0.extend(number.to_le_bytes());
    }

    fn i64(&mut self, number: i64) {
        self.0.extend(number.to_le_bytes());
    }

    /// A number that plans limit to less than 2^32.
    fn count(&mut self, number: usize) {
        self.u32(u32::try_from(number).unwrap_or(u32::MAX));
    }

    fn all<I: IntoIterator<IntoIter: ExactSizeIterator>>(&mut self, all: I, mut write: impl FnMut(&mut Self, I::Item)) {
        let all = all.into_iter();
        self.count(all.len());
        all.for_each(|one| write(self, one));
    }

    fn positions(&mut self, positions: &[u32]) {
        self.all(positions, |out, &position| out.u32(position));
    }

    fn edges(&mut self, edges: &[Edge]) {
        self.all(edges, |out, edge| {
            match edge.from {
                Source::Input(rotation) => {
                    out.u8(INPUT);
                    out.i64(rotation);
                }
                Source::Node(node) => {
                    out.u8(NODE);
                    out.count(node);
                }
            }
            match &edge.mask {
                None => out.u8(UNMASKED),
                Some(mask) => {
                    out.u8(MASKED);
                    out.positions(mask);
                }
            }
        });
    }

    fn network(&mut self, network: &Network) {
        self.all(&network.nodes, |out, node| {
            out.i64(node.rotation);
            out.edges(&node.edges);
        });
        self.all(&network.leaves, |out, (&multiple, edges)| {
            out.u32(multiple);
            out.edges(edges);
        });
        self.i64(network.unit);
        self.all(&network.top, |out, &step| out.i64(step));
        self.count(network.together);
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], PermuteError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(cut)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], PermuteError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(cut)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, PermuteError> {
        self.array().map(u8::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, PermuteError> {
        self.array().map(u32::from_le_bytes)
    }

    fn i64(&mut self) -> Result<i64, PermuteError> {
        self.array().map(i64::from_le_bytes)
    }

    fn count(&mut self) -> Result<usize, PermuteError> {
        Ok(self.u32()? as usize)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> Result<T, PermuteError> {
        let index = self.u8()?;
        all.get(usize::from(index)).copied().ok_or_else(|| wrong("a choice", index, format!("below {}", all.len())))
    }

    /// A counted list. It grows as its items are read, because the count is not to be trusted.
    fn all<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T, PermuteError>) -> Result<Vec<T>, PermuteError> {
        let mut all = Vec::new();
        for _ in 0..self.u32()? {
            all.push(read(self)?);
        }
        Ok(all)
    }

    /// A counted list of keys, in ascending order, with their values.
    fn map<K: Ord, V>(
        &mut self,
        read: impl FnMut(&mut Self) -> Result<(K, V), PermuteError>,
    ) -> Result<BTreeMap<K, V>, PermuteError> {
        let all = self.all(read)?;
        if !all.is_sorted_by(|(a, _), (b, _)| a < b) {
            return Err(wrong("the order of keys", "another", "ascending"));
        }
        Ok(all.into_iter().collect())
    }

    fn numbers(&mut self, count: usize) -> Result<Vec<u32>, PermuteError> {
        let bytes = self.take(count.checked_mul(4).ok_or_else(cut)?)?;
        Ok(bytes.as_chunks().0.iter().map(|number| u32::from_le_bytes(*number)).collect())
    }

    fn positions(&mut self) -> Result<Vec<u32>, PermuteError> {
        let count = self.count()?;
        self.numbers(count)
    }

    fn edges(&mut self) -> Result<Vec<Edge>, PermuteError> {
        self.all(|input| {
            let from = match input.u8()? {
                INPUT => Source::Input(input.i64()?),
                NODE => Source::Node(input.count()?),
                other => return Err(wrong("the start of an edge", other, "an input or a node")),
            };
            let mask = match input.u8()? {
                UNMASKED => None,
                MASKED => Some(input.positions()?),
                other => return Err(wrong("the mask of an edge", other, "one or none")),
            };
            Ok(Edge { from, mask })
        })
    }

    fn network(&mut self) -> Result<Network, PermuteError> {
        let nodes = self.all(|input| {
            let rotation = input.i64()?;
            Ok(Node { edges: input.edges()?, rotation })
        })?;
        let leaves = self.map(|input| Ok((input.u32()?, input.edges()?)))?;
        let (unit, top, together) = (self.i64()?, self.all(Self::i64)?, self.count()?);
        Ok(Network { nodes, leaves, unit, top, together })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: PlanKey = [7; 32];

    fn plans(permutation: &Permutation) -> Vec<PermutationPlan> {
        let stage = |shifts| Stage { factor: permutation.clone(), shifts, babies: 3 };
        let n = permutation.len();
        let network = |top, bottom| Network::new(permutation, Packing::Repeated, top, bottom).unwrap();
        let shapes = [(8, 8), (1, 8)].map(|(unit, count)| crate::copies_route::LayerShape { unit, count, babies: 2 });
        let copies = crate::copies_route::route(permutation, 8, &shapes).unwrap();
        vec![
            PermutationPlan::stages(Strategy::Identity, Packing::Blocks, n, vec![]).unwrap(),
            PermutationPlan::stages(Strategy::Diagonals, Packing::Repeated, n, vec![stage(Shifts::Forward)]).unwrap(),
            PermutationPlan::network(Packing::Repeated, n, network(0, 0)).unwrap(),
            PermutationPlan::network(Packing::Repeated, n, network(2, 2)).unwrap(),
            PermutationPlan::copies(n, copies).unwrap(),
        ]
    }

    #[test]
    fn plans_are_read_as_they_were_written() {
        for plan in plans(&Permutation::random(64, 3).unwrap()) {
            let bytes = encode(&KEY, &plan);
            assert_eq!(decode(&KEY, 64, &bytes).unwrap(), plan);
            assert!(decode(&[8; 32], 64, &bytes).is_err());
            assert!(decode(&KEY, 128, &bytes).is_err());
        }
    }

    #[test]
    fn damaged_files_are_refused_even_with_a_correct_checksum() {
        for plan in plans(&Permutation::random(64, 3).unwrap()) {
            let bytes = encode(&KEY, &plan);
            let content = &bytes[..bytes.len() - CHECKSUM_BYTES];
            let sealed = |content: &[u8]| [content, &Sha256::digest(content)].concat();
            assert_eq!(sealed(content), bytes);
            for end in 0..bytes.len() {
                assert!(decode(&KEY, 64, &bytes[..end]).is_err(), "{end} of {} bytes", bytes.len());
            }
            for end in 0..content.len() {
                assert!(decode(&KEY, 64, &sealed(&content[..end])).is_err(), "{end} of {} bytes", content.len());
            }
            assert!(decode(&KEY, 64, &sealed(&[content, &[0]].concat())).is_err());
            for at in 0..content.len() {
                let mut other = content.to_vec();
                other[at] ^= 0x81;
                assert!(decode(&KEY, 64, &[&other, &bytes[content.len()..]].concat()).is_err(), "byte {at}");
                // A plan of something else, or an error: no panic.
                assert!(decode(&KEY, 64, &sealed(&other)).ok().is_none_or(|read| read != plan), "byte {at}");
            }
        }
    }
}
