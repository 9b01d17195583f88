//! What noded does now and then, and when: looking at its host, making room on its disk.

use std::time::Duration;

use super::file::ConfigFile;
use super::{ConfigError, invalid};

/// As Nomad's defaults, so that a configuration carries over.
const GC_INTERVAL: Duration = Duration::from_secs(60);
const GC_MAX_ALLOCS: usize = 50;
const GC_DISK_PERCENT: u8 = 80;
const GC_INODE_PERCENT: u8 = 70;
const FINGERPRINT_INTERVAL: Duration = Duration::from_secs(60);
/// Looking costs a few system calls; more often than this it would only cost.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// When noded looks after itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upkeep {
    /// How often the host's facts are looked at again; up to a quarter is added by chance.
    pub fingerprint_interval: Duration,
    /// How often the disk is looked at.
    pub gc_interval: Duration,
    /// Whether the sizes of ephemeral disks are looked at as often.
    pub ephemeral_disk: DiskWatch,
    /// Ended allocations that are kept for their logs; running ones do not count.
    pub gc_max_allocs: usize,
    /// Beyond this share of the disk with allocations in use, ended allocations go.
    pub gc_disk_usage_threshold: u8,
    /// The same for its inodes.
    pub gc_inode_usage_threshold: u8,
}

/// The reaction to ephemeral disks that grow above their size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DiskWatch {
    /// Their tasks get an event.
    #[default]
    Watch,
    /// Nothing: nobody looks.
    Off,
}

impl Default for Upkeep {
    fn default() -> Self {
        Self {
            fingerprint_interval: FINGERPRINT_INTERVAL,
            gc_interval: GC_INTERVAL,
            ephemeral_disk: DiskWatch::default(),
            gc_max_allocs: GC_MAX_ALLOCS,
            gc_disk_usage_threshold: GC_DISK_PERCENT,
            gc_inode_usage_threshold: GC_INODE_PERCENT,
        }
    }
}

impl Upkeep {
    pub(super) fn from_file(file: &ConfigFile) -> Result<Self, ConfigError> {
        let usual = Self::default();
        Ok(Self {
            fingerprint_interval: interval(
                "fingerprint_interval",
                file.fingerprint_interval.as_deref(),
                usual.fingerprint_interval,
            )?,
            gc_interval: interval(
                "gc_interval",
                file.gc_interval.as_deref(),
                usual.gc_interval,
            )?,
            ephemeral_disk: disk_watch(file.ephemeral_disk.enforce.as_deref())?,
            gc_max_allocs: file.gc_max_allocs.unwrap_or(usual.gc_max_allocs),
            gc_disk_usage_threshold: percent(
                "gc_disk_usage_threshold",
                file.gc_disk_usage_threshold,
                usual.gc_disk_usage_threshold,
            )?,
            gc_inode_usage_threshold: percent(
                "gc_inode_usage_threshold",
                file.gc_inode_usage_threshold,
                usual.gc_inode_usage_threshold,
            )?,
        })
    }
}

fn interval(field: &str, given: Option<&str>, usual: Duration) -> Result<Duration, ConfigError> {
    let Some(text) = given else { return Ok(usual) };
    let interval = protocol_model::duration::parse_go(text)
        .map_err(|error| invalid(field, format!("{text:?}: {error}")))?;
    if interval < INTERVAL_MIN {
        return Err(invalid(
            field,
            format!("{text:?} is below {INTERVAL_MIN:?}"),
        ));
    }
    Ok(interval)
}

fn disk_watch(given: Option<&str>) -> Result<DiskWatch, ConfigError> {
    match given {
        None | Some("watch") => Ok(DiskWatch::Watch),
        Some("off") => Ok(DiskWatch::Off),
        Some(other) => Err(invalid(
            "ephemeral_disk.enforce",
            format!("{other:?} is neither \"watch\" nor \"off\""),
        )),
    }
}

fn percent(field: &str, given: Option<u8>, usual: u8) -> Result<u8, ConfigError> {
    match given {
        None => Ok(usual),
        Some(percent @ 1..=100) => Ok(percent),
        Some(other) => Err(invalid(
            field,
            format!("{other} is no percentage of 1 to 100"),
        )),
    }
}
