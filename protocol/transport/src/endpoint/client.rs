//! What connections that we begin show and expect, and what each server gave us to come back with.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use quinn::TransportConfig;
use quinn::crypto::rustls::QuicClientConfig;
use rustls::client::Resumption;

/// Servers whose tickets are kept: more than a cluster ever had names. Beyond, one is forgotten,
/// and costs its next connection a whole handshake.
const SERVERS_MAX: usize = 64;

/// Tickets of one server, each good for one connection (RFC 8446 section 2.3): as many as the
/// library keeps. An attempt that comes to nothing has used one up; who has none left pays the
/// round trip of a whole handshake.
const TICKETS_MAX: usize = 8;

/// See the top of this file.
#[derive(Debug)]
pub(super) struct Client {
    tls: rustls::ClientConfig,
    transport: Arc<TransportConfig>,
    /// Without a memory of any server.
    plain: quinn::ClientConfig,
    servers: BTreeMap<SocketAddr, quinn::ClientConfig>,
}

impl Client {
    /// For connections that show what `tls` says; no server is known yet.
    pub(super) fn new(
        tls: rustls::ClientConfig,
        transport: Arc<TransportConfig>,
    ) -> Result<Self, quinn::crypto::rustls::NoInitialCipherSuite> {
        let plain = over(tls.clone(), &transport)?;
        Ok(Self {
            tls,
            transport,
            plain,
            servers: BTreeMap::new(),
        })
    }

    /// The same, by somebody whom no server knows.
    pub(super) fn stranger(&self) -> Self {
        Self {
            tls: self.tls.clone(),
            transport: Arc::clone(&self.transport),
            plain: self.plain.clone(),
            servers: BTreeMap::new(),
        }
    }

    /// For a connection to the server at `address`. All servers have one name, so that the memory
    /// of each is by address: none knows the tickets of another.
    pub(super) fn to(&mut self, address: SocketAddr) -> quinn::ClientConfig {
        if let Some(known) = self.servers.get(&address) {
            return known.clone();
        }
        let mut tls = self.tls.clone();
        tls.resumption = Resumption::in_memory_sessions(TICKETS_MAX);
        tls.enable_early_data = true;
        let Ok(config) = over(tls, &self.transport) else {
            return self.plain.clone();
        };
        if self.servers.len() >= SERVERS_MAX {
            self.servers.pop_first();
        }
        self.servers.insert(address, config.clone());
        config
    }
}

fn over(
    tls: rustls::ClientConfig,
    transport: &Arc<TransportConfig>,
) -> Result<quinn::ClientConfig, quinn::crypto::rustls::NoInitialCipherSuite> {
    let tls = QuicClientConfig::try_from(tls)?;
    let mut config = quinn::ClientConfig::new(Arc::new(tls));
    config.transport_config(Arc::clone(transport));
    Ok(config)
}
