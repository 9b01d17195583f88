//! Stateless resets: how peers of a process that crashed learn it from the one after it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use quinn::{ConnectionId, ConnectionIdGenerator};

use crate::identity::Identity;

/// An endpoint that, after a crash and a restart at the same address, can tell the peers of the
/// process before it that their connections are gone (a stateless reset, RFC 9000, section 10.3).
/// Without it they would write into them until their calls run out of time.
///
/// The key comes from the private key, so that it survives a restart, and from the address: servers
/// that share a certificate must not be made to reset each other's connections (section 21.11
/// there). Servers on several hosts that listen on an unspecified address need certificates of
/// their own for the same reason.
pub(super) fn remembering(identity: &Identity, listen: SocketAddr) -> quinn::EndpointConfig {
    let secret = hmac::Key::new(hmac::HMAC_SHA256, identity.key.secret_der());
    let purpose = format!("drover quic stateless reset {listen}");
    let reset = hmac::sign(&secret, purpose.as_bytes());
    let reset = hmac::Key::new(hmac::HMAC_SHA256, reset.as_ref());
    let mut config = quinn::EndpointConfig::new(Arc::new(reset));
    config.cid_generator(|| Box::new(RandomIds));
    config
}

/// Connection ids without a mark of the process that made them. The library's own generator marks
/// them with a key of the process, and drops packets of the process before it without a reset.
#[derive(Debug)]
struct RandomIds;

const CONNECTION_ID_BYTES: usize = 8;

impl ConnectionIdGenerator for RandomIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut bytes = [0; CONNECTION_ID_BYTES];
        // It fails only where the kernel has no randomness, and then there was no TLS either; an id
        // that is taken is not used.
        let _ = aws_lc_rs::rand::fill(&mut bytes);
        ConnectionId::new(&bytes)
    }

    fn cid_len(&self) -> usize {
        CONNECTION_ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}
