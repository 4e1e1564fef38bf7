//! Sealed records: the oblivious pseudorandom function for several names in a request; sealing and opening a record.

use unspoken_symmetric_pir::{Blinded, MAX_ELEMENTS, Name, OVERHEAD_BYTES, ServiceKey, SymmetricPirError};

use crate::clock::{TimedOperation, alternate, median};
use crate::error::wrong;
use crate::harness::Harness;
use crate::row::{Metric, params};

const BLIND: Metric = Metric::less("unseal_blind_time", "s");
const EVALUATE: Metric = Metric::less("unseal_evaluate_time", "s");
const FINALIZE: Metric = Metric::less("unseal_finalize_time", "s");
const RATE: Metric = Metric::more("unseal_evaluations_per_second", "names/s");
const REQUEST: Metric = Metric::less("unseal_request_bytes", "bytes");
const ANSWER: Metric = Metric::less("unseal_answer_bytes", "bytes");
const SEAL: Metric = Metric::less("seal_time", "s");
const OPEN: Metric = Metric::less("open_time", "s");
const ADDED: Metric = Metric::less("sealed_record_bytes_added", "bytes");

/// Names in a request.
const NAMES: [usize; 3] = [1, 16, MAX_ELEMENTS];

/// Bytes of a record.
const RECORD: usize = 256;

/// Bytes of the checksum of a request and of an answer, as the application sends them.
const CHECKSUM_BYTES: usize = unspoken_protocol::CHECKSUM_BYTES;

/// Times requests of each size, and one record.
pub(super) fn run(harness: &mut Harness<'_>) -> anyhow::Result<()> {
    let service = ServiceKey::generate(RECORD as u32)?;
    for names in NAMES {
        requests(harness, &service, names)?;
    }
    records(harness, &service)
}

fn requests(harness: &mut Harness<'_>, service: &ServiceKey, count: usize) -> anyhow::Result<()> {
    let sealing = service.sealing();
    let blind = || (0..count as u64).map(|i| Blinded::new(sealing, Name::Index(i))).collect::<Result<Vec<_>, _>>();
    let blinded = blind()?;
    let request = Blinded::request(&blinded);
    let response = service.evaluate(&request, count)?;
    let keys = Blinded::finalize(sealing, &blinded, &response)?;
    let case = if count == 1 { "1 name".to_owned() } else { format!("{count} names") };
    let owners = service.record_key(Name::Index(0))?;
    if keys.first().is_none_or(|key| key.label() != owners.label()) {
        return Err(wrong(case, 1.0, 0.0));
    }
    let stopwatch = harness.stopwatch();
    let mut operations: [TimedOperation<'_>; 3] = [
        Box::new(|| stopwatch.seconds(blind)),
        Box::new(|| stopwatch.seconds(|| service.evaluate(&request, count))),
        Box::new(|| stopwatch.seconds(|| Blinded::finalize(sealing, &blinded, &response))),
    ];
    let samples = alternate(harness.repetitions(), &mut operations)?;
    drop(operations);
    let params = params! { "names": count };
    for (metric, samples) in [BLIND, EVALUATE, FINALIZE].into_iter().zip(&samples) {
        harness.timing(metric, case.as_str(), samples, None, params.clone());
    }
    if let [_, evaluate, _] = samples.as_slice() {
        harness.value(RATE, case.as_str(), count as f64 / median(evaluate), None, params.clone());
    }
    for (metric, bytes) in [(REQUEST, request.len()), (ANSWER, response.len())] {
        harness.value(metric, case.as_str(), (bytes + CHECKSUM_BYTES) as f64, None, params.clone());
    }
    Ok(())
}

fn records(harness: &mut Harness<'_>, service: &ServiceKey) -> anyhow::Result<()> {
    let (sealing, record) = (service.sealing(), [7; RECORD]);
    let key = service.record_key(Name::Index(0))?;
    let sealed = key.seal(sealing, &record)?;
    let case = format!("a record of {RECORD} bytes");
    if *key.open(sealing, &sealed)? != record {
        return Err(wrong(case, 1.0, 0.0));
    }
    // The owner derives the key of each record that it seals.
    let derive_and_seal = || service.record_key(Name::Index(0))?.seal(sealing, &record);
    let stopwatch = harness.stopwatch();
    let mut operations: [TimedOperation<'_>; 2] = [
        Box::new(|| stopwatch.seconds::<_, SymmetricPirError>(derive_and_seal)),
        Box::new(|| stopwatch.seconds(|| key.open(sealing, &sealed))),
    ];
    let samples = alternate(harness.repetitions(), &mut operations)?;
    drop(operations);
    for (metric, samples) in [SEAL, OPEN].into_iter().zip(&samples) {
        harness.timing(metric, case.as_str(), samples, None, params! { "record_bytes": RECORD });
    }
    harness.value(ADDED, case, OVERHEAD_BYTES as f64, None, params! { "record_bytes": RECORD });
    Ok(())
}
