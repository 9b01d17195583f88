//! The parts of the suite, which can be measured one by one.

use clap::ValueEnum;

use super::load::Load;

/// What is measured one after the other, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    Silence,
    Weather,
    Reconnect,
    Restarts,
    Outage,
    Links,
    Failover,
    Rest,
    Storm,
    Simulated,
}

impl Part {
    /// What nodes run meanwhile: something where complete reports are made.
    pub(super) fn load(self) -> Load {
        match self {
            Self::Reconnect | Self::Restarts | Self::Outage => Load::TwoEach,
            Self::Silence
            | Self::Weather
            | Self::Links
            | Self::Failover
            | Self::Rest
            | Self::Storm
            | Self::Simulated => Load::None,
        }
    }

    /// Whether it needs the three servers and the thousand nodes: the others are measured after
    /// these have ended.
    pub(super) fn needs_scene(self) -> bool {
        !matches!(self, Self::Rest | Self::Storm | Self::Simulated)
    }
}
