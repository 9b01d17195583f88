//! One child of `noded-jail`, as noded has one for each piece of work: request, answer, end.
//!
//! noded clones it into a cgroup; here `posix_spawn` starts it. The confinement, which is the
//! child's own work, is the same.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use noded_jail::frame::{decode, encode, read};
use noded_jail::{Report, Work};

/// Does one piece of work; returns after the child's end.
///
/// # Errors
/// The child cannot be started, refuses the work, or fails.
pub(super) fn run<W: Work>(program: &Path, work: &W) -> anyhow::Result<W::Answer> {
    let limits = W::VERB.limits();
    let request = encode(work, limits.request_bytes)?;
    let mut command = Command::new(program);
    command.arg(W::VERB.name()).env_clear();
    command.envs(work.environment().iter().cloned());
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("start {}", program.display()))?;
    // Its closing would end the child.
    let mut input = child.stdin.take().context("no pipe")?;
    let mut output = child.stdout.take().context("no pipe")?;
    let answer = input
        .write_all(&request)
        .map_err(anyhow::Error::from)
        .and_then(|()| {
            loop {
                let content = read(&mut output, limits.answer_bytes)?.context("no answer")?;
                match decode::<Report<W::Answer>>(&content)? {
                    Report::Progress(_) => {}
                    Report::Done(answer) => return Ok(answer),
                    Report::Failed(why) | Report::Refused(why) => bail!("noded-jail: {why}"),
                }
            }
        });
    let status = child.wait()?;
    answer.with_context(|| {
        let mut said = String::new();
        let messages = child
            .stderr
            .take()
            .map(|mut messages| messages.read_to_string(&mut said));
        // Words for people: without them the status remains.
        drop(messages);
        format!("{status}; it wrote: {}", said.trim())
    })
}
