//! `artifact { ... }`: limits of the files that are fetched for tasks.

use std::time::Duration;

use noded_artifact::{FetchLimits, Links};
use serde::Deserialize;

use super::{ConfigError, invalid};

/// A shorter time would end downloads that only begin.
const TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// Variables that every fetch has of its own.
const OWN_VARIABLES: [&str; 2] = ["HOME", "TMPDIR"];

/// `artifact { http_read_timeout = "30m" http_max_size = "100GB" ... }`
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ArtifactBlock {
    /// The time of one HTTP download; `30m` unless given.
    pub http_read_timeout: Option<String>,
    /// The size of one HTTP download; `100GB` unless given, `0` for no limit.
    pub http_max_size: Option<String>,
    /// The time of all git commands of one artifact; `30m` unless given.
    pub git_timeout: Option<String>,
    /// The size of all that an archive unpacks to; `100GB` unless given, `0` for no limit.
    pub decompression_size_limit: Option<String>,
    /// Entries of an archive; 4096 unless given, 0 for no limit.
    pub decompression_file_count_limit: Option<u64>,
    /// Whether links that leave the allocation's directory are taken; `false` unless given.
    pub disable_artifact_inspection: bool,
    /// Names of noded's own variables that a fetch gets: `HTTPS_PROXY,NO_PROXY`.
    pub set_environment_variables: String,
}

/// The same, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArtifactSettings {
    /// Limits of one fetch.
    pub limits: FetchLimits,
    /// Whether links that leave the allocation's directory are refused.
    pub links: Links,
    /// Names of noded's own variables that a fetch gets.
    pub variables: Vec<String>,
}

impl ArtifactSettings {
    pub(crate) fn from_file(block: &ArtifactBlock) -> Result<Self, ConfigError> {
        let usual = FetchLimits::default();
        let entries = match block.decompression_file_count_limit {
            None => usual.unpacked_entries_max,
            Some(limit) => (limit > 0).then_some(limit),
        };
        let limits = FetchLimits {
            http_timeout: timeout(
                "artifact.http_read_timeout",
                block.http_read_timeout.as_deref(),
                usual.http_timeout,
            )?,
            http_bytes_max: size(
                "artifact.http_max_size",
                block.http_max_size.as_deref(),
                usual.http_bytes_max,
            )?,
            git_timeout: timeout(
                "artifact.git_timeout",
                block.git_timeout.as_deref(),
                usual.git_timeout,
            )?,
            unpacked_bytes_max: size(
                "artifact.decompression_size_limit",
                block.decompression_size_limit.as_deref(),
                usual.unpacked_bytes_max,
            )?,
            unpacked_entries_max: entries,
        };
        let links = match block.disable_artifact_inspection {
            true => Links::Taken,
            false => Links::Judged,
        };
        Ok(Self {
            limits,
            links,
            variables: variables(&block.set_environment_variables)?,
        })
    }
}

fn timeout(field: &str, given: Option<&str>, usual: Duration) -> Result<Duration, ConfigError> {
    let Some(text) = given else { return Ok(usual) };
    let timeout = protocol_model::duration::parse_go(text)
        .map_err(|error| invalid(field, format!("{text:?}: {error}")))?;
    if timeout < TIMEOUT_MIN {
        return Err(invalid(field, format!("{text:?} is below {TIMEOUT_MIN:?}")));
    }
    Ok(timeout)
}

/// `None` is no limit.
fn size(field: &str, given: Option<&str>, usual: Option<u64>) -> Result<Option<u64>, ConfigError> {
    let Some(text) = given else { return Ok(usual) };
    match bytes(text) {
        Some(bytes) => Ok((bytes > 0).then_some(bytes)),
        None => {
            let problem = format!("{text:?} is no size such as 100GB or 512MiB");
            Err(invalid(field, problem))
        }
    }
}

/// Bytes of a size as Nomad writes it: a whole number and a unit, decimal (`kB`, `MB`) or binary
/// (`KiB`, `MiB`), in any case.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let unit = unit.trim().to_ascii_lowercase();
    let factor = match unit.as_str() {
        "" | "b" => 1,
        unit => {
            let power = 1 + "kmgt".find(unit.chars().next()?)?;
            let base: u64 = match &unit[1..] {
                "" | "b" => 1000,
                "i" | "ib" => 1024,
                _ => return None,
            };
            base.checked_pow(u32::try_from(power).ok()?)?
        }
    };
    number.checked_mul(factor)
}

fn variables(list: &str) -> Result<Vec<String>, ConfigError> {
    let field = "artifact.set_environment_variables";
    let names = list
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let names: Vec<String> = names.map(str::to_owned).collect();
    for name in &names {
        if name.contains(['=', '\0']) {
            return Err(invalid(field, format!("{name:?} is no name of a variable")));
        }
        if OWN_VARIABLES.contains(&name.as_str()) {
            let problem = format!("{name}: every fetch has one of its own");
            return Err(invalid(field, problem));
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(block: &ArtifactBlock) -> Result<ArtifactSettings, String> {
        ArtifactSettings::from_file(block).map_err(|error| error.to_string())
    }

    #[test]
    fn sizes_are_read_in_decimal_and_binary_units() {
        for (text, expected) in [
            ("0", Some(0)),
            ("12", Some(12)),
            ("12 B", Some(12)),
            ("100GB", Some(100_000_000_000)),
            ("2 kB", Some(2_000)),
            ("2KiB", Some(2_048)),
            ("3mib", Some(3 * 1024 * 1024)),
            ("1T", Some(1_000_000_000_000)),
            ("", None),
            ("GB", None),
            ("1.5GB", None),
            ("1XB", None),
            ("99999999999TB", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn limits_are_nomads_unless_given() {
        let usual = settings(&ArtifactBlock::default()).expect("usual");
        assert_eq!(usual.limits, FetchLimits::default());
        assert_eq!(usual.links, Links::Judged);
        let given = settings(&ArtifactBlock {
            http_read_timeout: Some("10s".to_owned()),
            http_max_size: Some("0".to_owned()),
            decompression_file_count_limit: Some(0),
            disable_artifact_inspection: true,
            set_environment_variables: "HTTPS_PROXY, NO_PROXY".to_owned(),
            ..ArtifactBlock::default()
        });
        let given = given.expect("given");
        assert_eq!(given.limits.http_timeout, Duration::from_secs(10));
        assert_eq!(given.limits.http_bytes_max, None);
        assert_eq!(given.limits.unpacked_entries_max, None);
        assert_eq!(given.links, Links::Taken);
        assert_eq!(given.variables, ["HTTPS_PROXY", "NO_PROXY"]);
    }

    #[test]
    fn values_that_make_no_sense_are_refused_with_their_key() {
        for (block, key) in [
            (
                ArtifactBlock {
                    git_timeout: Some("0s".to_owned()),
                    ..ArtifactBlock::default()
                },
                "artifact.git_timeout",
            ),
            (
                ArtifactBlock {
                    decompression_size_limit: Some("much".to_owned()),
                    ..ArtifactBlock::default()
                },
                "artifact.decompression_size_limit",
            ),
            (
                ArtifactBlock {
                    set_environment_variables: "HOME".to_owned(),
                    ..ArtifactBlock::default()
                },
                "artifact.set_environment_variables",
            ),
        ] {
            let error = settings(&block).expect_err(key);
            assert!(error.contains(key), "{error}");
        }
    }
}
