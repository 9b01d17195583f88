//! The qemu process: started, listened to, ended.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::image::Image;
use super::{Options, Priority, TESTS_TIME_MAX};

/// Programs without optimization, three daemons, a Python or two.
const MEMORY_MIB: u32 = 2048;
/// From the guest's last word to the end of qemu.
const END_TIME_MAX: Duration = Duration::from_secs(90);
/// Of the report; beyond, the guest waits until they are read.
const LINES_WAITING_MAX: usize = 256;
const CONSOLE_LINES_SHOWN: usize = 40;

/// What the guest is started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The tests run and report on the second serial line, which is qemu's standard output.
    Tests,
    /// A person has the first serial line.
    Shell,
}

/// A running guest. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Machine {
    child: Child,
    purpose: Purpose,
    lines: Receiver<String>,
    console: PathBuf,
    deadline: Instant,
}

impl Machine {
    /// Starts the guest.
    ///
    /// # Errors
    /// If qemu cannot be started.
    pub(super) fn start(
        folder: &Path,
        image: &Image,
        load: &Path,
        purpose: Purpose,
        options: &Options,
    ) -> anyhow::Result<Self> {
        let console = folder.join("console.log");
        let mut command = hardware(image, load, options.priority);
        command.args([
            "-append",
            &kernel_command_line(purpose, options.only.as_deref()),
        ]);
        // What the guest writes to its disk goes to a file without a name beside the image.
        command.env("TMPDIR", folder);
        match purpose {
            Purpose::Tests => {
                let file = format!("file:{}", console.display());
                command.args(["-serial", &file, "-serial", "stdio"]);
                let log = folder.join("qemu.log");
                let errors =
                    File::create(&log).with_context(|| format!("create {}", log.display()))?;
                command
                    .stdin(Stdio::null())
                    .stdout(Stdio::piped())
                    .stderr(errors);
            }
            Purpose::Shell => {
                command.args(["-serial", "mon:stdio"]);
            }
        }
        let mut child = command.spawn().context("start qemu-system-x86_64")?;
        let (sender, lines) = sync_channel(LINES_WAITING_MAX);
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(output).split(b'\n') {
                    let Ok(line) = line else { return };
                    let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        Ok(Self {
            child,
            purpose,
            lines,
            console,
            deadline: Instant::now() + TESTS_TIME_MAX,
        })
    }

    /// The next line of the report.
    ///
    /// # Errors
    /// If the guest has ended or is over its time; the error has the end of its console.
    pub(super) fn next_line(&self) -> anyhow::Result<String> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        self.lines.recv_timeout(left).map_err(|error| {
            let what = match error {
                RecvTimeoutError::Disconnected => "ended before its tests did".to_owned(),
                RecvTimeoutError::Timeout => {
                    format!(
                        "was not done within {} minutes",
                        TESTS_TIME_MAX.as_secs() / 60
                    )
                }
            };
            let console = self.console_end();
            anyhow::anyhow!("the guest {what}; its console ends with:\n{console}")
        })
    }

    /// Waits until the guest has switched itself off; a person may take all day.
    ///
    /// # Errors
    /// If it does not, or qemu failed.
    pub(super) fn wait_for_end(mut self) -> anyhow::Result<()> {
        if self.purpose == Purpose::Tests {
            let deadline = Instant::now() + END_TIME_MAX;
            while self.child.try_wait()?.is_none() {
                if Instant::now() >= deadline {
                    bail!(
                        "the guest does not switch off; its console ends with:\n{}",
                        self.console_end()
                    );
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        let status = self.child.wait()?;
        anyhow::ensure!(status.success(), "qemu: {status}");
        Ok(())
    }

    /// What kernel and systemd said last.
    pub(super) fn console_end(&self) -> String {
        let bytes = std::fs::read(&self.console).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(CONSOLE_LINES_SHOWN)..].join("\n")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // Nothing is left to report an error to.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Two processors, two disks, and nothing else: no display, no network.
fn hardware(image: &Image, load: &Path, priority: Priority) -> Command {
    let mut command = match priority {
        Priority::Normal => Command::new("qemu-system-x86_64"),
        Priority::BehindTests => {
            let mut nice = Command::new("nice");
            nice.args(["--adjustment=8", "qemu-system-x86_64"]);
            nice
        }
    };
    command
        .args(["-machine", "q35", "-accel", "tcg,thread=multi"])
        .args(["-cpu", "max", "-smp", "2", "-m", &MEMORY_MIB.to_string()])
        .args(["-nodefaults", "-display", "none", "-nic", "none"])
        .arg("-kernel")
        .arg(image.kernel())
        .arg("-initrd")
        .arg(image.initial_file_system())
        // What is lost with the host's power was not worth keeping.
        .arg("-drive")
        .arg(drive(&image.root_disk(), "snapshot=on,cache=unsafe"))
        .arg("-drive")
        .arg(drive(load, "readonly=on"));
    command
}

fn drive(path: &Path, options: &str) -> String {
    // A comma in a path would begin an option; qemu wants it twice.
    let path = path.display().to_string().replace(',', ",,");
    format!("file={path},format=raw,if=virtio,{options}")
}

fn kernel_command_line(purpose: Purpose, only: Option<&str>) -> String {
    let mut line = "root=LABEL=drover-root rw console=ttyS0,115200".to_owned();
    if purpose == Purpose::Tests {
        // Not `quiet`: where the guest hangs, the console is all there is.
        line.push_str(" drover.tests");
    }
    if let Some(only) = only {
        line.push_str(" drover.only=");
        line.push_str(&only.replace(' ', "_"));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_one_word_of_the_kernel_s_command_line() {
        let line = kernel_command_line(Purpose::Tests, Some("the keeper"));
        assert!(
            line.ends_with("drover.tests drover.only=the_keeper"),
            "{line}"
        );
        assert!(!kernel_command_line(Purpose::Shell, None).contains("drover.tests"));
    }

    #[test]
    fn a_comma_in_a_path_begins_no_option() {
        let text = drive(Path::new("/a,b"), "readonly=on");
        assert_eq!(text, "file=/a,,b,format=raw,if=virtio,readonly=on");
    }
}
