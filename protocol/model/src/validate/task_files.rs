//! Rules of the files that a task is given: templates, artifacts, a dispatch's payload.

use std::collections::BTreeMap;

use crate::artifact::Artifact;
use crate::task::Task;
use crate::template::{ChangeMode, Template};
use crate::validate::findings::Findings;

/// How far a task's directory is below the allocation's.
const TASK_DEPTH: usize = 1;
/// The same of the task's `local`.
const LOCAL_DEPTH: usize = 2;

/// The signals of Linux, without `SIG`.
const SIGNALS: [&str; 31] = [
    "ABRT", "ALRM", "BUS", "CHLD", "CONT", "FPE", "HUP", "ILL", "INT", "IO", "KILL", "PIPE",
    "PROF", "PWR", "QUIT", "SEGV", "STKFLT", "STOP", "SYS", "TERM", "TRAP", "TSTP", "TTIN", "TTOU",
    "URG", "USR1", "USR2", "VTALRM", "WINCH", "XCPU", "XFSZ",
];

pub(super) fn check(task: &Task, findings: &mut Findings) {
    let mut destinations = BTreeMap::new();
    for (offset, template) in task.templates.iter().enumerate() {
        let number = offset + 1;
        findings.at(format!("template {number}"), |findings| {
            check_template(template, findings);
            if let Some(other) = destinations.insert(template.dest_path(), number)
                && !template.dest_path().is_empty()
            {
                findings.refuse_at(
                    "destination",
                    format!("{:?} is template {other}'s already", template.dest_path()),
                );
            }
        });
    }
    for (offset, artifact) in task.artifacts.iter().enumerate() {
        findings.at(format!("artifact {}", offset + 1), |findings| {
            check_artifact(artifact, findings);
        });
    }
    if let Some(payload) = &task.dispatch_payload {
        findings.at("dispatch_payload > file", |findings| {
            if payload.file.is_empty() {
                findings.refuse("missing");
            } else {
                check_inside(&payload.file, LOCAL_DEPTH, findings);
            }
        });
    }
}

fn check_template(template: &Template, findings: &mut Findings) {
    let source = template.source_path.as_deref().unwrap_or_default();
    match (source.is_empty(), template.embedded_tmpl().is_empty()) {
        (true, true) => findings.refuse("needs data or source"),
        (false, false) => findings.refuse("data and source exclude each other"),
        (true, false) | (false, true) => {}
    }
    findings.at("destination", |findings| match template.dest_path() {
        "" => findings.refuse("missing"),
        path => check_inside(path, TASK_DEPTH, findings),
    });
    if template.mode_bits().is_none() {
        let perms = template.perms.as_deref().unwrap_or_default();
        findings.refuse_at("perms", format!("{perms:?} are no octal permissions"));
    }
    check_change_mode(template, findings);
    if let Some(wait) = &template.wait
        && let (Some(min), Some(max)) = (wait.min, wait.max)
        && min > max
    {
        findings.refuse_at("wait", "min is more than max");
    }
}

fn check_change_mode(template: &Template, findings: &mut Findings) {
    let Some(mode) = findings.parse("change_mode", template.change_mode()) else {
        return;
    };
    match mode {
        ChangeMode::Noop | ChangeMode::Restart => {}
        ChangeMode::Signal => {
            let signal = template.change_signal.as_deref().unwrap_or_default();
            if signal.is_empty() {
                findings.refuse_at("change_signal", "missing");
            } else if !is_signal(signal) {
                findings.refuse_at("change_signal", format!("{signal:?} is no signal"));
            }
            // A process cannot see its own environment change.
            if template.envvars() {
                findings.refuse_at("change_mode", "a signal cannot bring new env variables");
            }
        }
        ChangeMode::Script => {
            let command = template
                .change_script
                .as_ref()
                .and_then(|it| it.command.as_deref());
            if command.unwrap_or_default().is_empty() {
                findings.refuse_at("change_script > command", "missing");
            }
        }
    }
}

/// Whether nodes know a signal: `SIGHUP`, `hup`, `1`.
fn is_signal(signal: &str) -> bool {
    let upper = signal.trim().to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let number = upper.parse::<u8>();
    SIGNALS.contains(&name) || number.is_ok_and(|number| (1..=64).contains(&number))
}

fn check_artifact(artifact: &Artifact, findings: &mut Findings) {
    if artifact
        .getter_source
        .as_deref()
        .unwrap_or_default()
        .is_empty()
    {
        findings.refuse_at("source", "missing");
    }
    let mode = artifact.getter_mode.as_deref().unwrap_or("any");
    if !matches!(mode, "any" | "file" | "dir") {
        findings.at("mode", |findings| {
            findings.refuse_hint(format!("unknown: {mode:?}"), "one of any, file, dir");
        });
    }
    findings.at("destination", |findings| {
        check_inside(
            artifact.relative_dest.as_deref().unwrap_or_default(),
            TASK_DEPTH,
            findings,
        );
    });
    if let Some(checksum) = artifact.getter_options.get("checksum") {
        findings.at("options > checksum", |findings| {
            check_checksum(checksum, findings);
        });
    }
}

/// `KIND:HEX`, with as many digits as the kind has, or `file:URL`; variables are not judged.
fn check_checksum(checksum: &str, findings: &mut Findings) {
    if checksum.contains("${") {
        return;
    }
    let Some((kind, digits)) = checksum.split_once(':') else {
        findings.refuse_hint(format!("{checksum:?} names no kind"), "write KIND:DIGITS");
        return;
    };
    let len = match kind {
        "md5" => 32,
        "sha1" => 40,
        "sha256" => 64,
        "sha512" => 128,
        "file" => return,
        _ => {
            findings.refuse(format!(
                "unknown kind {kind:?} (md5, sha1, sha256, sha512, file)"
            ));
            return;
        }
    };
    if digits.len() != len || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        findings.refuse(format!("{kind} has {len} hexadecimal digits"));
    }
}

/// Refuses a path that leads out of the allocation's directory, of which the shared directory is a
/// part. `depth` is how far below that directory the path begins. The node checks the rest: the
/// directories of other tasks, and what variables lead to.
fn check_inside(path: &str, mut depth: usize, findings: &mut Findings) {
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if depth == 0 => {
                findings.refuse(format!("{path:?} leads out of the allocation's directory"));
                return;
            }
            ".." => depth -= 1,
            _ => depth += 1,
        }
    }
    if path.contains('\0') {
        findings.refuse(format!("{path:?} contains a null character"));
    }
}
