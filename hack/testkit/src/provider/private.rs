//! TLS with a certificate of an authority of its own.

use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A certificate of 127.0.0.1. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct PrivateTls {
    config: Arc<ServerConfig>,
    authority: String,
}

impl PrivateTls {
    pub(super) fn new() -> Self {
        let key = || KeyPair::generate().expect("a key pair");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = key();
        let authority = params.self_signed(&authority_key).expect("an authority");
        let issuer = Issuer::new(params, authority_key);
        let mut own = CertificateParams::default();
        own.subject_alt_names = vec![SanType::IpAddress(Ipv4Addr::LOCALHOST.into())];
        let own_key = key();
        let certificate = own.signed_by(&own_key, &issuer).expect("a certificate");
        let own_key = PrivateKeyDer::try_from(own_key.serialize_der()).expect("a key");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], own_key)
            .expect("a certificate with its key");
        Self {
            config: Arc::new(config),
            authority: authority.pem(),
        }
    }

    /// The certificate of the authority, PEM.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// A connection; the handshake happens with its first bytes.
    pub(super) fn over(&self, stream: TcpStream) -> StreamOwned<ServerConnection, TcpStream> {
        let connection = ServerConnection::new(Arc::clone(&self.config)).expect("a connection");
        StreamOwned::new(connection, stream)
    }
}
