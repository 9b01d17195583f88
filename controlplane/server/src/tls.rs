//! The TLS side of the HTTP API.

use std::sync::Arc;

use anyhow::Context as _;
use protocol_transport::Identity;
use protocol_transport::tls::{ClientCertificate, https_server};

use crate::config::HttpTls;

/// How the HTTP API is served; `None` = plain.
pub(crate) fn https(
    tls: HttpTls,
    identity: &Identity,
) -> anyhow::Result<Option<Arc<rustls::ServerConfig>>> {
    let clients = match tls {
        HttpTls::Off => return Ok(None),
        HttpTls::On => ClientCertificate::Unasked,
        HttpTls::Mutual => ClientCertificate::Required,
    };
    https_server(identity, clients)
        .map(Some)
        .context("cannot serve HTTPS")
}
