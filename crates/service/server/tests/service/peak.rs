//! The memory of the process under load: the limit holds for what the operating system counts.

use std::io::{Cursor, Read};
use std::sync::atomic::Ordering;
use std::time::Duration;

use unspoken_client::transport::Cancel;
use unspoken_protocol::{Call, KeyLimits, KeyLoader, KeySetId, Limits, PlainError, Request, ServerHalf};

use crate::process::Process;
use crate::support::*;

const MIB: u64 = 1 << 20;
pub const NAME: &str = "test/buffers";
const KEY_BYTES: u64 = 12 * MIB;
const QUERY_BYTES: usize = 1 << 20;
const ANSWER_BYTES: usize = 1 << 18;
const WORKING_BYTES: u64 = 24 * MIB;

/// An application that uses its declared memory, in buffers of the sizes of ciphertexts, on several threads of its own,
/// and waits for these threads.
pub struct Buffers;

/// Buffers of `bytes` bytes in all, written to.
fn buffers(bytes: u64, sizes: &[usize]) -> Vec<Vec<u8>> {
    let mut left = bytes as usize;
    let mut buffers = Vec::new();
    for &size in sizes.iter().cycle() {
        let size = size.min(left);
        left -= size;
        buffers.push(vec![1; size]);
        if left == 0 {
            return buffers;
        }
    }
    buffers
}

impl KeyLoader for Buffers {
    type Keys = Vec<Vec<u8>>;
    type KeyError = PlainError;

    fn key_set(&self) -> KeySetId {
        KeySetId::new(NAME, &[0; 16])
    }

    fn key_limits(&self) -> KeyLimits {
        KeyLimits { format: 1, front_bytes: 0, max_bytes: MIB, memory_bytes: KEY_BYTES }
    }

    fn loaded_key_bytes(&self, _: &[u8]) -> Result<u64, PlainError> {
        Ok(KEY_BYTES)
    }

    fn load_keys(&self, bundle: &mut dyn Read) -> Result<Vec<Vec<u8>>, PlainError> {
        std::io::copy(bundle, &mut std::io::sink())?;
        Ok(buffers(KEY_BYTES, &[96 << 10, 60 << 10]))
    }

    fn check_keys(&self, _: &Vec<Vec<u8>>) -> Result<(), PlainError> {
        Ok(())
    }
}

impl ServerHalf for Buffers {
    type Error = PlainError;

    fn describe(&self) -> Vec<u8> {
        Vec::new()
    }

    fn limits(&self) -> Limits {
        Limits {
            query_bytes: QUERY_BYTES,
            answer_bytes: ANSWER_BYTES,
            working_bytes: WORKING_BYTES,
            most_together: 1,
            waits_for_others: true,
        }
    }

    fn prepared_bytes(&self) -> u64 {
        0
    }

    fn answer(&self, request: &Request<'_, Vec<Vec<u8>>>, _: &Call<'_>) -> Result<Vec<u8>, PlainError> {
        let sizes = [[1000, 33_000, 260_000], [5000, 130_000, 1_100_000]];
        let used: usize = std::thread::scope(|scope| {
            let threads = sizes.each_ref().map(|sizes| {
                scope.spawn(move || {
                    let held = buffers(WORKING_BYTES / 2, sizes);
                    std::thread::sleep(Duration::from_millis(10));
                    held.len()
                })
            });
            threads.map(|thread| thread.join().unwrap_or(0)).iter().sum()
        });
        Ok(vec![request.query[0] ^ (used > 0 && !request.keys.is_empty()) as u8; ANSWER_BYTES])
    }
}

/// Bytes that the process may take beyond its limit of memory: the program and its libraries, stacks, allocator.
const MARGIN: u64 = 48 * MIB;

#[test]
fn the_process_keeps_to_its_memory_under_load_and_gives_it_back() {
    const CLIENTS: usize = 60;
    const QUESTIONS: usize = 4;
    let mut setup = Setup::new();
    setup.config.limits.memory_bytes = 256 * MIB;
    setup.config.workers = 4;
    let names: Vec<String> = (0..CLIENTS).map(|number| format!("client-{number}")).collect();
    let tokens = setup.tokens::<CLIENTS>(std::array::from_fn(|number| names[number].as_str()));
    let service = Process::start_with(&setup.config, &setup.dir.path().join("data"), None);
    let base = service.memory("VmRSS");
    let accounted = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for token in &tokens {
            let (service, accounted) = (&service, &accounted);
            scope.spawn(move || {
                let client = transport(service.address, Some(token));
                let mut keys = Cursor::new(vec![7; 1000]);
                let id = client.upload_keys(NAME, 1, &mut keys, |_| {}, &Cancel::new()).unwrap();
                for _ in 0..QUESTIONS {
                    let answer = client.ask(NAME, &id, vec![9; QUERY_BYTES], &Cancel::new()).unwrap();
                    assert_eq!(Vec::from(answer), vec![8; ANSWER_BYTES]);
                }
                let now = metric(service.metrics_address, "unspoken_memory_bytes") as u64;
                accounted.fetch_max(now, Ordering::Relaxed);
            });
        }
    });
    let peak = service.memory("VmHWM");
    let resident = metric(service.metrics_address, "process_resident_memory_bytes") as u64;
    println!(
        "start {} MiB, peak {} MiB, accounted {} MiB, then {} MiB",
        base / MIB,
        peak / MIB,
        accounted.load(Ordering::Relaxed) / MIB,
        resident / MIB
    );
    assert!(peak <= 256 * MIB + MARGIN, "{} MiB at the peak", peak / MIB);
    // Without requests, the process has little more than the service accounts for: the keys that stay loaded.
    let held = metric(service.metrics_address, "unspoken_memory_bytes") as u64;
    wait_until("unused memory is given back", || service.memory("VmRSS") <= base + held + MARGIN / 2);
    let shown = metric(service.metrics_address, "process_resident_memory_bytes") as u64;
    assert!(shown.abs_diff(service.memory("VmRSS")) <= 8 * MIB, "the metric says {shown}");
}
