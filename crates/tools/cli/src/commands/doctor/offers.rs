//! What the offers of a service need.

use std::time::Instant;

use unspoken_offers::Resources;
use unspoken_server::{Applications, OfferConfig, Server, ServerConfig};

use super::files::{bytes, secret, unchangeable};
use super::finding::{Finding, State, on_one_line, size};
use crate::commands::serve::DeviceOptions;
use crate::memory::{all_memory, free_memory};

const OFFERS: &str = "offers";
const MEMORY: &str = "limit";

/// Examines the offers: their files, then, if they are loaded, what they need. `room` is the number of bytes of disk
/// for keys. While the service `runs`, nothing is loaded a second time.
pub fn examine(config: &ServerConfig, room: Option<u64>, runs: bool, load: bool) -> Vec<Finding> {
    let (offers, left_out) = match unspoken_offers::without_directories(config.offers.clone()) {
        Ok(found) => found,
        Err(error) => return vec![Finding::refused(OFFERS, error)],
    };
    let mut findings: Vec<_> = config.offers.iter().flat_map(files).collect();
    let all_are_there = findings.iter().all(|finding| finding.state != State::Problem);
    findings.extend(memory(config, runs));
    for name in left_out {
        findings.push(Finding::ok(OFFERS, format!("{name} is not loaded here: it locks a directory of its own")));
    }
    if runs {
        let named = config.data_dir.display();
        findings.push(Finding::ok(OFFERS, format!("not loaded a second time: a service uses {named}")));
        return findings;
    }
    if !load || !all_are_there {
        findings.push(Finding::ok(OFFERS, "not loaded: what they need is not compared with the limits"));
        findings.extend(capacity(config, &Applications::new(), None));
        return findings;
    }
    let needed: u64 = offers.iter().map(|offer| bytes(&offer.path)).fold(0, u64::saturating_add);
    if let Some(free) = free_memory().filter(|free| *free < needed) {
        let found = format!("their files have {}, and {} of memory are free", size(needed), size(free));
        let remedy = "give the machine more memory, or offer less; they are not loaded here";
        findings.push(Finding::problem(OFFERS, found, remedy));
        return findings;
    }
    findings.extend(loaded(config, offers, room));
    findings
}

/// The files of an offer. Whether they can be used, loading says.
fn files(offer: &OfferConfig) -> Vec<Finding> {
    let path = &offer.path;
    if let Err(error) = path.metadata() {
        let found = format!("{} of {}: {error}", path.display(), offer.kind);
        return vec![Finding::problem(OFFERS, found, "name the files that exist, readable for the service's user")];
    }
    // The key of sealed records.
    let is_secret = matches!(offer.kind.as_str(), "oprf" | "unseal");
    let found = if is_secret { secret(OFFERS, path) } else { unchangeable(OFFERS, path) };
    found.into_iter().collect()
}

/// The limit of memory beside what the machine has.
fn memory(config: &ServerConfig, runs: bool) -> Option<Finding> {
    let (limit, all, free) = (config.limits.memory_bytes, all_memory()?, free_memory()?);
    let found = format!("limits.memory_bytes is {}, of {} in the machine, {} free", size(limit), size(all), size(free));
    if limit > all {
        let remedy = "the system would end the service when it uses what it may: lower it (--memory-mib)";
        return Some(Finding::problem(MEMORY, found, remedy));
    }
    if limit > free && !runs {
        let remedy = "lower it (--memory-mib), or stop what uses the rest";
        return Some(Finding::warning(MEMORY, found, remedy));
    }
    Some(Finding::ok(MEMORY, found))
}

/// Loads the offers and compares what they need with the limits.
fn loaded(config: &ServerConfig, offers: Vec<OfferConfig>, room: Option<u64>) -> Vec<Finding> {
    let placement = match DeviceOptions::of(config).open() {
        Ok(placement) => placement,
        Err(error) => {
            let remedy = "`unspoken devices` lists what there is; leave out device for the processor";
            return vec![Finding::problem("device", on_one_line(&error), remedy)];
        }
    };
    let mut findings = Vec::new();
    if let Some(placement) = &placement {
        let device = placement.device();
        findings.push(Finding::ok("device", format!("{}, {}", device.name(), device.model())));
    }
    let (count, start) = (offers.len(), Instant::now());
    let applications = match offers.is_empty() {
        true => Ok(Applications::new()),
        false => unspoken_offers::load(offers, &Resources { plans: None, placement }, |_| {}),
    };
    let applications = match applications {
        Ok(applications) => applications,
        Err(error) => return findings.into_iter().chain([Finding::refused(OFFERS, error)]).collect(),
    };
    let seconds = start.elapsed().as_secs_f64();
    findings.push(Finding::ok(OFFERS, format!("{count} loaded in {seconds:.1} s")));
    findings.extend(capacity(config, &applications, room));
    findings
}

/// What the limits leave to clients.
fn capacity(config: &ServerConfig, applications: &Applications, room: Option<u64>) -> Vec<Finding> {
    let capacity = match Server::capacity(config, applications) {
        Ok(capacity) => capacity,
        Err(error) => return vec![Finding::refused("capacity", error)],
    };
    let wanted = match config.workers {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        count => count,
    };
    let mut findings = Vec::new();
    if applications.iter().next().is_some() {
        let (models, keys, requests) = (capacity.model_bytes, capacity.job_bytes, capacity.body_bytes);
        let found = format!(
            "{} of {wanted} workers; {} for models, {} for keys and answers, {} for requests",
            capacity.workers,
            size(models),
            size(keys),
            size(requests)
        );
        findings.push(if capacity.workers < wanted {
            Finding::warning("capacity", found, "raise limits.memory_bytes (--memory-mib) or offer less")
        } else {
            Finding::ok("capacity", found)
        });
    }
    let (connections, configured) = (capacity.connections, config.limits.connections);
    let found = format!("{connections} of {configured}");
    findings.push(if connections < configured {
        let remedy = "raise the hard limit of open files (ulimit -Hn, or LimitNOFILE= of systemd)";
        Finding::warning("connections", found, remedy)
    } else {
        Finding::ok("connections", found)
    });
    if let Some(room) = room.filter(|room| *room < capacity.longest_bundle) {
        let found = format!(
            "the keys of one client take up to {}, and {} are allowed",
            size(capacity.longest_bundle),
            size(room)
        );
        let remedy = "raise limits.key_disk_bytes (--key-disk-mib), or add disk";
        findings.push(Finding::problem("disk", found, remedy));
    }
    findings
}
