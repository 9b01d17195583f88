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
    /// Those that are wanted, or all where none is, in their order.
    pub(super) fn chosen(wanted: &[Self]) -> impl Iterator<Item = Self> {
        let all = Self::value_variants().iter().copied();
        all.filter(move |part| wanted.is_empty() || wanted.contains(part))
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_measured_in_their_order() {
        let all: Vec<Part> = Part::chosen(&[]).collect();
        assert_eq!(all, Part::value_variants());
        let two: Vec<Part> = Part::chosen(&[Part::Storm, Part::Silence]).collect();
        assert_eq!(two, [Part::Silence, Part::Storm]);
    }
}
