//! What this server shows to others: refused at start where nobody would accept it, replaced while
//! it serves, and watched, since the day on which it ends is the day on which everybody hangs up.
//!
//! ```text
//! SIGHUP --> load --> Certificates::replace --+--> QUIC: connections from now on
//!                                             +--> HTTPS: connections from now on
//!                                             `--> watch_end
//! ```

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use protocol_transport::{Endpoint, Identity, Role};
use tokio::sync::watch;

use crate::config::{Config, HttpTls, TlsConfig};
use crate::{dev, tls};

/// How long before its end a certificate is warned of: time for an operator who is away.
const WARNED_BEFORE: Duration = Duration::from_secs(30 * 24 * 3600);
/// How often the end is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(24 * 3600);

/// Reads the certificates; with `--dev`, makes them first.
///
/// # Errors
/// When they cannot be read, or no peer would accept them.
pub fn load(config: &Config) -> anyhow::Result<Identity> {
    let TlsConfig::Files { ca, cert, key } = &config.tls else {
        let made = dev::certificates(&config.data_dir, &config.region)?;
        return Identity::load(&made.ca, &made.server.certificate, &made.server.key)
            .context("cannot use the development certificates");
    };
    let identity = Identity::load(ca, cert, key).context("cannot use the certificates")?;
    identity
        .check(Role::Server, &config.region, SystemTime::now())
        .with_context(|| format!("cannot use the certificate {}", cert.display()))?;
    Ok(identity)
}

/// How a new connection to the HTTP API is served; `None` = plain.
pub(crate) type Https = Option<Arc<rustls::ServerConfig>>;

/// The certificates of a running server. Clones share them.
#[derive(Clone, Debug)]
pub struct Certificates {
    endpoint: Endpoint,
    http: HttpTls,
    identity: watch::Sender<Identity>,
    https: watch::Sender<Https>,
}

impl Certificates {
    /// Those that `endpoint` shows already.
    ///
    /// # Errors
    /// When HTTPS cannot be served with them.
    pub(crate) fn new(
        endpoint: Endpoint,
        http: HttpTls,
        identity: Identity,
    ) -> anyhow::Result<Self> {
        let https = tls::https(http, &identity)?;
        Ok(Self {
            endpoint,
            http,
            identity: watch::Sender::new(identity),
            https: watch::Sender::new(https),
        })
    }

    /// Shows others from the next connection on; connections that stand go on with what they have.
    ///
    /// # Errors
    /// When these are another role's or region's, or cannot be used. Those in use stay then.
    pub fn replace(&self, identity: Identity) -> anyhow::Result<()> {
        let https = tls::https(self.http, &identity)?;
        self.endpoint.use_identity(&identity)?;
        self.https.send_replace(https);
        self.identity.send_replace(identity);
        Ok(())
    }

    /// What QUIC shows, as it changes.
    pub(crate) fn identity(&self) -> watch::Receiver<Identity> {
        self.identity.subscribe()
    }

    /// How HTTP is served, as it changes.
    pub(crate) fn https(&self) -> watch::Receiver<Https> {
        self.https.subscribe()
    }
}

/// Warns every day from a month before the end of the certificate or its authority's, and whenever
/// one that ends as soon is shown.
pub(crate) async fn watch_end(mut identity: watch::Receiver<Identity>) {
    loop {
        let left = left(&identity.borrow_and_update(), SystemTime::now());
        if let Some(left) = left {
            let days = left.as_secs() / LOOK_EVERY.as_secs();
            tracing::warn!(
                days,
                "this server's certificate, or its authority's, ends soon: make another one with \
                 `drover tls` and send this server SIGHUP"
            );
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            Ok(()) = identity.changed() => {}
        }
    }
}

/// How long a certificate is valid yet, where that is worth a warning.
fn left(identity: &Identity, now: SystemTime) -> Option<Duration> {
    let (_, until) = identity.validity().ok()?;
    let now = now.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(until.saturating_sub(now)).filter(|left| *left < WARNED_BEFORE)
}

#[cfg(test)]
mod tests {
    use protocol_transport::Region;
    use protocol_transport::ca::{CertificateAuthority, CertificateRequest};

    use super::*;

    #[test]
    fn an_end_is_warned_of_a_month_ahead() {
        const DAY: Duration = LOOK_EVERY;
        let authority = CertificateAuthority::create("test", 90 * DAY).expect("an authority");
        let request = CertificateRequest {
            role: Role::Server,
            region: Region::global(),
            common_name: "server".to_owned(),
            names: Vec::new(),
            addresses: Vec::new(),
            validity: 60 * DAY,
        };
        let issued = authority.issue(&request).expect("issues");
        let identity = Identity::from_pem(&authority.pem().certificate, &issued);
        let identity = identity.expect("an identity");
        let now = SystemTime::now();
        assert_eq!(left(&identity, now), None);
        let late = left(&identity, now + 31 * DAY).expect("it is warned of");
        assert!(late > 28 * DAY && late < 29 * DAY, "{late:?}");
        assert_eq!(left(&identity, now + 61 * DAY), Some(Duration::ZERO));
    }
}
