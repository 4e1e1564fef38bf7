//! A service reads tokens and certificates again and goes on serving: at SIGHUP, and by itself when they have changed.

use std::convert::Infallible;
use std::fs::{self, File};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::support::{Service, complaint, unspoken};
use unspoken_database::{Builder, Record};
use unspoken_pir_scheme::Preset;

static GO: AtomicBool = AtomicBool::new(false);

/// Files of a service and of its clients.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        let records = (0..20).map(|_| Ok::<_, Infallible>(Record { key: None, value: vec![7; 100] }));
        Builder::new(Preset::N11).build(files.path("codes"), records, |_| {}, &GO).unwrap();
        files
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// A new certificate for the service, which is its own authority. Clients trust it by `NAME.pem`.
    fn renew(&self, name: &str) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        for file in [format!("{name}.pem"), "cert.pem".to_owned()] {
            fs::write(self.path(&file), made.cert.pem()).unwrap();
        }
        fs::write(self.path("key.pem"), made.signing_key.serialize_pem()).unwrap();
    }

    /// A new token, the only one that the service knows. Its client has it in the file `NAME`.
    fn admit(&self, name: &str) {
        let token = unspoken_server::make_token(name).unwrap();
        fs::write(self.path(name), token.secret).unwrap();
        fs::write(self.path("tokens"), token.line + "\n").unwrap();
    }

    /// Serves over TLS and with tokens. The configuration file has these lines.
    fn serve(&self, config: &str) -> Service {
        fs::write(self.path("service.toml"), config).unwrap();
        let [database, data, tokens] = ["codes", "data", "tokens"].map(|name| self.path(name));
        let [certificate, key, config] = ["cert.pem", "key.pem", "service.toml"].map(|name| self.path(name));
        let offer = ["--config", &config, "--pir", &database, "--data-dir", &data, "--tokens", &tokens];
        let tls = ["--tls-certificate", &certificate, "--tls-key", &key];
        Service::start(&[&offer[..], &tls].concat(), File::create(self.path("log")).unwrap())
    }

    /// Asks for the keys of a client that trusts an authority. The error, if there is one.
    fn ask(&self, service: &Service, client: &str, authority: &str) -> Result<(), String> {
        let url = service.url.replace("127.0.0.1", "localhost");
        let [token, ca] = [self.path(client), self.path(&format!("{authority}.pem"))];
        let output = unspoken(&["keys", "list", "--url", &url, "--token-file", &token, "--ca", &ca]);
        if output.status.success() { Ok(()) } else { Err(complaint(&output)) }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap()
    }
}

/// Waits until a condition holds, at most twenty seconds.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "still not: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_hangup_renews_certificate_and_tokens_and_ends_nothing() {
    let files = Files::new();
    files.renew("old");
    files.admit("ann");
    // It reads nothing by itself within this test.
    let service = files.serve("[timeouts]\nsweep = '1h'\n");
    files.ask(&service, "ann", "old").unwrap();

    files.renew("new");
    files.admit("bob");
    files.ask(&service, "ann", "old").unwrap();
    service.signal("HUP");
    wait_until("the new certificate is used", || files.ask(&service, "bob", "new").is_ok());
    let refused = files.ask(&service, "bob", "old").unwrap_err();
    assert!(refused.contains("trust the authority that signed it"), "{refused}");
    let refused = files.ask(&service, "ann", "new").unwrap_err();
    assert!(refused.contains("unauthorized"), "{refused}");
    let log = files.log();
    assert!(log.contains("tokens read again") && log.contains("certificate and key read again"), "{log}");

    // Files that cannot be used change nothing.
    fs::write(files.path("key.pem"), "half a ke").unwrap();
    fs::write(files.path("tokens"), "half a li").unwrap();
    service.signal("HUP");
    wait_until("both are refused", || {
        let log = files.log();
        log.contains("cannot read certificate and key again") && log.contains("cannot read tokens again")
    });
    files.ask(&service, "bob", "new").unwrap();
}

#[test]
fn changed_files_are_read_again_without_a_signal() {
    let files = Files::new();
    files.renew("old");
    files.admit("ann");
    let service = files.serve("[timeouts]\nsweep = '100ms'\n");
    files.ask(&service, "ann", "old").unwrap();
    files.renew("new");
    files.admit("bob");
    wait_until("both are read again", || files.ask(&service, "bob", "new").is_ok());
}
