//! Whose tasks end: a real node's, which are processes, or a simulated one's, which are timers.
//!
//! Between the end of a process and a report there are keeper, which waits for it, and the sync of
//! the node's journal, which comes before a terminal status is told. Simulated nodes have neither,
//! so that a promise about ends is judged by a real node alone.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::TIMED;
use crate::fleet::look;

/// The class of the real node, by which jobs choose it.
pub(super) const REAL_CLASS: &str = "real";
/// Seconds of a day, over whose end times are compared.
pub(super) const DAY_SECONDS: f64 = 86_400.0;

/// What runs a task that ends by itself, and how it is known when it did.
#[derive(Debug, Clone)]
pub(super) enum Runner {
    /// A timer of a simulated node, whose clock is told as the end.
    Imitated,
    /// A process of a real node, whose last deed is to write the time into a file of this folder.
    Real(PathBuf),
}

impl Runner {
    /// What its figures are called.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Imitated => "an imitated task's",
            Self::Real(_) => "a real task's",
        }
    }

    /// A word for the ids of its jobs.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Imitated => "imitated",
            Self::Real(_) => "real",
        }
    }

    /// A job of one task that ends after `runs_for`.
    pub(super) fn job(&self, id: &str, runs_for: Duration) -> Value {
        match self {
            Self::Imitated => {
                let mock = json!({"run_for": format!("{}ms", runs_for.as_millis())});
                look::on_class(look::job("batch", id, 1, &mock), TIMED.class)
            }
            Self::Real(folder) => {
                let mut job = look::job("batch", id, 1, &json!({}));
                let task = &mut job["Job"]["TaskGroups"][0]["Tasks"][0];
                task["Driver"] = json!("raw_exec");
                task["Config"] = json!({
                    "command": "/bin/sh",
                    "args": ["-c", script(&folder.join(id), runs_for)],
                });
                // They are many, and the host is no larger than it is.
                task["Resources"] = json!({"CPU": 1, "MemoryMB": 10});
                look::on_class(job, REAL_CLASS)
            }
        }
    }

    /// When the task of a job ended, in seconds of the day.
    ///
    /// # Errors
    /// If nobody tells.
    pub(super) fn ended(&self, id: &str, alloc: &Value) -> anyhow::Result<f64> {
        match self {
            Self::Imitated => {
                let ended = alloc["TaskStates"]["task"]["FinishedAt"].as_str();
                seconds_of_text(ended.context("an end without a time")?)
            }
            Self::Real(folder) => {
                let path = folder.join(id);
                let text = std::fs::read_to_string(&path);
                let text = text.with_context(|| format!("read {}", path.display()))?;
                seconds_of_epoch(text.trim())
            }
        }
    }
}

/// The shell becomes date(1), so that nothing is left to do after the time is taken but to write it
/// and to exit.
fn script(file: &Path, runs_for: Duration) -> String {
    let (seconds, file) = (runs_for.as_secs_f64(), file.display());
    format!("/bin/sleep {seconds:.3}; exec /bin/date +%s.%N >'{file}'")
}

/// Of a time in UTC as RFC 3339 writes it.
fn seconds_of_text(text: &str) -> anyhow::Result<f64> {
    let clock = text
        .split_once('T')
        .and_then(|(_, clock)| clock.strip_suffix('Z'))
        .with_context(|| format!("{text} is no time in UTC"))?;
    let parts: Vec<f64> = clock
        .split(':')
        .map(str::parse)
        .collect::<Result<_, _>>()
        .with_context(|| format!("read the time {text}"))?;
    ensure!(parts.len() == 3, "{text} is no time of a day");
    Ok((parts[0] * 60.0 + parts[1]) * 60.0 + parts[2])
}

/// Of seconds since 1970.
fn seconds_of_epoch(text: &str) -> anyhow::Result<f64> {
    let seconds: f64 = text
        .parse()
        .with_context(|| format!("read the time {text}"))?;
    Ok(seconds.rem_euclid(DAY_SECONDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_api_and_of_the_shell_are_one() {
        let text = seconds_of_text("2026-11-22T01:02:03.5Z").unwrap();
        assert!((text - 3723.5).abs() < 1e-9, "{text}");
        let shell = seconds_of_epoch(&format!("{}.500000000", 86_400 * 9 + 3723)).unwrap();
        assert!((shell - text).abs() < 1e-6, "{shell}");
        seconds_of_text("yesterday").unwrap_err();
        seconds_of_text("2026-11-22T01:02Z").unwrap_err();
        seconds_of_epoch("").unwrap_err();
    }

    #[test]
    fn a_real_task_leaves_the_time_of_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let runner = Runner::Real(folder.path().to_owned());
        let job = runner.job("one", Duration::from_millis(1));
        let config = &job["Job"]["TaskGroups"][0]["Tasks"][0]["Config"];
        let script = config["args"][1].as_str().unwrap();
        let mut shell = std::process::Command::new("/bin/sh");
        assert!(shell.args(["-c", script]).status().unwrap().success());
        let ended = runner.ended("one", &Value::Null).unwrap();
        assert!((0.0..DAY_SECONDS).contains(&ended), "{ended}");
        runner.ended("another", &Value::Null).unwrap_err();
    }
}
