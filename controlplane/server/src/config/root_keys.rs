//! The life of root keys, and the issuer of the identities that they sign.

use std::time::Duration;

use protocol_access::method::OutgoingUrl;

use super::build::{time, value};
use super::file::ConfigFile;
use super::{ConfigError, RootKeyConfig};

/// The shortest life of a root key: each costs an entry of the log and 100 ms of a processor, and
/// stays for as long as it is used.
const ROTATION_MIN: Duration = Duration::from_secs(10);
/// The shortest time between two looks at the root keys.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// The times of root keys.
///
/// # Errors
/// Where one is no duration, or too short.
pub(super) fn times(file: &ConfigFile) -> Result<RootKeyConfig, ConfigError> {
    const MINUTE: Duration = Duration::from_secs(60);
    let server = &file.server;
    let rotation = server.root_key_rotation_threshold.as_deref();
    let interval = server.root_key_gc_interval.as_deref();
    let threshold = server.root_key_gc_threshold.as_deref();
    Ok(RootKeyConfig {
        rotation_threshold: not_below(
            ROTATION_MIN,
            "server.root_key_rotation_threshold",
            rotation,
            720 * 60 * MINUTE,
        )?,
        gc_interval: not_below(
            INTERVAL_MIN,
            "server.root_key_gc_interval",
            interval,
            10 * MINUTE,
        )?,
        gc_threshold: time("server.root_key_gc_threshold", threshold, 60 * MINUTE)?,
    })
}

fn not_below(
    least: Duration,
    key: &'static str,
    text: Option<&str>,
    default: Duration,
) -> Result<Duration, ConfigError> {
    match time(key, text, default)? {
        given if given >= least => Ok(given),
        given => Err(value(key, format!("{given:?} is less than {least:?}"))),
    }
}

/// The issuer: relying parties find the keys below it.
///
/// # Errors
/// Where it is no URL that they would take.
pub(super) fn issuer(file: &ConfigFile) -> Result<Option<String>, ConfigError> {
    const KEY: &str = "server.oidc_issuer";
    let Some(given) = &file.server.oidc_issuer else {
        return Ok(None);
    };
    OutgoingUrl::parse(given).map_err(|error| value(KEY, error.to_string()))?;
    if given.contains(['?', '#']) {
        let message = format!("{given:?} has a query or a fragment: name the issuer without");
        return Err(value(KEY, message));
    }
    Ok(Some(given.trim_end_matches('/').to_owned()))
}
