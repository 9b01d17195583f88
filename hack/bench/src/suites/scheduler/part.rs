//! The parts of the suite, which can be measured one by one.

use clap::ValueEnum;

/// The parts, in the order in which they are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    Periodic,
    Dispatch,
    Preemption,
    Evaluations,
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
        let two: Vec<Part> = Part::chosen(&[Part::Evaluations, Part::Dispatch]).collect();
        assert_eq!(two, [Part::Dispatch, Part::Evaluations]);
    }
}
