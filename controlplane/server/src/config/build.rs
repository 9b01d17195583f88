//! From a file as written to what the server is built from: defaults, and what is refused.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};
use protocol_access::method::TokenLifetimes;
use protocol_model::duration;
use protocol_transport::{Region, Secret};

use super::file::ConfigFile;
use super::{
    Config, ConfigError, GcConfig, HttpConfig, HttpTls, LOG_LEVELS, Labels, Limits, LogConfig,
    Merging, TelemetryConfig, TlsConfig,
};
use super::{addresses, budgets, keks, root_keys, times};

/// More scheduler threads than any host has use for.
const SCHEDULERS_MAX: usize = 64;

/// Whether a server can do without certificate files.
#[derive(Clone, Copy)]
pub(super) enum TlsNeed {
    Required,
    Optional,
}

impl Config {
    /// Checks and completes a file.
    ///
    /// # Errors
    /// When a value is missing or makes no sense.
    pub fn build(file: &ConfigFile) -> Result<Self, ConfigError> {
        Self::build_with(file, TlsNeed::Required)
    }

    pub(super) fn build_with(file: &ConfigFile, need: TlsNeed) -> Result<Self, ConfigError> {
        let region = Region::parse(file.region.as_deref().unwrap_or("global"))
            .map_err(|error| value("region", error.to_string()))?;
        let data_dir = file.data_dir.clone().ok_or_else(|| {
            value(
                "data_dir",
                "missing: name the directory that holds this server's state",
            )
        })?;
        let quic_ip = ip("bind_addr", file.bind_addr.as_deref())?;
        let tls = match (&file.tls, need) {
            (Some(tls), _) => TlsConfig::Files {
                ca: tls.ca_file.clone(),
                cert: tls.cert_file.clone(),
                key: tls.key_file.clone(),
            },
            (None, TlsNeed::Optional) => TlsConfig::Dev,
            (None, TlsNeed::Required) => {
                let hint = "missing: make certificates with `drover tls ca create` and \
                            `drover tls cert create -server`, and name them here";
                return Err(value("tls", hint));
            }
        };
        let expect = bootstrap_expect(file)?;
        let (liveness, raft) = times::of(file)?;
        let (kek_sources, wrapping_kek) = keks::sources(file)?;
        Ok(Self {
            name: file.name.clone().unwrap_or_else(host_name),
            region,
            datacenter: file.datacenter.clone().unwrap_or_else(|| "dc1".to_owned()),
            kek_dir: keks::directory(file, &data_dir)?,
            kek_sources,
            wrapping_kek,
            data_dir,
            own_node: None,
            quic_listen: SocketAddr::new(quic_ip, file.ports.quic.unwrap_or(4647)),
            quic_advertise: addresses::advertised("advertise.quic", file.advertise.quic.as_ref())?,
            http: http(file)?,
            tls,
            retry_join: addresses::servers(&file.server.retry_join)?,
            bootstrap_expect: expect,
            node_join_token: join_token(file)?,
            acl_enabled: file.acl.enabled,
            token_lifetimes: token_lifetimes(file)?,
            acl_stale_max: acl_stale_max(file)?,
            schedulers: schedulers(file)?,
            merging: match file.server.merge_updates {
                None | Some(true) => Merging::On,
                Some(false) => Merging::Off,
            },
            liveness,
            raft,
            gc: gc(file)?,
            root_keys: root_keys::times(file)?,
            oidc_issuer: root_keys::issuer(file)?,
            limits: limits(file)?,
            telemetry: telemetry(file),
            log: log(file)?,
        })
    }
}

/// The servers that form the cluster; 0: this one joins an existing one.
fn bootstrap_expect(file: &ConfigFile) -> Result<u32, ConfigError> {
    // A server that names others and no number joins them: their cluster exists.
    let joins = file.server.bootstrap_expect.is_none() && !file.server.retry_join.is_empty();
    let expect = file
        .server
        .bootstrap_expect
        .unwrap_or(if joins { 0 } else { 1 });
    if !joins && !matches!(expect, 1 | 3 | 5) {
        return Err(value("server.bootstrap_expect", "expected 1, 3 or 5"));
    }
    if expect == 1 && !file.server.retry_join.is_empty() {
        let message = "1 forms a cluster alone, but others are named in retry_join: leave \
                       bootstrap_expect out to join them";
        return Err(value("server.bootstrap_expect", message));
    }
    if expect > 1 && file.server.retry_join.is_empty() {
        let message = "missing: name the other servers, or bootstrap_expect is never reached";
        return Err(value("server.retry_join", message));
    }
    Ok(expect)
}

/// A filter takes any other word for the name of a module, and would show nothing at all.
fn log(file: &ConfigFile) -> Result<LogConfig, ConfigError> {
    let text = file.log_level.as_deref().unwrap_or("info");
    let level = LOG_LEVELS
        .into_iter()
        .find(|level| level.as_str().eq_ignore_ascii_case(text))
        .ok_or_else(|| {
            let message = format!("{text:?} is none of trace, debug, info, warn and error");
            value("log_level", message)
        })?;
    Ok(LogConfig {
        level,
        json: file.log_json.unwrap_or(false),
    })
}

fn schedulers(file: &ConfigFile) -> Result<usize, ConfigError> {
    match file.server.num_schedulers {
        None => Ok(cores().clamp(1, SCHEDULERS_MAX)),
        Some(given @ 1..=SCHEDULERS_MAX) => Ok(given),
        Some(other) => {
            let message = format!("{other} is not between 1 and {SCHEDULERS_MAX}");
            Err(value("server.num_schedulers", message))
        }
    }
}

fn limits(file: &ConfigFile) -> Result<Limits, ConfigError> {
    let given = &file.limits;
    Ok(Limits {
        http_connections: at_least("limits.http_max_conns", given.http_max_conns, 1, 4096)?,
        http_connections_per_client: at_least(
            "limits.http_max_conns_per_client",
            given.http_max_conns_per_client,
            1,
            256,
        )?,
        body_bytes: at_least("limits.job_max_bytes", given.job_max_bytes, 1024, 8 << 20)?,
        sessions: at_least("limits.sessions_max", given.sessions_max, 1, 20_000)?,
        budgets: budgets::limits(&given.budget)?,
    })
}

fn telemetry(file: &ConfigFile) -> TelemetryConfig {
    TelemetryConfig {
        labels: match file.telemetry.disable_rpc_rate_metrics_labels {
            true => Labels::Off,
            false => Labels::ByIdentity,
        },
        metrics_require_token: file.telemetry.metrics_require_token,
    }
}

/// A number, `usual` unless given. One below `least` is refused, not raised: the file would say one
/// thing and the server do another.
pub(super) fn at_least<N: Copy + PartialOrd + std::fmt::Display>(
    key: &'static str,
    given: Option<N>,
    least: N,
    usual: N,
) -> Result<N, ConfigError> {
    match given {
        None => Ok(usual),
        Some(given) if given >= least => Ok(given),
        Some(given) => Err(value(key, format!("{given} is less than {least}"))),
    }
}

/// Headers for every answer. One that no answer can carry is refused.
fn response_headers(file: &ConfigFile) -> Result<Vec<(String, String)>, ConfigError> {
    let given = &file.http.response_headers;
    for (name, content) in given {
        let is_header = HeaderName::try_from(name.as_str()).is_ok()
            && HeaderValue::try_from(content.as_str()).is_ok();
        if !is_header {
            let message = format!("{name:?} = {content:?} is no HTTP header");
            return Err(value("http.response_headers", message));
        }
    }
    Ok(given.clone().into_iter().collect())
}

fn http(file: &ConfigFile) -> Result<HttpConfig, ConfigError> {
    let address = ip("http.bind_addr", file.http.bind_addr.as_deref())?;
    if file
        .tls
        .as_ref()
        .is_some_and(|tls| tls.verify_https_client && !tls.http)
    {
        let message = "the API is served without TLS, so that clients show no certificate: set \
                       `tls { http = true }`, or leave this out";
        return Err(value("tls.verify_https_client", message));
    }
    let tls = match &file.tls {
        Some(tls) if tls.http && tls.verify_https_client => HttpTls::Mutual,
        Some(tls) if tls.http => HttpTls::On,
        _ => HttpTls::Off,
    };
    // Whoever reaches the API may run anything as root on every node: another address than loopback
    // is served only encrypted and to those who hold a token.
    if !address.is_loopback() && (tls == HttpTls::Off || !file.acl.enabled) {
        let message = format!(
            "{address} is not a loopback address: set `tls {{ http = true }}` and \
             `acl {{ enabled = true }}`, then make the first token with `drover acl bootstrap`"
        );
        return Err(value("http.bind_addr", message));
    }
    Ok(HttpConfig {
        listen: SocketAddr::new(address, file.ports.http.unwrap_or(4646)),
        advertise: addresses::advertised("advertise.http", file.advertise.http.as_ref())?,
        tls,
        response_headers: response_headers(file)?,
        allowed_hosts: file.http.allowed_hosts.clone(),
    })
}

fn acl_stale_max(file: &ConfigFile) -> Result<Duration, ConfigError> {
    const DEFAULT: Duration = Duration::from_secs(600);
    time("acl.stale_max", file.acl.stale_max.as_deref(), DEFAULT)
}

fn token_lifetimes(file: &ConfigFile) -> Result<TokenLifetimes, ConfigError> {
    const MIN_DEFAULT: Duration = Duration::from_secs(60);
    const MAX_DEFAULT: Duration = Duration::from_secs(24 * 3600);
    let acl = &file.acl;
    let min_key = "acl.token_min_expiration_ttl";
    let max_key = "acl.token_max_expiration_ttl";
    let min = time(
        min_key,
        acl.token_min_expiration_ttl.as_deref(),
        MIN_DEFAULT,
    )?;
    let max = time(
        max_key,
        acl.token_max_expiration_ttl.as_deref(),
        MAX_DEFAULT,
    )?;
    if max < min {
        let min = duration::format_go(min);
        let message = format!("below {min_key}, which is {min}: no token could be made");
        return Err(value(max_key, message));
    }
    Ok(TokenLifetimes { min, max })
}

fn gc(file: &ConfigFile) -> Result<GcConfig, ConfigError> {
    const HOUR: Duration = Duration::from_secs(3600);
    let server = &file.server;
    Ok(GcConfig {
        evals: time(
            "server.eval_gc_threshold",
            server.eval_gc_threshold.as_deref(),
            HOUR,
        )?,
        jobs: time(
            "server.job_gc_threshold",
            server.job_gc_threshold.as_deref(),
            4 * HOUR,
        )?,
        nodes: time(
            "server.node_gc_threshold",
            server.node_gc_threshold.as_deref(),
            24 * HOUR,
        )?,
        deployments: time(
            "server.deployment_gc_threshold",
            server.deployment_gc_threshold.as_deref(),
            HOUR,
        )?,
    })
}

fn join_token(file: &ConfigFile) -> Result<Option<Secret>, ConfigError> {
    let key = "server.node_join_token_file";
    match (
        &file.server.node_join_token,
        &file.server.node_join_token_file,
    ) {
        (Some(_), Some(_)) => Err(value(key, "the token is given twice; keep the file")),
        // Every node that shows no token shows this one.
        (Some(token), None) if token.reveal().trim().is_empty() => Err(value(
            "server.node_join_token",
            "empty: it would let every node in; leave it out to let no new node in",
        )),
        (Some(token), None) => Ok(Some(token.clone())),
        (None, None) => Ok(None),
        (None, Some(path)) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| value(key, format!("{}: {error}", path.display())))?;
            let token = text.trim().to_owned();
            if token.is_empty() {
                return Err(value(key, format!("{} is empty", path.display())));
            }
            Ok(Some(Secret::new(token)))
        }
    }
}

fn ip(key: &'static str, text: Option<&str>) -> Result<IpAddr, ConfigError> {
    match text {
        None => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        Some(text) => text
            .parse()
            .map_err(|_| value(key, format!("{text:?} is no IP address"))),
    }
}

pub(super) fn time(
    key: impl Into<Cow<'static, str>>,
    text: Option<&str>,
    default: Duration,
) -> Result<Duration, ConfigError> {
    match text {
        None => Ok(default),
        Some(text) => duration::parse_go(text).map_err(|error| value(key, error.to_string())),
    }
}

pub(super) fn value(key: impl Into<Cow<'static, str>>, message: impl Into<String>) -> ConfigError {
    ConfigError::Value {
        key: key.into(),
        message: message.into(),
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "server".to_owned(), |name| name.trim().to_owned())
}
