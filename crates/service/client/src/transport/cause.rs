//! Why a service could not be reached, found in the chain of causes of a failed request.

use std::error::Error;
use std::io;
use std::time::Duration;

use dns_lookup::{LookupError, LookupErrorKind};
use rustls::CertificateError;
use rustls::pki_types::InvalidDnsNameError;

/// Why a service could not be reached, or why a connection to it was lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnreachableCause {
    /// No process listens at the port.
    #[error("connection refused, nothing listens at this port")]
    Refused,
    /// No host has the name.
    #[error("no host has this name")]
    UnknownHost,
    /// The name servers did not answer.
    #[error("cannot look up the name of the host: {0}")]
    Lookup(String),
    /// The port accepts no connection.
    #[error("no connection: {0}")]
    NoConnection(String),
    /// The certificate of the service cannot be trusted.
    #[error("the certificate of the service {0}")]
    Certificate(&'static str),
    /// The port answers a TLS handshake with other bytes.
    #[error("the port speaks http, not https")]
    NotHttps,
    /// TLS failed for another reason.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// The port answers an HTTP request with other bytes, for instance with TLS.
    #[error("the port does not speak http")]
    NotHttp,
    /// The connection was lost before the whole answer had arrived.
    #[error("connection lost: {0}")]
    Lost(String),
    /// No answer to a part of an upload.
    #[error("no answer within {0:?}")]
    Silent(Duration),
}

impl UnreachableCause {
    /// Whether trying again cannot help.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::UnknownHost | Self::Certificate(_) | Self::NotHttps | Self::Tls(_) | Self::NotHttp => true,
            Self::Refused | Self::Lookup(_) | Self::NoConnection(_) | Self::Lost(_) | Self::Silent(_) => false,
        }
    }

    /// Whether no connection was made.
    pub(super) fn is_before_connection(&self) -> bool {
        !matches!(self, Self::Lost(_) | Self::Silent(_))
    }

    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Refused => "start the service there, or give its address with --url",
            Self::UnknownHost => "check the spelling of the address",
            Self::Lookup(_) | Self::NoConnection(_) => "check the address, the network and any firewall",
            Self::Certificate(_) => {
                "trust the authority that signed it with --ca FILE (ca_file= in Python), or give the address that the \
                 certificate names"
            }
            Self::NotHttps => "write http:// in the address, or serve with --tls-certificate and --tls-key",
            Self::Tls(_) => "check the address and the TLS settings of the service",
            Self::NotHttp => "write https:// in the address if the service uses TLS, otherwise check the port",
            Self::Lost(_) | Self::Silent(_) => "check that the service runs",
        }
    }

    /// The cause of a failed request.
    pub(super) fn of(error: &reqwest::Error) -> Self {
        let causes = causes(error);
        if let Some(known) = causes.iter().find_map(|&cause| known(cause)) {
            return known;
        }
        let innermost = causes.last().map_or_else(String::new, ToString::to_string);
        match error.is_connect() {
            true if error.is_timeout() => Self::NoConnection("no reply in time".into()),
            true => Self::NoConnection(innermost),
            false => Self::Lost(innermost),
        }
    }
}

/// The error, its cause, the cause of its cause, and so on.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> Vec<&'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| cause_of(error)).collect()
}

fn cause_of<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>() {
        // `source` of such an error passes over the error in it.
        Some(error) => error.get_ref().map(|inner| inner as _),
        None => error.source(),
    }
}

fn known(cause: &(dyn Error + 'static)) -> Option<UnreachableCause> {
    if let Some(error) = cause.downcast_ref::<rustls::Error>() {
        return Some(of_tls(error));
    }
    if let Some(error) = cause.downcast_ref::<LookupError>() {
        return Some(of_lookup(error));
    }
    if cause.is::<InvalidDnsNameError>() {
        return Some(UnreachableCause::UnknownHost);
    }
    if let Some(error) = cause.downcast_ref::<io::Error>() {
        return (error.kind() == io::ErrorKind::ConnectionRefused).then_some(UnreachableCause::Refused);
    }
    cause.downcast_ref::<hyper::Error>().filter(|error| error.is_parse()).map(|_| UnreachableCause::NotHttp)
}

fn of_lookup(error: &LookupError) -> UnreachableCause {
    match error.kind() {
        LookupErrorKind::NoName | LookupErrorKind::NoData => UnreachableCause::UnknownHost,
        _ => UnreachableCause::Lookup(io::Error::from(LookupError::new(error.error_num())).to_string()),
    }
}

fn of_tls(error: &rustls::Error) -> UnreachableCause {
    use CertificateError::*;
    let rustls::Error::InvalidCertificate(reason) = error else {
        return match error {
            rustls::Error::InvalidMessage(_) => UnreachableCause::NotHttps,
            other => UnreachableCause::Tls(other.to_string()),
        };
    };
    UnreachableCause::Certificate(match reason {
        UnknownIssuer => "is signed by an unknown authority",
        Expired | ExpiredContext { .. } => "has expired",
        NotValidYet | NotValidYetContext { .. } => "is not valid yet",
        NotValidForName | NotValidForNameContext { .. } => "is for another host name",
        Revoked => "was revoked by its authority",
        _ => "is not valid",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_inside_of_io_errors_are_found() {
        let certificate = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let wrapped = io::Error::other(io::Error::other(certificate));
        let found = causes(&wrapped).iter().find_map(|&cause| known(cause));
        assert_eq!(found, Some(UnreachableCause::Certificate("is signed by an unknown authority")));
        let refused = io::Error::other(io::Error::from(io::ErrorKind::ConnectionRefused));
        let found = causes(&refused).iter().find_map(|&cause| known(cause));
        assert_eq!(found, Some(UnreachableCause::Refused));
        assert!(causes(&io::Error::other("text")).iter().all(|&cause| known(cause).is_none()));
    }
}
