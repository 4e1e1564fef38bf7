//! A service before it starts, by its configuration.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use unspoken_server::{CertificateReport, ServerConfig};

use super::files::{bytes, free_bytes, secret, state_directory, unchangeable};
use super::finding::{Finding, size};
use super::offers;

/// Time before its end in which a certificate is to be renewed.
const RENEWAL: Duration = Duration::from_secs(14 * 86400);

/// Files and directories of a service that exist already.
pub fn files_of(config: &ServerConfig, file: Option<&Path>) -> Vec<PathBuf> {
    let tls = config.tls.iter().flat_map(|tls| [&tls.certificate, &tls.key]);
    let named = tls.chain(&config.tokens).chain([&config.data_dir]).map(PathBuf::as_path);
    let all =
        named.chain(file).map(Path::to_path_buf).chain(["keys", "uploads"].map(|name| config.data_dir.join(name)));
    all.filter(|path| path.exists()).collect()
}

/// Examines a service. Its offers are loaded if `load` says so.
pub fn examine(config: &ServerConfig, load: bool) -> Vec<Finding> {
    let mut findings = match config.check() {
        Ok(()) => vec![Finding::ok("configuration", format!("offers: {}", config.offers.len()))],
        Err(error) => vec![Finding::refused("configuration", error)],
    };
    findings.extend(tls(config));
    findings.extend(tokens(config));
    findings.push(state_directory(&config.data_dir));
    // Whose directory cannot be read, has a line already.
    let runs = config.is_in_use().unwrap_or(false);
    findings.push(port("port", "listen", config.listen, runs));
    if let Some(address) = config.metrics_listen {
        findings.push(port("metrics port", "metrics_listen", address, runs));
        if !address.ip().is_loopback() {
            let found = format!("metrics_listen is {address}: everyone who reaches it reads the metrics");
            let remedy = "listen on 127.0.0.1, or let only Prometheus reach it";
            findings.push(Finding::warning("metrics port", found, remedy));
        }
    }
    let (room, disk) = disk(config);
    findings.push(disk);
    findings.extend(offers::examine(config, room, runs, load));
    findings
}

fn tls(config: &ServerConfig) -> Vec<Finding> {
    let Some(files) = &config.tls else {
        if config.listen.ip().is_loopback() {
            return Vec::new();
        }
        let found = format!("there is none at {}: tokens and queries cross the network in the clear", config.listen);
        let remedy = "set [tls] certificate and key, or let a proxy on this machine speak TLS";
        return vec![Finding::warning("certificate", found, remedy)];
    };
    let mut findings = vec![match config.inspect_certificate() {
        Ok(Some(report)) => certificate(&report, SystemTime::now()),
        Ok(None) => return Vec::new(),
        Err(error) => {
            let remedy = "give the chain, its own certificate first, and the key that it was made for";
            Finding::problem("certificate", error.to_string(), remedy)
        }
    }];
    findings.extend(unchangeable("certificate", &files.certificate));
    findings.extend(secret("private key", &files.key));
    findings
}

fn certificate(report: &CertificateReport, now: SystemTime) -> Finding {
    const CHECK: &str = "certificate";
    let date = |time| humantime::format_rfc3339_seconds(time).to_string();
    let names = if report.names.is_empty() { "no host".to_owned() } else { report.names.join(", ") };
    let found = format!("for {names}, from {} to {}", date(report.not_before), date(report.not_after));
    if now < report.not_before {
        return Finding::problem(CHECK, found, "it is not valid yet: wait, or set the clock of this machine");
    }
    if now >= report.not_after {
        return Finding::problem(
            CHECK,
            found,
            "it has expired: renew it; a service that runs reads it again by itself",
        );
    }
    if report.names.is_empty() {
        return Finding::problem(
            CHECK,
            found,
            "clients refuse it: make one with the service's name as alternative name",
        );
    }
    if report.not_after.duration_since(now).is_ok_and(|left| left < RENEWAL) {
        return Finding::warning(
            CHECK,
            found,
            "it expires soon: renew it; a service that runs reads it again by itself",
        );
    }
    Finding::ok(CHECK, format!("fits its key; {found}"))
}

fn tokens(config: &ServerConfig) -> Vec<Finding> {
    let Some(path) = &config.tokens else {
        if config.allow_anonymous && !config.listen.ip().is_loopback() {
            let found = format!("there are none: everyone who reaches {} is served", config.listen);
            let remedy = "unless that is meant, make some with `unspoken keys token NAME`";
            return vec![Finding::warning("tokens", found, remedy)];
        }
        return Vec::new();
    };
    let read = match config.inspect_tokens() {
        Ok(count) => Finding::ok("tokens", format!("{} in {}", count.unwrap_or(0), path.display())),
        Err(error) => Finding::refused("tokens", error),
    };
    [read].into_iter().chain(unchangeable("tokens", path)).collect()
}

/// Whether an address can be listened on. `runs`: a service of this configuration runs.
fn port(check: &'static str, field: &str, address: SocketAddr, runs: bool) -> Finding {
    let found = |what: &str| format!("{field} is {address}: {what}");
    match TcpListener::bind(address) {
        Ok(_) => Finding::ok(check, found("free")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && runs => {
            Finding::ok(check, found("in use, and the service runs"))
        }
        Err(error) => {
            let remedy = match error.kind() {
                io::ErrorKind::AddrInUse => {
                    "another program uses it, `ss -ltnp` says which: stop it or take another port"
                }
                io::ErrorKind::PermissionDenied => {
                    "take a port from 1024 on, or give the service the capability CAP_NET_BIND_SERVICE"
                }
                io::ErrorKind::AddrNotAvailable => "this machine has no such address, `ip address` lists them",
                _ => "take another address",
            };
            Finding::problem(check, found(&error.to_string()), remedy)
        }
    }
}

/// Bytes for the keys of clients, and whether the disk has them.
fn disk(config: &ServerConfig) -> (Option<u64>, Finding) {
    const CHECK: &str = "disk";
    let stored = ["keys", "uploads"].map(|name| bytes(&config.data_dir.join(name))).iter().sum::<u64>();
    let Some(free) = free_bytes(&config.data_dir) else {
        let remedy = "set limits.key_disk_bytes (--key-disk-mib) by hand";
        return (None, Finding::warning(CHECK, "this system does not say how much is free", remedy));
    };
    let all = free.saturating_add(stored);
    let configured = config.limits.key_disk_bytes;
    let room = if configured == 0 { all / 2 } else { configured };
    let found = format!("{} free, {} in use for keys of clients, {} allowed", size(free), size(stored), size(room));
    if room > all {
        let remedy = "the disk fills before limits.key_disk_bytes is reached, and uploads fail: lower it or add disk";
        return (Some(all), Finding::warning(CHECK, found, remedy));
    }
    (Some(room), Finding::ok(CHECK, found))
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::*;

    #[test]
    fn a_certificate_is_valid_for_names_and_between_dates() {
        let day = |days: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(days * 86400);
        let report = CertificateReport { not_before: day(100), not_after: day(200), names: vec!["ask.example".into()] };
        for (now, expected) in [
            (50, State::Problem),
            (100, State::Ok),
            (190, State::Warning),
            (200, State::Problem),
            (300, State::Problem),
        ] {
            let said = certificate(&report, day(now));
            assert_eq!(said.state, expected, "{said}");
        }
        let nameless = CertificateReport { names: Vec::new(), ..report };
        assert_eq!(certificate(&nameless, day(150)).state, State::Problem);
    }

    #[test]
    fn a_port_in_use_is_a_problem_unless_the_service_runs() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let said = port("port", "listen", address, false);
        assert!(said.state == State::Problem && said.found.contains(&address.to_string()), "{said}");
        assert_eq!(port("port", "listen", address, true).state, State::Ok);
        drop(taken);
        assert_eq!(port("port", "listen", address, false).state, State::Ok);
    }

    #[test]
    fn more_disk_than_there_is_is_a_warning() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = ServerConfig { data_dir: dir.path().join("data"), ..ServerConfig::default() };
        let (room, said) = disk(&config);
        assert!(said.state == State::Ok && room.is_some(), "{said}");
        config.limits.key_disk_bytes = u64::MAX;
        assert_eq!(disk(&config).1.state, State::Warning);
    }
}
