//! One figure of a suite, and the two ways to print many.

use serde::Serialize;

/// A measured figure. The field names are the interface: comparisons across runs read them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) suite: &'static str,
    pub(super) figure: String,
    /// `None` where it was promised and not measured.
    pub(super) value: Option<f64>,
    pub(super) unit: &'static str,
    /// Whose figure stands beside ours, if one was measured or published.
    pub(super) rival: Option<&'static str>,
    pub(super) rival_value: Option<f64>,
    /// What the machine itself needs for the same, measured in the same run.
    pub(super) floor_value: Option<f64>,
    pub(super) goal: Option<f64>,
    /// Whether the goal is met; `None` where there is no goal.
    pub(super) met: Option<bool>,
    /// Why there is no value; `None` where there is one.
    pub(super) not_measured: Option<String>,
}

impl Row {
    /// A figure without rival, floor or goal.
    pub(super) fn new(
        suite: &'static str,
        figure: impl Into<String>,
        value: f64,
        unit: &'static str,
    ) -> Self {
        Self {
            suite,
            figure: figure.into(),
            value: Some(value),
            unit,
            rival: None,
            rival_value: None,
            floor_value: None,
            goal: None,
            met: None,
            not_measured: None,
        }
    }

    /// A figure that was promised and is not there. It counts as a goal that was missed: who reads
    /// that all goals are met must be able to believe that all were looked at.
    pub(super) fn not_measured(
        suite: &'static str,
        figure: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self {
            value: None,
            met: Some(false),
            not_measured: Some(why.into()),
            ..Self::new(suite, figure, 0.0, "")
        }
    }

    /// The same with a goal, and whether it is met.
    pub(super) fn judged(self, goal: f64, met: bool) -> Self {
        Self {
            goal: Some(goal),
            met: Some(met),
            ..self
        }
    }

    /// The same with a goal that it must not exceed.
    pub(super) fn at_most(self, goal: f64) -> Self {
        let met = self.value.is_some_and(|value| value <= goal);
        self.judged(goal, met)
    }

    /// The same with a goal that it must reach.
    pub(super) fn at_least(self, goal: f64) -> Self {
        let met = self.value.is_some_and(|value| value >= goal);
        self.judged(goal, met)
    }
}

/// One JSON object a line.
///
/// # Errors
/// If a value is not finite: JSON has no word for that, and it is no measurement.
pub(super) fn json_lines(rows: &[Row]) -> anyhow::Result<String> {
    let mut text = String::new();
    for row in rows {
        let finite = row.value.is_none_or(f64::is_finite);
        anyhow::ensure!(finite, "{} is not a number", row.figure);
        text.push_str(&serde_json::to_string(row)?);
        text.push('\n');
    }
    Ok(text)
}

/// A table for people.
pub(super) fn table(rows: &[Row]) -> String {
    let width = rows
        .iter()
        .map(|row| row.figure.chars().count())
        .max()
        .unwrap_or(0)
        .max(6);
    let mut text = format!(
        "{:<width$} {:>12} {:<6} {:>12} {:>12} {:>4}  rival\n",
        "figure", "value", "unit", "floor", "goal", "met"
    );
    for row in rows {
        let number =
            |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.3}"));
        let met = match row.met {
            Some(true) => "yes",
            Some(false) => "no",
            None => "-",
        };
        let rival = match (row.rival, row.rival_value) {
            (Some(name), Some(value)) => format!("{name} {value:.3}"),
            (Some(name), None) => name.to_owned(),
            (None, _) => "-".to_owned(),
        };
        let last = match &row.not_measured {
            Some(why) => format!("not measured: {why}"),
            None => rival,
        };
        text.push_str(&format!(
            "{:<width$} {:>12} {:<6} {:>12} {:>12} {met:>4}  {last}\n",
            row.figure,
            number(row.value),
            row.unit,
            number(row.floor_value),
            number(row.goal),
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_json_line_has_every_field_of_the_interface() {
        let line = json_lines(&[Row::new("s", "f", 1.5, "us")]).unwrap();
        assert_eq!(
            line,
            "{\"suite\":\"s\",\"figure\":\"f\",\"value\":1.5,\"unit\":\"us\",\"rival\":null,\
             \"rival_value\":null,\"floor_value\":null,\"goal\":null,\"met\":null,\
             \"not_measured\":null}\n"
        );
    }

    #[test]
    fn what_is_no_number_is_no_measurement() {
        json_lines(&[Row::new("s", "f", f64::NAN, "us")]).unwrap_err();
    }

    #[test]
    fn a_table_shows_the_floor_and_whether_the_goal_is_met() {
        let row = Row {
            floor_value: Some(0.5),
            goal: Some(5.0),
            met: Some(true),
            ..Row::new("s", "submit to running p50", 1.25, "ms")
        };
        let text = table(&[row]);
        assert!(text.lines().nth(1).unwrap().contains("0.5"), "{text}");
        assert!(text.contains(" yes"), "{text}");
    }

    #[test]
    fn a_figure_that_was_not_measured_has_no_value_and_says_why() {
        let row = Row::not_measured("s", "links", "needs root");
        assert_eq!((row.value, row.met), (None, Some(false)));
        let text = table(std::slice::from_ref(&row));
        assert!(text.contains("not measured: needs root"), "{text}");
        let line = json_lines(&[row]).unwrap();
        assert!(line.contains("\"value\":null"), "{line}");
    }

    #[test]
    fn a_goal_that_is_just_reached_is_met() {
        let row = || Row::new("s", "f", 2.0, "ms");
        assert_eq!(row().at_most(2.0).met, Some(true));
        assert_eq!(row().at_most(1.9).met, Some(false));
        assert_eq!(row().at_least(2.0).met, Some(true));
        assert_eq!(row().at_least(2.1).met, Some(false));
    }
}
