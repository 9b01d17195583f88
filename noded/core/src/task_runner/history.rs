//! The lines of a task's history, as users of Nomad know them: kind, text, details.

use std::time::Duration;

use protocol_model::duration::format_go;
use protocol_model::{TaskEvent, TaskEventKind, UnixNanos};

use crate::effect::TaskHook;
use crate::event::{Exit, ExitStatus, ScriptEnd};

/// The longest text of one event; what is longer is cut, so that a report stays bounded.
const MESSAGE_BYTES_MAX: usize = 1024;

/// An event with a text of bounded length.
pub(crate) fn event(kind: TaskEventKind, message: &str, at: UnixNanos) -> TaskEvent {
    let mut end = message.len().min(MESSAGE_BYTES_MAX);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    TaskEvent::new(kind, &message[..end], at)
}

pub(crate) fn received(at: UnixNanos) -> TaskEvent {
    event(TaskEventKind::Received, "Task received by client", at)
}

pub(crate) fn setup(at: UnixNanos) -> TaskEvent {
    let text = "Building Task Directory";
    event(TaskEventKind::TaskSetup, text, at).with_detail("message", text)
}

pub(crate) fn setup_failure(message: &str, at: UnixNanos) -> TaskEvent {
    let mut failure = event(TaskEventKind::SetupFailure, message, at);
    let text = failure.display_message.clone();
    failure = failure.with_detail("setup_error", text);
    failure
}

/// A hook of an attempt failed: artifacts have a kind of their own, with Nomad's words.
pub(crate) fn hook_failure(hook: TaskHook, message: &str, at: UnixNanos) -> TaskEvent {
    if hook == TaskHook::Artifacts {
        let failure = event(TaskEventKind::ArtifactDownloadFailed, message, at);
        let text = failure.display_message.clone();
        return failure.with_detail("download_error", text);
    }
    setup_failure(&format!("{}: {message}", hook.name()), at)
}

/// How far something has come.
pub(crate) fn progress(kind: TaskEventKind, message: &str, at: UnixNanos) -> TaskEvent {
    event(kind, message, at).with_detail(TaskEvent::PROGRESS, true)
}

pub(crate) fn driver_failure(message: &str, at: UnixNanos) -> TaskEvent {
    let failure = event(TaskEventKind::DriverFailure, message, at);
    let text = failure.display_message.clone();
    failure.with_detail("driver_error", text)
}

pub(crate) fn started(pid: u32, at: UnixNanos) -> TaskEvent {
    event(TaskEventKind::Started, "Task started by client", at).with_detail("pid", pid)
}

pub(crate) fn terminated(exit: &Exit) -> TaskEvent {
    let (exit_code, signal, text) = match exit.status {
        ExitStatus::Code(code) => (code, 0, format!("Exit Code: {code}")),
        // Shells count a death by signal as 128 + its number; users' dashboards do too.
        ExitStatus::Signal(signal) => (
            128 + signal,
            signal,
            format!("Exit Code: {}, Signal: {signal}", 128 + signal),
        ),
        ExitStatus::Unknown => (1, 0, "Exit status unknown".to_owned()),
    };
    let text = if exit.oom_killed {
        format!("{text}, Exit Message: \"OOM Killed\"")
    } else {
        text
    };
    let mut line = event(TaskEventKind::Terminated, &text, exit.at)
        .with_detail("exit_code", exit_code)
        .with_detail("signal", signal)
        .with_detail("oom_killed", exit.oom_killed);
    if exit.signal_discarded {
        line = line.with_detail(
            "exit_message",
            "killed at once: PID 1 of the task does not handle the kill signal",
        );
    }
    line.exit_code = exit_code;
    line.signal = signal;
    line
}

pub(crate) fn restarting(delay: Duration, reason: &str, at: UnixNanos) -> TaskEvent {
    let text = format!("Task restarting in {}", format_go(delay));
    event(TaskEventKind::Restarting, &text, at)
        .with_detail("restart_reason", reason)
        .with_detail("start_delay", delay.as_nanos())
}

pub(crate) fn not_restarting(reason: &str, at: UnixNanos) -> TaskEvent {
    let mut line =
        event(TaskEventKind::NotRestarting, reason, at).with_detail("restart_reason", reason);
    line = line.with_detail("fails_task", true);
    line.fails_task = true;
    line
}

pub(crate) fn restart_signaled(reason: &str, at: UnixNanos) -> TaskEvent {
    event(TaskEventKind::RestartSignaled, reason, at).with_detail("restart_reason", reason)
}

pub(crate) fn signaling(signal: &str, at: UnixNanos) -> TaskEvent {
    let text = format!("Task being sent signal {signal}");
    event(TaskEventKind::Signaling, &text, at).with_detail("task_signal", signal)
}

/// A signal because of a template, in Nomad's words.
pub(crate) fn template_signal(signal: &str, at: UnixNanos) -> TaskEvent {
    event(TaskEventKind::Signaling, "Template re-rendered", at).with_detail("task_signal", signal)
}

/// The reason of a restart or signal because of a renewed identity, in Nomad's words.
pub(crate) fn identity_renewed(identity: &str) -> String {
    format!("Identity[{identity}]: new Identity token acquired")
}

/// A signal because of a renewed identity.
pub(crate) fn identity_signal(signal: &str, identity: &str, at: UnixNanos) -> TaskEvent {
    event(TaskEventKind::Signaling, &identity_renewed(identity), at)
        .with_detail("task_signal", signal)
}

/// The end of a template's change script.
pub(crate) fn change_script(
    command: &str,
    args: &[String],
    end: &ScriptEnd,
    at: UnixNanos,
) -> TaskEvent {
    let script = format!("script {command} with arguments [{}]", args.join(" "));
    let (kind, text) = match end {
        ScriptEnd::Exited { code: 0 } => (
            TaskEventKind::HookMessage,
            format!("Template ran {script}; exit code 0"),
        ),
        ScriptEnd::Exited { code } => (
            TaskEventKind::HookFailed,
            format!("Template ran {script}, which failed; exit code {code}"),
        ),
        ScriptEnd::Failed { message } => (
            TaskEventKind::HookFailed,
            format!("Template failed to run {script}: {message}"),
        ),
    };
    event(kind, &text, at)
}

pub(crate) fn shutdown_delay(delay: Duration, at: UnixNanos) -> TaskEvent {
    let text = format!(
        "Waiting for shutdown_delay of {} before killing the task",
        format_go(delay)
    );
    event(TaskEventKind::ShutdownDelay, &text, at)
}

pub(crate) fn killing(signal: &str, timeout: Duration, at: UnixNanos) -> TaskEvent {
    let text = format!(
        "Sent {signal}. Waiting {} before force killing",
        format_go(timeout)
    );
    event(TaskEventKind::Killing, &text, at).with_detail("kill_timeout", format_go(timeout))
}

pub(crate) fn killed(at: UnixNanos) -> TaskEvent {
    event(TaskEventKind::Killed, "Task successfully killed", at)
}

pub(crate) fn reconnected(at: UnixNanos) -> TaskEvent {
    event(TaskEventKind::Reconnected, "Client reconnected", at)
}
