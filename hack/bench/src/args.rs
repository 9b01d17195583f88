//! What the command line asks of a suite.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::suites::sessions::Part;
use crate::{Extent, Format, Programs};

/// See the top of this file.
#[derive(Debug, Clone, clap::Parser)]
#[command(name = "cargo xtask bench", disable_version_flag = true)]
pub(crate) struct Args {
    /// The name of the suite
    pub(super) suite: String,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    json: bool,
    /// Measure only what the machine itself can do
    #[arg(long)]
    floor_only: bool,
    /// A `nomad` program to measure beside ours, in turn
    #[arg(long, value_name = "PROGRAM")]
    rival: Option<PathBuf>,
    /// The folder of the programs to measure; without it, what the release build left
    #[arg(long, value_name = "DIR")]
    binaries: Option<PathBuf>,
    /// For how long `sessions` loses 30 % of all packets and makes others up to 300 ms late
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    weather_seconds: u64,
    /// Measure only these parts of `sessions`, separated by commas
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    pub(super) only: Vec<Part>,
}

impl Args {
    pub(super) fn format(&self) -> Format {
        if self.json {
            Format::JsonLines
        } else {
            Format::Table
        }
    }

    pub(super) fn extent(&self) -> Extent {
        if self.floor_only {
            Extent::FloorOnly
        } else {
            Extent::Everything
        }
    }

    /// `beside` = the folder of this program, which the release build left there.
    pub(super) fn programs(&self, beside: &Path) -> Programs {
        Programs {
            ours: self.binaries.clone().unwrap_or_else(|| beside.to_owned()),
            rival: self.rival.clone(),
        }
    }

    pub(super) fn weather(&self) -> Duration {
        Duration::from_secs(self.weather_seconds)
    }
}
