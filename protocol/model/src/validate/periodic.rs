//! Rules of `periodic`. A disabled schedule is not read (as in Nomad): its mistakes are warnings.

use super::findings::Findings;
use crate::cron::{EXPRESSIONS_MAX, Expression, zone};
use crate::job::JobType;
use crate::periodic::PeriodicConfig;

/// One mistake of a schedule.
pub(crate) struct Mistake {
    /// The attribute; empty for the block itself.
    pub(crate) segment: &'static str,
    /// The mistake, for people.
    pub(crate) message: String,
    /// How to correct it; may be empty.
    pub(crate) hint: String,
}

pub(super) fn check(job_type: JobType, periodic: &PeriodicConfig, findings: &mut Findings) {
    if !job_type.runs_to_completion() {
        findings.refuse(format!(
            "only batch and sysbatch jobs are periodic, not {job_type} jobs"
        ));
    }
    if !periodic.is_enabled() {
        return;
    }
    for mistake in mistakes(periodic) {
        let Mistake {
            segment,
            message,
            hint,
        } = mistake;
        let refuse = |findings: &mut Findings| match hint.as_str() {
            "" => findings.refuse(message),
            _ => findings.refuse_hint(message, hint),
        };
        match segment {
            "" => refuse(findings),
            segment => findings.at(segment, refuse),
        }
    }
}

/// Everything that is wrong with a schedule.
pub(crate) fn mistakes(periodic: &PeriodicConfig) -> Vec<Mistake> {
    let mut found = Vec::new();
    let mut push = |segment, message: String, hint: String| {
        found.push(Mistake {
            segment,
            message,
            hint,
        });
    };
    if !matches!(periodic.spec_type.as_str(), "" | "cron") {
        let kind = &periodic.spec_type;
        let message = format!("{kind:?} is not supported, only cron");
        push("type", message, String::new());
    }
    if !periodic.spec.is_empty() && !periodic.specs.is_empty() {
        let hint = "put all expressions in crons".to_owned();
        push("", "both cron and crons are given".to_owned(), hint);
    }
    let segment = if periodic.spec.is_empty() && !periodic.specs.is_empty() {
        "crons"
    } else {
        "cron"
    };
    let expressions = periodic.expressions();
    if expressions.is_empty() {
        push(segment, "missing".to_owned(), String::new());
    }
    if expressions.len() > EXPRESSIONS_MAX {
        let count = expressions.len();
        let message = format!("has {count} expressions, at most {EXPRESSIONS_MAX} are allowed");
        push(segment, message, String::new());
    }
    for text in expressions.into_iter().take(EXPRESSIONS_MAX) {
        if let Err(error) = Expression::parse(text) {
            push(segment, error.to_string(), error.hint());
        }
    }
    if let Err(unknown) = zone(&periodic.time_zone) {
        let hint = "an IANA name, such as Europe/Berlin".to_owned();
        push("time_zone", unknown.to_string(), hint);
    }
    found
}
