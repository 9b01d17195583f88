//! The talk with a child: the request in, progress and one answer out.

use std::time::Duration;

use isolation::{Report as Birth, read_report};
use noded_jail::frame::{self, FrameError, Parsed};
use noded_jail::{PROGRESS_PAUSE, Report, Work};
use rustix::process::WaitIdStatus;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use super::JailError;
use super::child::Child;

/// Bytes that one read takes.
const READ_BYTES: usize = 64 * 1024;

/// The time between the end of a child's answers and its own end.
const END_MAX: Duration = Duration::from_secs(1);

/// Bytes of a dead child's messages that an error shows.
const MESSAGE_BYTES_MAX: usize = 512;

/// Sends the request and waits for the answer.
pub(super) async fn exchange<W: Work>(
    child: &mut Child,
    request: &[u8],
    mut on_progress: impl FnMut(String),
) -> Result<W::Answer, JailError> {
    let limit = child.verb.limits().answer_bytes;
    // A child that dies early does not read it all; the reason is in what it wrote.
    let _sent = child.request.write_all(request).await;
    let mut received = Vec::new();
    let mut last: Option<Instant> = None;
    loop {
        match next::<W::Answer>(child, &mut received, limit).await? {
            // The child keeps the pause, too; one that was taken over would not.
            Some(Report::Progress(line)) => {
                if last.is_none_or(|last| last.elapsed() >= PROGRESS_PAUSE) {
                    last = Some(Instant::now());
                    on_progress(line);
                }
            }
            Some(Report::Done(answer)) => return Ok(answer),
            Some(Report::Failed(problem)) => return Err(JailError::Failed(problem)),
            Some(Report::Refused(problem)) => return Err(JailError::Refused(problem)),
            None => return Err(reason(child).await),
        }
    }
}

/// The next report; `None` where the child closed its answers.
async fn next<A: DeserializeOwned>(
    child: &mut Child,
    received: &mut Vec<u8>,
    limit: usize,
) -> Result<Option<Report<A>>, JailError> {
    loop {
        if let Parsed::Whole { content, consumed } =
            frame::parse(received, limit).map_err(JailError::Answer)?
        {
            let report = frame::decode(content).map_err(JailError::Answer)?;
            received.drain(..consumed);
            return Ok(Some(report));
        }
        received.reserve(READ_BYTES);
        let read = child.answer.read_buf(received).await;
        match read.map_err(JailError::Read)? {
            0 if received.is_empty() => return Ok(None),
            0 => return Err(reason_or(child, FrameError::Torn).await),
            _ => {}
        }
    }
}

/// Why a child ended within an answer.
async fn reason_or(child: &mut Child, torn: FrameError) -> JailError {
    match reason(child).await {
        JailError::Died { said, .. } if said.is_empty() => JailError::Answer(torn),
        other => other,
    }
}

/// Why a child ended without an answer.
async fn reason(child: &mut Child) -> JailError {
    if let Ok(Birth::Failed(failure)) = read_report(&child.report) {
        let error = std::io::Error::from_raw_os_error(failure.errno);
        return JailError::Execute(format!("step {}: {error}", failure.step));
    }
    let status = timeout(END_MAX, child.ended()).await.ok().flatten();
    let said = said(child).await;
    let limits = child.verb.limits();
    let signal = status.as_ref().and_then(WaitIdStatus::terminating_signal);
    if signal == Some(rustix::process::Signal::XCPU.as_raw()) {
        let limit = limits.processor_time;
        return JailError::ProcessorTime { limit };
    }
    if said.contains("memory allocation of") {
        let limit_bytes = limits.data_bytes;
        return JailError::Memory { limit_bytes };
    }
    let exit = status.as_ref().and_then(WaitIdStatus::exit_status);
    let status = match (signal, exit) {
        (Some(signal), _) => format!("signal {signal}"),
        (None, Some(exit)) => format!("exit status {exit}"),
        (None, None) => "it is still there".to_owned(),
    };
    JailError::Died { status, said }
}

/// The end of its messages, on one line.
async fn said(child: &mut Child) -> String {
    let mut bytes = Vec::new();
    let mut messages = (&mut child.messages).take(READ_BYTES as u64);
    let _all = timeout(END_MAX, messages.read_to_end(&mut bytes)).await;
    let text = String::from_utf8_lossy(&bytes);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let start = line.ceil_char_boundary(line.len().saturating_sub(MESSAGE_BYTES_MAX));
    line[start..].to_owned()
}
