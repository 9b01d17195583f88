//! What a TLS handshake failed for, in words that lead to the flag that mends it.

use std::error::Error;

use rustls::{AlertDescription, CertificateError};

/// Why there is no TLS with a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsTrouble {
    /// What answers does not speak TLS: most often plain HTTP.
    NoTls,
    /// The server's certificate was not signed by an authority that we trust.
    UnknownAuthority,
    /// The server's certificate is for another name.
    WrongName,
    /// The server's certificate is no longer, or not yet, valid.
    NotValidNow,
    /// The server wants a certificate of ours, and got none that it accepts.
    ClientCertificate,
    /// Anything else.
    Other,
}

impl TlsTrouble {
    /// Looks for a TLS error in `error` and its causes; `None` where there is none.
    pub(crate) fn find(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(tls) = error.downcast_ref::<rustls::Error>() {
                return Some(Self::of(tls));
            }
            // An I/O error hands out the causes of what it wraps, not what it wraps.
            let wrapped = error
                .downcast_ref::<std::io::Error>()
                .and_then(std::io::Error::get_ref);
            next = match wrapped {
                Some(inner) => Some(inner as &(dyn Error + 'static)),
                None => error.source(),
            };
        }
        None
    }

    fn of(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidMessage(_) => Self::NoTls,
            rustls::Error::InvalidCertificate(reason) => match reason {
                CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                    Self::UnknownAuthority
                }
                CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. } => Self::WrongName,
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. } => Self::NotValidNow,
                _ => Self::Other,
            },
            rustls::Error::AlertReceived(
                AlertDescription::CertificateRequired
                | AlertDescription::BadCertificate
                | AlertDescription::UnknownCA
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateUnknown
                | AlertDescription::CertificateExpired
                | AlertDescription::AccessDenied,
            ) => Self::ClientCertificate,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trouble_is_found_below_what_wraps_it() {
        let tls = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let wrapped = std::io::Error::other(std::io::Error::other(tls));
        assert_eq!(
            TlsTrouble::find(&wrapped),
            Some(TlsTrouble::UnknownAuthority)
        );
        let alert = rustls::Error::AlertReceived(AlertDescription::CertificateRequired);
        assert_eq!(
            TlsTrouble::find(&std::io::Error::other(alert)),
            Some(TlsTrouble::ClientCertificate)
        );
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert_eq!(TlsTrouble::find(&refused), None);
    }
}
