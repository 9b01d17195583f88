//! The parts of the suite, which can be measured one by one.

use clap::ValueEnum;

/// The parts, in the order in which they are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    /// One start after the other, beside the rivals.
    Starts,
    /// Starts and stops for a minute, and the census of leaks.
    Sustained,
    /// Memory of the daemons for each idle task.
    Memory,
    /// Templates, a child each.
    Template,
    /// A large archive, beside curl and tar.
    Artifact,
}

impl Part {
    /// The wanted parts, or all where none is named, in their order.
    pub(super) fn chosen(wanted: &[Self]) -> impl Iterator<Item = Self> {
        let all = Self::value_variants().iter().copied();
        all.filter(move |part| wanted.is_empty() || wanted.contains(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_measured_in_their_order() {
        let all: Vec<Part> = Part::chosen(&[]).collect();
        assert_eq!(all, Part::value_variants());
        let two: Vec<Part> = Part::chosen(&[Part::Sustained, Part::Starts]).collect();
        assert_eq!(two, [Part::Starts, Part::Sustained]);
    }
}
