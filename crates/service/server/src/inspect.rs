//! What a service would find when it starts, for programs that examine a machine and start none.

use std::fs::{OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

use crate::application::Applications;
use crate::auth::Authenticator;
use crate::capacity::Capacity;
use crate::config::ServerConfig;
use crate::descriptors;
use crate::error::ServerError;
use crate::page::Page;
use crate::serve::Server;
use crate::tls::{failed, usable_chain};

/// A certificate chain that fits its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateReport {
    /// When all certificates of the chain are valid for the first time.
    pub not_before: SystemTime,
    /// When the first certificate of the chain expires.
    pub not_after: SystemTime,
    /// The names of the first certificate: those of hosts and addresses that clients accept.
    pub names: Vec<String>,
}

impl Server {
    /// The numbers of workers and connections that a service of this configuration would have, without starting it.
    /// Raises the limit of open files of this process, as a service does.
    ///
    /// # Errors
    /// [`ServerError::Memory`] if the memory is not enough for one worker, [`ServerError::Descriptors`], or an error of
    /// the files of the page.
    pub fn capacity(config: &ServerConfig, applications: &Applications) -> Result<Capacity, ServerError> {
        let page = config.web.as_deref().map(Page::load).transpose()?;
        let room = descriptors::room_for_connections(descriptors::raise_limit());
        Capacity::new(config, applications, page.as_ref().map_or(0, Page::bytes), room)
    }
}

impl ServerConfig {
    /// Reads certificate and key, if the service has them.
    ///
    /// # Errors
    /// [`ServerError::Read`], [`ServerError::Certificate`], or [`ServerError::Tls`] if they do not fit.
    pub fn inspect_certificate(&self) -> Result<Option<CertificateReport>, ServerError> {
        let Some(files) = &self.tls else { return Ok(None) };
        let of_certificate = |reason| failed("certificate", &files.certificate, reason);
        let mut report: Option<CertificateReport> = None;
        for der in usable_chain(files)? {
            let (_, certificate) = X509Certificate::from_der(&der)
                .map_err(|error| of_certificate(format!("found a certificate that is not X.509 ({error})")))?;
            let validity = certificate.validity();
            let (not_before, not_after) = (system_time(&validity.not_before), system_time(&validity.not_after));
            let report =
                report.get_or_insert_with(|| CertificateReport { not_before, not_after, names: names(&certificate) });
            report.not_before = report.not_before.max(not_before);
            report.not_after = report.not_after.min(not_after);
        }
        report.map(Some).ok_or_else(|| of_certificate("found no certificate".into()))
    }

    /// Reads the tokens; their number, if the service has a file of tokens.
    ///
    /// # Errors
    /// [`ServerError::Read`] or an error of a line.
    pub fn inspect_tokens(&self) -> Result<Option<usize>, ServerError> {
        let count = |path| Authenticator::new(Some(path)).map(|tokens| tokens.count());
        self.tokens.as_deref().map(count).transpose()
    }

    /// Whether a service that runs has locked `data_dir`. Makes nothing. Holds the lock for an instant if no service
    /// has it.
    ///
    /// # Errors
    /// The error of the operating system; a missing directory is none.
    pub fn is_in_use(&self) -> io::Result<bool> {
        is_locked(&self.data_dir.join("lock"))
    }
}

fn is_locked(path: &Path) -> io::Result<bool> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// A time before 1970 is taken for 1970.
fn system_time(time: &ASN1Time) -> SystemTime {
    let seconds = Duration::from_secs(u64::try_from(time.timestamp()).unwrap_or(0));
    UNIX_EPOCH.checked_add(seconds).unwrap_or(UNIX_EPOCH)
}

/// The names of hosts and addresses of a certificate. What cannot be read is left out.
fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else { return Vec::new() };
    let text = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|bytes| std::net::Ipv4Addr::from(bytes).to_string()),
            16 => <[u8; 16]>::try_from(*bytes).ok().map(|bytes| std::net::Ipv6Addr::from(bytes).to_string()),
            _ => None,
        },
        _ => None,
    };
    extension.value.general_names.iter().filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TlsFiles;

    fn seconds(time: SystemTime) -> u64 {
        time.duration_since(UNIX_EPOCH).unwrap().as_secs()
    }

    #[test]
    fn a_certificate_says_when_it_expires_and_for_whom_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let files = TlsFiles { certificate: dir.path().join("cert.pem"), key: dir.path().join("key.pem") };
        let config = ServerConfig { tls: Some(files.clone()), ..ServerConfig::default() };
        let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        parameters.not_before = rcgen::date_time_ymd(2024, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2025, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        std::fs::write(&files.certificate, certificate.pem()).unwrap();
        std::fs::write(&files.key, key.serialize_pem()).unwrap();
        let report = config.inspect_certificate().unwrap().unwrap();
        assert_eq!((seconds(report.not_before), seconds(report.not_after)), (1_704_067_200, 1_735_689_600));
        assert_eq!(report.names, ["localhost", "127.0.0.1"]);
        // The key of another certificate.
        std::fs::write(&files.key, rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap();
        assert!(matches!(config.inspect_certificate(), Err(ServerError::Tls(_))));
        assert_eq!(ServerConfig::default().inspect_certificate().unwrap(), None);
    }

    #[test]
    fn a_directory_in_use_is_told_from_a_free_one() {
        let dir = tempfile::tempdir().unwrap();
        let config = ServerConfig { data_dir: dir.path().join("data"), ..ServerConfig::default() };
        assert!(!config.is_in_use().unwrap());
        assert!(!config.data_dir.exists());
        std::fs::create_dir(&config.data_dir).unwrap();
        let lock = unspoken_files::open_lock_file(&config.data_dir.join("lock")).unwrap();
        assert!(!config.is_in_use().unwrap());
        lock.try_lock().unwrap();
        assert!(config.is_in_use().unwrap());
    }
}
