//! What a suite came to: how many goals are met, which are not, and what is missing.

use std::fmt;

use super::row::Row;

/// See the top of this file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    met: usize,
    /// What was measured and is not good enough.
    missed: Vec<String>,
    /// What was promised and is not there.
    not_measured: Vec<String>,
}

impl Verdict {
    /// Judges rows.
    pub(super) fn of(rows: &[Row]) -> Self {
        let mut verdict = Self::default();
        for row in rows {
            match (&row.not_measured, row.met) {
                (Some(why), _) => verdict.not_measured.push(format!("{}: {why}", row.figure)),
                (None, Some(true)) => verdict.met += 1,
                (None, Some(false)) => verdict.missed.push(row.figure.clone()),
                (None, None) => {}
            }
        }
        verdict
    }

    /// Whether nothing was missed and nothing is missing.
    pub(super) fn is_success(&self) -> bool {
        self.missed.is_empty() && self.not_measured.is_empty()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            met,
            missed,
            not_measured,
        } = self;
        match met + missed.len() + not_measured.len() {
            0 => write!(f, "goals: there were none to judge")?,
            all => write!(f, "goals: {met} of {all} met")?,
        }
        for (what, figures) in [("MISSED", missed), ("NOT MEASURED", not_measured)] {
            if !figures.is_empty() {
                write!(f, "; {what}: {}", figures.join("; "))?;
            }
        }
        writeln!(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(figure: &str) -> Row {
        Row::new("s", figure, 2.0, "ms")
    }

    #[test]
    fn figures_without_goals_are_no_reason_to_fail() {
        let verdict = Verdict::of(&[row("a"), row("b")]);
        assert!(verdict.is_success());
        assert_eq!(verdict.to_string(), "goals: there were none to judge\n");
    }

    #[test]
    fn all_goals_met_is_success() {
        let verdict = Verdict::of(&[row("a").at_most(3.0), row("b")]);
        assert!(verdict.is_success());
        assert_eq!(verdict.to_string(), "goals: 1 of 1 met\n");
    }

    #[test]
    fn a_goal_that_is_missed_is_named_and_fails() {
        let verdict = Verdict::of(&[row("a").at_most(3.0), row("b").at_most(1.0)]);
        assert!(!verdict.is_success());
        assert_eq!(verdict.to_string(), "goals: 1 of 2 met; MISSED: b\n");
    }

    #[test]
    fn a_figure_that_is_not_there_fails() {
        let verdict = Verdict::of(&[row("a").at_most(3.0), Row::not_measured("s", "b", "why")]);
        assert!(!verdict.is_success());
        let said = verdict.to_string();
        assert_eq!(said, "goals: 1 of 2 met; NOT MEASURED: b: why\n");
    }
}
