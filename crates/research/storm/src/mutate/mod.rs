//! `unspoken-storm mutate`

mod mutation;
mod recorder;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use unspoken_client::transport::Cancel;

use self::mutation::mutated;
use self::recorder::{Recorder, content_length, head_bytes};
use crate::amount::Amount;
use crate::client::{Client, Kind, Outcome, transport};
use crate::service::{Binary, Files, Service, Settings};
use crate::verdict::Verdict;

/// Requests between two checks that the service is ready and answers an honest client.
const CHECK: u64 = 250;
/// Longest time to wait for a response.
const WAIT: Duration = Duration::from_secs(5);
/// Bytes of a request that are sent, at most: key bundles are long.
const MAX_BYTES: usize = 600 << 10;
/// Statuses above 499 that say that the service has no room or time at present.
const OVERLOAD: [u16; 3] = [503, 504, 507];

/// Send mutated requests to a running service: it must not end, not answer with an internal error, and stay ready
///
/// The requests of an honest client are recorded: descriptions, key uploads, questions, status, deletion. Each mutant
/// is a recorded request with random changes of its head and its body. --count counts mutants [default: 3000].
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    amount: Amount,
    #[command(flatten)]
    binary: Binary,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let amount = &arguments.amount;
    // The first client is honest, the second one's requests are mutated.
    let files = Files::new(2)?;
    let settings = Settings { classifier: true, memory_mib: 2048, listen: ([127, 0, 0, 1], 0).into() };
    let mut service = Service::start(&arguments.binary, &files, settings)?;
    let requests = record(&service, &files)?;
    let state = files.folder().join("honest");
    let honest = Client::connect(Kind::Retrieve, &service.url(), &files.tokens[0], &state, &files);
    let mut honest = honest.map_err(|outcome| anyhow::anyhow!("the honest client cannot connect: {outcome:?}"))?;
    let mut verdict = Verdict::new("mutate");
    let (mut rounds, mut random, mut sent) = (amount.rounds(3000), amount.random(), 0u64);
    let mut statuses = BTreeMap::<String, u64>::new();
    while rounds.next() {
        let request = mutated(&requests, &mut random);
        let status = exchange(service.address, &request[..request.len().min(MAX_BYTES)]);
        sent += 1;
        if let Some(status) = status.filter(|status| *status >= 500 && !OVERLOAD.contains(status)) {
            let head = String::from_utf8_lossy(&request[..request.len().min(200)]).into_owned();
            verdict.finding(format!("status {status} for mutant {sent}: {head:?}"));
        }
        *statuses.entry(status.map_or("none".into(), |status| status.to_string())).or_default() += 1;
        if sent % CHECK == 0 && !check(&mut service, &mut honest, &mut random, sent, &mut verdict) {
            break;
        }
    }
    check(&mut service, &mut honest, &mut random, sent, &mut verdict);
    verdict.number("mutants", sent);
    verdict.number("of_requests", requests.len());
    verdict.number("statuses", json!(statuses));
    if let Some((_, peak)) = service.memory_mib() {
        verdict.number("peak_mib", peak);
    }
    verdict.number("seconds", rounds.elapsed().as_secs());
    Ok(verdict.print(amount.json))
}

/// Checks that the service runs, is ready, and answers right. Returns whether it runs.
fn check(
    service: &mut Service,
    honest: &mut Client,
    random: &mut fastrand::Rng,
    sent: u64,
    verdict: &mut Verdict,
) -> bool {
    if !service.is_running() {
        verdict.finding(format!("the service ended at mutant {sent} or shortly before:\n{}", service.log_end()));
        return false;
    }
    if !service.is_ready() {
        verdict.finding(format!("the service is not ready after mutant {sent}"));
    }
    match honest.ask(random) {
        Outcome::Right => {}
        other => verdict.finding(format!("an honest client after mutant {sent}: {other:?}")),
    }
    true
}

/// The requests of a client from its first contact to the deletion of its keys.
fn record(service: &Service, files: &Files) -> anyhow::Result<Vec<Vec<u8>>> {
    let recorder = Recorder::start(service.address)?;
    let (url, token) = (format!("http://{}", recorder.address), &files.tokens[1]);
    let failed = |outcome| anyhow::anyhow!("the client to be recorded: {outcome:?}");
    for kind in [Kind::Retrieve, Kind::Classify] {
        let state = files.folder().join(format!("recorded-{kind:?}"));
        let mut client = Client::connect(kind, &url, token, &state, files).map_err(failed)?;
        let asked = client.ask(&mut fastrand::Rng::with_seed(1));
        anyhow::ensure!(asked == Outcome::Right, "the client to be recorded: {asked:?}");
        let transport = transport(&url, token)?;
        transport.keys(&Cancel::new())?;
        if kind == Kind::Classify {
            transport.delete_key(client.key(), &Cancel::new())?;
        }
    }
    let requests = recorder.requests();
    anyhow::ensure!(requests.len() >= 10, "only {} requests were recorded", requests.len());
    Ok(requests)
}

/// Whether a request has the body that its head declares. The service waits for the rest of others: their connections
/// are closed after the last byte.
fn is_complete(request: &[u8]) -> bool {
    head_bytes(request).is_some_and(|head| request.len() - head >= content_length(&request[..head]))
}

/// Sends bytes and returns the status of the response, if there is one.
fn exchange(address: SocketAddr, request: &[u8]) -> Option<u16> {
    let connected = TcpStream::connect(address).context("cannot connect").and_then(|mut stream| {
        stream.set_read_timeout(Some(WAIT))?;
        stream.set_write_timeout(Some(WAIT))?;
        // A refusal may come before everything is sent.
        let _ = stream.write_all(request);
        if !is_complete(request) {
            stream.shutdown(Shutdown::Write)?;
        }
        let mut head = [0; 12];
        stream.read_exact(&mut head)?;
        Ok(head)
    });
    let head = connected.ok()?;
    std::str::from_utf8(&head[9..]).ok()?.parse().ok()
}
