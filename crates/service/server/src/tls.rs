//! TLS by rustls, if a certificate is configured.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ParsedCertificate;
use tokio_rustls::TlsAcceptor;
use zeroize::Zeroizing;

use crate::config::TlsFiles;
use crate::error::ServerError;

/// Certificate and key of a listener, which are read again when the files have changed.
pub(crate) struct Certificates {
    files: TlsFiles,
    current: RwLock<Current>,
}

struct Current {
    /// BLAKE3 hash of both files.
    hash: blake3::Hash,
    acceptor: TlsAcceptor,
}

impl Certificates {
    pub(crate) fn read(files: &TlsFiles) -> Result<Self, ServerError> {
        let content = Content::read(files)?;
        let current = Current { hash: content.hash(), acceptor: content.acceptor(files)? };
        Ok(Self { files: files.clone(), current: RwLock::new(current) })
    }

    /// What accepts the next connection.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.current.read().unwrap_or_else(PoisonError::into_inner).acceptor.clone()
    }

    /// Reads the files again. If one cannot be read, or they do not match (yet), the old certificate stays. Returns
    /// whether it was replaced. Blocks.
    pub(crate) fn reload(&self) -> Result<bool, ServerError> {
        let content = Content::read(&self.files)?;
        let hash = content.hash();
        if self.current.read().unwrap_or_else(PoisonError::into_inner).hash == hash {
            return Ok(false);
        }
        let acceptor = content.acceptor(&self.files)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Current { hash, acceptor };
        Ok(true)
    }
}

/// The bytes of certificate and key.
struct Content {
    certificate: Vec<u8>,
    /// Read at every look at the files, so it is erased each time.
    key: Zeroizing<Vec<u8>>,
}

impl Content {
    fn read(files: &TlsFiles) -> Result<Self, ServerError> {
        let read = |what, path: &Path| std::fs::read(path).map_err(ServerError::read(what, path));
        let certificate = read("certificate", &files.certificate)?;
        Ok(Self { certificate, key: read("private key", &files.key)?.into() })
    }

    fn hash(&self) -> blake3::Hash {
        let length = (self.certificate.len() as u64).to_le_bytes();
        blake3::Hasher::new().update(&length).update(&self.certificate).update(&self.key).finalize()
    }

    fn acceptor(&self, files: &TlsFiles) -> Result<TlsAcceptor, ServerError> {
        let of_certificate = |reason| failed("certificate", &files.certificate, reason);
        let chain = read_chain(&self.certificate).map_err(of_certificate)?;
        let key = read_key(&self.key).map_err(|reason| failed("private key", &files.key, reason))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// The chain of a certificate that fits its key.
pub(crate) fn usable_chain(files: &TlsFiles) -> Result<Vec<CertificateDer<'static>>, ServerError> {
    let content = Content::read(files)?;
    content.acceptor(files)?;
    read_chain(&content.certificate).map_err(|reason| failed("certificate", &files.certificate, reason))
}

/// The certificates of a PEM file, or the one of a DER file.
fn read_chain(bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    check_not_empty(bytes)?;
    let chain = CertificateDer::pem_slice_iter(bytes).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| format!("found damaged PEM ({error})"))?;
    if !chain.is_empty() {
        return Ok(chain);
    }
    let certificate = CertificateDer::from(bytes.to_vec());
    // Bytes that are no certificate would be sent to clients.
    ParsedCertificate::try_from(&certificate).map_err(|error| format!("found no certificate ({error})"))?;
    Ok(vec![certificate])
}

/// The key of a PEM file, or of a DER file.
fn read_key(bytes: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    check_not_empty(bytes)?;
    match PrivateKeyDer::from_pem_slice(bytes) {
        Err(pem::Error::NoItemsFound) => {
            PrivateKeyDer::try_from(bytes.to_vec()).map_err(|error| format!("found no private key ({error})"))
        }
        key => key.map_err(|error| format!("found damaged PEM ({error})")),
    }
}

fn check_not_empty(bytes: &[u8]) -> Result<(), String> {
    if bytes.trim_ascii().is_empty() { Err("found an empty file".into()) } else { Ok(()) }
}

pub(crate) fn failed(what: &'static str, path: &Path, reason: String) -> ServerError {
    ServerError::Certificate { what, path: path.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewed_certificate_is_used_and_one_that_does_not_fit_its_key_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let files = TlsFiles { certificate: dir.path().join("cert.pem"), key: dir.path().join("key.pem") };
        let make = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (old, new) = (make(), make());
        std::fs::write(&files.certificate, old.cert.pem()).unwrap();
        std::fs::write(&files.key, old.signing_key.serialize_pem()).unwrap();
        let certificates = Certificates::read(&files).unwrap();
        let used = || Arc::as_ptr(certificates.acceptor().config());
        let first = used();
        assert!(!certificates.reload().unwrap());
        // A tool that renews writes one file after the other.
        std::fs::write(&files.certificate, new.cert.pem()).unwrap();
        assert!(matches!(certificates.reload(), Err(ServerError::Tls(_))));
        std::fs::write(&files.key, "half a ke").unwrap();
        let error = certificates.reload().unwrap_err().to_string();
        assert!(error.contains("private key") && error.contains("key.pem"), "{error}");
        std::fs::remove_file(&files.key).unwrap();
        assert!(certificates.reload().is_err() && used() == first);
        std::fs::write(&files.key, new.signing_key.serialize_pem()).unwrap();
        assert!(certificates.reload().unwrap());
        assert_ne!(used(), first);
        assert!(!certificates.reload().unwrap());
    }
}
