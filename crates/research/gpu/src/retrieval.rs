//! Private retrieval from dense tables on the device and on the processor.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rayon::prelude::*;
use serde_json::json;
use unspoken_pir_scheme::dense::{
    DensePart, DenseQuery, DenseShape, GroupView, LastFactors, Packing, PackingView, answer,
};
use unspoken_pir_scheme::{Mode, PirParameters, PirSecret, PreparedKeys, Preset};
use unspoken_ring::{Device, DeviceCopy, SecretRng, Seed, Stored};

use crate::bootstraps::{counted, median, totals};
use crate::counting;
use crate::report::Report;

/// Bytes of a cell.
const CELL: usize = 1024;

/// log2 of the cells of the table.
const LOG_CELLS: u32 = 20;
const QUICK_LOG_CELLS: u32 = 16;

/// Queries that are answered at once.
const AT_ONCE: [usize; 3] = [1, 8, 64];

/// Seconds for which each number of queries is answered again and again, at least.
const SECONDS: f64 = 0.5;

/// The bytes of a group, the words of its packing, and the factors of the last switches.
struct Group {
    bytes: Vec<u8>,
    words: Vec<u32>,
    last: Vec<u8>,
}

/// Words without a pattern, quickly.
fn noise(seed: u64, count: usize) -> Vec<u32> {
    let mix = |i: u64| {
        let mixed = (i ^ seed << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32) as u32
    };
    (0..count as u64).into_par_iter().map(mix).collect()
}

impl Group {
    /// Uniform bytes and residues: answers have no meaning, and the bits that they must have.
    fn new(parameters: &PirParameters, part: &DensePart, number: u64) -> Self {
        let bytes =
            noise(2 * number, part.group_bytes(parameters) / 4).into_iter().flat_map(u32::to_le_bytes).collect();
        let ring = parameters.ring();
        let least = ring.chain().iter().min().copied().unwrap_or(1);
        let words = noise(2 * number + 1, Packing::word_count(parameters));
        let mut last = Vec::new();
        for stream in 0..2 {
            ring.write_residues(&ring.uniform(&Seed([number as u8; 32]), stream, ring.basis()), &mut last);
        }
        Group { bytes, words: words.into_iter().map(|word| word % least).collect(), last }
    }
}

/// A client's keys and queries, as they are sent.
struct Sent {
    keys: Vec<u8>,
    queries: Vec<Vec<u8>>,
}

impl Sent {
    fn new(parameters: &PirParameters, shape: DenseShape) -> anyhow::Result<Self> {
        let mut rng = SecretRng::from_os()?;
        let secret = PirSecret::generate(parameters, &mut rng)?;
        let mut keys = Vec::new();
        secret.keys(Mode::Packed, &mut rng)?.write(&mut keys)?;
        let most = AT_ONCE.into_iter().max().unwrap_or(1) as u64;
        let queries = (0..most).map(|number| {
            let query = secret.dense_query(shape, number * 7919 % shape.cells(), &mut rng)?;
            Ok(query.to_bytes(parameters))
        });
        Ok(Sent { queries: queries.collect::<anyhow::Result<_>>()?, keys })
    }
}

/// A service of a table.
struct Service<'a> {
    parameters: PirParameters,
    shape: DenseShape,
    groups: &'a [Group],
    last: Vec<LastFactors>,
    copies: Vec<[DeviceCopy; 2]>,
    keys: PreparedKeys,
    queries: Vec<DenseQuery>,
}

impl<'a> Service<'a> {
    fn new(parameters: PirParameters, shape: DenseShape, groups: &'a [Group], sent: &Sent) -> anyhow::Result<Self> {
        let last = groups.iter().map(|group| Ok(LastFactors::from_bytes(&parameters, &group.last)?));
        let queries = sent.queries.iter().map(|query| Ok(DenseQuery::from_bytes(&parameters, shape, query)?));
        Ok(Service {
            last: last.collect::<anyhow::Result<_>>()?,
            copies: groups.iter().map(|_| Default::default()).collect(),
            keys: PreparedKeys::read(&parameters, &mut sent.keys.as_slice())?,
            queries: queries.collect::<anyhow::Result<_>>()?,
            groups,
            shape,
            parameters,
        })
    }

    /// The bytes of the responses to the first queries, and the seconds that they took.
    fn answer(&self, count: usize) -> anyhow::Result<(Vec<Vec<u8>>, f64)> {
        let views = self.groups.iter().zip(&self.last).zip(&self.copies);
        let views: Vec<GroupView<'_>> = views
            .map(|((group, last), [bytes, words])| GroupView {
                bytes: Stored::new(&group.bytes, bytes),
                changes: &[],
                packing: PackingView { words: Stored::new(&group.words, words), last },
            })
            .collect();
        let queries: Vec<_> = self.queries[..count].iter().map(|query| (&self.keys, query)).collect();
        let start = Instant::now();
        let responses = answer(&self.parameters, self.shape, &[views], &queries, &AtomicBool::new(false))?;
        let seconds = start.elapsed().as_secs_f64();
        Ok((responses.iter().flatten().map(|response| response.to_bytes()).collect(), seconds))
    }

    /// The bytes of the responses, and the median seconds.
    fn timed(&self, count: usize) -> anyhow::Result<(Vec<Vec<u8>>, f64)> {
        let (mut times, mut last) = (Vec::new(), Vec::new());
        while times.iter().sum::<f64>() < SECONDS || times.len() < 3 {
            let seconds;
            (last, seconds) = self.answer(count)?;
            times.push(seconds);
        }
        Ok((last, median(times)))
    }
}

/// A table with its queries.
fn table(quick: bool) -> anyhow::Result<(PirParameters, DenseShape, Vec<Group>, Sent)> {
    let parameters = Preset::N11.build()?;
    let shape = DenseShape::new(&parameters, 1 << if quick { QUICK_LOG_CELLS } else { LOG_CELLS }, CELL)?;
    let part = DensePart::whole(shape);
    let groups = (0..shape.groups() as u64).map(|number| Group::new(&parameters, &part, number)).collect();
    let sent = Sent::new(&parameters, shape)?;
    Ok((parameters, shape, groups, sent))
}

pub fn run(device: &Device, quick: bool, report: &mut Report) -> anyhow::Result<()> {
    let (parameters, shape, groups, sent) = table(quick)?;
    let there = Service::new(parameters.on_device(device)?, shape, &groups, &sent)?;
    let found = on_device(device, &there, report)?;
    let here = Service::new(parameters, shape, &groups, &sent)?;
    for (count, found) in AT_ONCE.into_iter().zip(found) {
        let (wanted, seconds) = here.timed(count)?;
        report.line(json!({
            "part": "retrieval", "where": "processor", "table_bytes": shape.table_bytes(&here.parameters),
            "queries": count, "seconds": seconds, "queries_per_second": count as f64 / seconds,
            "same": wanted == found,
        }))?;
    }
    Ok(())
}

/// What answers cost, counted on a device that computes nothing.
pub fn floors(_: &Device, quick: bool, report: &mut Report) -> anyhow::Result<()> {
    let (parameters, shape, groups, sent) = table(quick)?;
    let device = counting::device();
    on_device(&device, &Service::new(parameters.on_device(&device)?, shape, &groups, &sent)?, report)?;
    Ok(())
}

/// Answers on a device: for each number of queries at once the bytes of the responses.
fn on_device(device: &Device, service: &Service<'_>, report: &mut Report) -> anyhow::Result<Vec<Vec<Vec<u8>>>> {
    // The first one copies the table to the device.
    let (_, first_seconds) = service.answer(1)?;
    let mut found = Vec::new();
    for count in AT_ONCE {
        service.answer(count)?;
        let (before, copied) = (device.launches(), device.copied_bytes());
        service.answer(count)?;
        let kernels = counted(&before, &device.launches(), 1);
        let [up, down] = [0, 1].map(|which| device.copied_bytes()[which] - copied[which]);
        let (responses, seconds) = service.timed(count)?;
        report.line(json!({
            "part": "retrieval", "where": device.name(),
            "table_bytes": service.shape.table_bytes(&service.parameters), "queries": count, "seconds": seconds,
            "queries_per_second": count as f64 / seconds, "first_seconds": first_seconds, "bytes_to_device": up,
            "bytes_from_device": down, "totals": totals(&kernels), "kernels": kernels,
        }))?;
        found.push(responses);
    }
    Ok(found)
}
