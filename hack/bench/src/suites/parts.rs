//! Parts of a suite, which can be measured one by one.

use clap::ValueEnum;

/// The wanted parts, or all where none is named, in the order in which they are measured.
pub(super) fn chosen<P: ValueEnum + PartialEq + Copy + 'static>(
    wanted: &[P],
) -> impl Iterator<Item = P> {
    let all = P::value_variants().iter().copied();
    all.filter(move |part| wanted.is_empty() || wanted.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
    enum Part {
        First,
        Second,
        Third,
    }

    #[test]
    fn parts_are_measured_in_their_order() {
        let all: Vec<Part> = chosen(&[]).collect();
        assert_eq!(all, Part::value_variants());
        let two: Vec<Part> = chosen(&[Part::Third, Part::First]).collect();
        assert_eq!(two, [Part::First, Part::Third]);
    }
}
