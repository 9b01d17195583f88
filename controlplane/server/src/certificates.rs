//! What this server shows to others: refused at start where nobody would accept it, and watched,
//! since the day on which it ends is the day on which everybody hangs up.

use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use protocol_transport::{Identity, Role};

use crate::config::{Config, TlsConfig};
use crate::dev;

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

/// Warns every day from a month before the end of the certificate or its authority's.
pub(crate) async fn watch_end(identity: Identity) {
    loop {
        if let Some(left) = left(&identity, SystemTime::now()) {
            let days = left.as_secs() / LOOK_EVERY.as_secs();
            tracing::warn!(
                days,
                "this server's certificate, or its authority's, ends soon: make another one with \
                 `drover tls` and restart this server"
            );
        }
        tokio::time::sleep(LOOK_EVERY).await;
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
