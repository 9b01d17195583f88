//! TLS configurations. Each names its crypto provider: a process-wide default may be set by any
//! library, and the wrong one must not be picked up by accident.

use std::sync::Arc;

use quinn::crypto::rustls::QuicServerConfig;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ServerSessionMemoryCache, WebPkiClientVerifier};
use rustls_pki_types::CertificateDer;

use crate::identity::Identity;

/// The application protocol of our QUIC connections. A breaking change of the wire gets a new
/// number, and servers offer both while clusters are upgraded.
pub const ALPN: &[u8] = b"drover/1";

/// What an HTTPS server asks of its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCertificate {
    /// Clients authenticate by token alone.
    Unasked,
    /// Every client must present a certificate of our authority.
    Required,
}

/// Tickets that a client gets with each handshake. It uses one up with every attempt, also with
/// those that come to nothing while its way is cut.
const TICKETS: usize = 4;
/// Tickets that are good, about 1 KiB each: of thousands of nodes those for a session, for calls
/// and for what stands by. The oldest goes, and costs its client a whole handshake.
const SESSIONS_MAX: usize = 32 * 1024;

/// Why a TLS configuration cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("trusting the authority's certificate")]
    Root(#[source] rustls::Error),
    #[error("building the verifier of peers")]
    Verifier(#[source] rustls::server::VerifierBuilderError),
    #[error("using our certificate and key")]
    Certificate(#[source] rustls::Error),
    #[error("choosing protocol versions")]
    Versions(#[source] rustls::Error),
    #[error("the crypto provider lacks the cipher suite of QUIC's initial packets")]
    Quic(#[source] quinn::crypto::rustls::NoInitialCipherSuite),
}

/// The one crypto provider of the tree.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// The TLS half of a QUIC server: TLS 1.3, client certificates required.
///
/// # Errors
/// When the identity's certificate, key or authority cannot be used.
pub fn quic_server(identity: &Identity) -> Result<QuicServerConfig, TlsError> {
    let mut config = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(TlsError::Versions)?
        .with_client_cert_verifier(client_verifier(&identity.roots)?)
        .with_single_cert(identity.chain.clone(), identity.key.clone_key())
        .map_err(TlsError::Certificate)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    // A client may say something with its first packet where we have seen it before. Sessions that
    // are kept here are taken out by the first who shows their ticket, so that nobody says it
    // again; who reads it knows that the client itself may not have sent it just now
    // (`Peer::handshake`).
    config.max_early_data_size = u32::MAX;
    config.session_storage = ServerSessionMemoryCache::new(SESSIONS_MAX);
    config.send_tls13_tickets = TICKETS;
    config.try_into().map_err(TlsError::Quic)
}

/// The TLS half of a QUIC client: TLS 1.3, our certificate presented. The name given to `connect`
/// must be the server's role name, which is how the role is verified.
///
/// # Errors
/// When the identity's certificate, key or authority cannot be used.
pub fn quic_client(identity: &Identity) -> Result<rustls::ClientConfig, TlsError> {
    let verifier = WebPkiServerVerifier::builder_with_provider(roots(&identity.roots)?, provider())
        .build()
        .map_err(TlsError::Verifier)?;
    let mut config = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(TlsError::Versions)?
        .with_webpki_verifier(verifier)
        .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())
        .map_err(TlsError::Certificate)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}

/// The TLS half of the HTTP API: TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1.
///
/// # Errors
/// When the identity's certificate, key or authority cannot be used.
pub fn https_server(
    identity: &Identity,
    clients: ClientCertificate,
) -> Result<Arc<rustls::ServerConfig>, TlsError> {
    let builder = rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Versions)?;
    let builder = match clients {
        ClientCertificate::Unasked => builder.with_no_client_auth(),
        ClientCertificate::Required => {
            builder.with_client_cert_verifier(client_verifier(&identity.roots)?)
        }
    };
    let mut config = builder
        .with_single_cert(identity.chain.clone(), identity.key.clone_key())
        .map_err(TlsError::Certificate)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The TLS half of an HTTP client that trusts `authorities` alone (DER), presenting `own` when
/// given. The name verified is the one in the URL.
///
/// # Errors
/// When a certificate or key cannot be used.
pub fn https_client(
    authorities: &[CertificateDer<'static>],
    own: Option<&Identity>,
) -> Result<Arc<rustls::ClientConfig>, TlsError> {
    let builder = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Versions)?
        .with_root_certificates(roots(authorities)?);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => builder
            .with_client_auth_cert(own.chain.clone(), own.key.clone_key())
            .map_err(TlsError::Certificate)?,
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn roots(authorities: &[CertificateDer<'static>]) -> Result<Arc<RootCertStore>, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in authorities {
        store.add(certificate.clone()).map_err(TlsError::Root)?;
    }
    Ok(Arc::new(store))
}

pub(crate) fn client_verifier(
    authorities: &[CertificateDer<'static>],
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    WebPkiClientVerifier::builder_with_provider(roots(authorities)?, provider())
        .build()
        .map_err(TlsError::Verifier)
}
