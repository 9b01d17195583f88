//! Clients that run a command below one lock again and again, and the witness of their commands.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use hack_cluster::binaries::Program;
use hack_cluster::eventually;
use tokio::process::Command;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::link::Link;

/// How often a command looks whether it may end.
const TURN: Duration = Duration::from_millis(100);
/// The pause of a client between two commands: the other one has its turn.
const PAUSE: Duration = Duration::from_millis(1500);

/// The command: it ignores SIGTERM, and owns the witness `inside` while it lives. Where it finds
/// the witness with another process that lives, or loses it, two of them run at once.
const SCRIPT: &str = r#"
trap '' TERM
folder=$1 name=$2
started() { cut -d' ' -f22 "/proc/$1/stat" 2>/dev/null; }
state() { cut -d' ' -f3 "/proc/$1/stat" 2>/dev/null; }
say() { echo "$1 $name $$ $(cut -d' ' -f1 /proc/uptime)" 2>/dev/null >> "$folder/log"; }
own="$$ $(started $$)"
if ! ln -s "$own" "$folder/inside" 2>/dev/null; then
    other=$(readlink "$folder/inside")
    pid=${other% *}
    if [ "$(started "$pid")" = "${other#* }" ] && [ "$(state "$pid")" != Z ]; then say two; fi
    ln -sfn "$own" "$folder/inside"
fi
say begin
turns=0
while [ $turns -lt 40 ] || [ -e "$folder/stay" ]; do
    sleep 0.1
    turns=$((turns + 1))
    if [ "$(readlink "$folder/inside")" != "$own" ]; then say two; exit 9; fi
done
say end
rm "$folder/inside"
"#;

/// A line of the witness.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Line {
    /// `begin`, `end` or `two`.
    pub(super) what: String,
    /// The client.
    pub(super) name: String,
    pub(super) pid: i32,
}

/// The folder in which commands leave their traces. The commands end with it.
#[derive(Debug)]
pub(super) struct Witness {
    folder: tempfile::TempDir,
}

impl Witness {
    pub(super) fn new() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("script"), SCRIPT)?;
        Ok(Self { folder })
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// The command of a client.
    fn command(&self, name: &str) -> anyhow::Result<[String; 4]> {
        let text = |path: &Path| path.to_str().map(str::to_owned).context("UTF-8");
        let (script, folder) = (text(&self.path("script"))?, text(self.folder.path())?);
        Ok(["/bin/sh".to_owned(), script, folder, name.to_owned()])
    }

    /// Commands stay inside until [`Self::go`].
    pub(super) fn stay(&self) -> anyhow::Result<()> {
        Ok(std::fs::write(self.path("stay"), "")?)
    }

    /// Commands end after 4 s.
    pub(super) fn go(&self) -> anyhow::Result<()> {
        Ok(std::fs::remove_file(self.path("stay"))?)
    }

    /// Everything that the commands have written.
    pub(super) fn lines(&self) -> anyhow::Result<Vec<Line>> {
        let text = std::fs::read_to_string(self.path("log")).unwrap_or_default();
        let line = |text: &str| {
            let mut words = text.split(' ');
            let mut word = || words.next().context("a word").map(str::to_owned);
            let (what, name, pid) = (word()?, word()?, word()?.parse()?);
            Ok(Line { what, name, pid })
        };
        text.lines().map(line).collect()
    }

    /// Fails where two commands were inside at once.
    pub(super) fn must_hold(&self) -> anyhow::Result<()> {
        let lines = self.lines()?;
        let two = lines.iter().any(|line| line.what == "two");
        ensure!(!two, "two commands ran at once: {lines:#?}");
        Ok(())
    }

    /// Waits until one more command begins, of a client that is wanted.
    pub(super) async fn next(
        &self,
        what: &str,
        patience: Duration,
        is_wanted: impl Fn(&str) -> bool,
    ) -> anyhow::Result<Line> {
        let known = self.lines()?.len();
        eventually(what, patience, async || {
            self.must_hold()?;
            let lines = self.lines()?;
            let mut new = lines.into_iter().skip(known);
            Ok(new.find(|line| line.what == "begin" && is_wanted(&line.name)))
        })
        .await
    }

    /// Waits for a command that stays inside.
    pub(super) async fn inside(&self, patience: Duration) -> anyhow::Result<Line> {
        // A command that was about to end does so.
        tokio::time::sleep(TURN * 5).await;
        eventually("a command that stays", patience, async || {
            let last = self.lines()?.pop();
            Ok(last.filter(|line| line.what == "begin"))
        })
        .await
    }

    /// Two commands without a lock.
    pub(super) async fn two_at_once(&self) -> anyhow::Result<()> {
        let start = |name| {
            let [program, arguments @ ..] = self.command(name)?;
            let child = Command::new(program).args(arguments).spawn()?;
            anyhow::Ok(child)
        };
        let (mut one, mut other) = (start("one")?, start("other")?);
        one.wait().await?;
        other.wait().await?;
        Ok(())
    }
}

/// A client that runs the command below the lock again and again, while its link passes bytes.
#[derive(Debug)]
pub(super) struct Contender {
    pub(super) name: &'static str,
    pub(super) link: Link,
    wants: watch::Sender<bool>,
    running: JoinHandle<anyhow::Result<()>>,
}

impl Contender {
    /// Starts it; its link leads to this port.
    pub(super) async fn start(
        name: &'static str,
        witness: &Witness,
        server: u16,
    ) -> anyhow::Result<Self> {
        let link = Link::to(server).await?;
        let wants = watch::Sender::new(true);
        let (drover, command) = (Program::Drover.path(None)?, witness.command(name)?);
        let address = format!("http://127.0.0.1:{}", link.port);
        let (mut wanted, mut passes) = (wants.subscribe(), link.gate());
        let running = tokio::spawn(async move {
            loop {
                wanted.wait_for(|wants| *wants).await?;
                passes.wait_for(|passes| *passes).await?;
                let mut lock = Command::new(&drover);
                lock.args(["var", "lock", "-ttl=10s", "-delay=1s", "-max-retry=100"])
                    .args(["-verbose", "-shell=false", "app/leader"])
                    .args(&command)
                    .env("NOMAD_ADDR", &address)
                    .env_remove("NOMAD_TOKEN")
                    .stdin(Stdio::null())
                    .kill_on_drop(true);
                let status = lock.status().await?;
                eprintln!("{name}: {status}");
                tokio::time::sleep(PAUSE).await;
            }
        });
        Ok(Self {
            name,
            link,
            wants,
            running,
        })
    }

    /// It does not want the lock again.
    pub(super) fn rest(&self) {
        self.wants.send_replace(false);
    }

    /// Fails where it could not run `drover`.
    pub(super) fn must_run(&self) -> anyhow::Result<()> {
        ensure!(!self.running.is_finished(), "{} does not run", self.name);
        Ok(())
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        self.running.abort();
    }
}
