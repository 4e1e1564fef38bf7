//! Certificate authorities to trust besides the system's.

use reqwest::Certificate;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// The certificates of a PEM file, or the one of a DER file.
///
/// # Errors
/// A text that says what was found and what was needed.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<Certificate>, String> {
    let needed = "needed certificates in PEM, or one in DER";
    let of_error = |found: String| format!("certificate authorities (--ca, ca_file=): {found}; {needed}");
    if bytes.trim_ascii().is_empty() {
        return Err(of_error("found an empty file".into()));
    }
    let in_pem = CertificateDer::pem_slice_iter(bytes).collect::<Result<Vec<_>, _>>();
    let in_pem = in_pem.map_err(|error| of_error(format!("found damaged PEM ({error})")))?;
    let found = if in_pem.is_empty() { vec![CertificateDer::from(bytes)] } else { in_pem };
    let mut store = RootCertStore::empty();
    let checked = found.into_iter().map(|certificate| {
        let der = certificate.to_vec();
        store.add(certificate).map_err(|error| of_error(format!("found no certificate ({error})")))?;
        Certificate::from_der(&der).map_err(|error| of_error(error.to_string()))
    });
    checked.collect()
}
