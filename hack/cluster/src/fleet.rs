//! Many simulated nodes beside a cluster: one `nodesim` process, told what to do line by line.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::binaries::Program;
use crate::cluster::{Cluster, JOIN_TOKEN};

/// Longer than anything that a test asks for.
const ANSWER_MAX: Duration = Duration::from_secs(180);

/// Simulated nodes with real sessions. Dropping it ends them.
#[derive(Debug)]
pub struct Fleet {
    /// Ended when it is dropped.
    _process: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Fleet {
    /// Starts `nodes` nodes and waits until all of them are in a session.
    ///
    /// # Errors
    /// When some do not get there.
    pub async fn start(cluster: &Cluster, nodes: usize) -> anyhow::Result<Self> {
        let token = cluster.folder().join("join-token");
        std::fs::write(&token, JOIN_TOKEN)?;
        let servers: Vec<String> = (0..cluster.len())
            .map(|number| format!("127.0.0.1:{}", cluster.ports(number).quic))
            .collect();
        let [authority, certificate, key] = cluster.certificates.files("node");
        let log = std::fs::File::create(cluster.folder().join("nodesim.log"))?;
        let mut process = Command::new(Program::Nodesim.path()?)
            .args(["--servers", &servers.join(",")])
            .args(["--nodes", &nodes.to_string()])
            .arg("--ca")
            .arg(authority)
            .arg("--cert")
            .arg(certificate)
            .arg("--key")
            .arg(key)
            .arg("--join-token-file")
            .arg(token)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start nodesim")?;
        let commands = process.stdin.take().context("no way to tell it")?;
        let answers = process.stdout.take().context("no way to hear it")?;
        let mut fleet = Self {
            _process: process,
            commands,
            answers: BufReader::new(answers).lines(),
        };
        let begun = fleet.answer().await?;
        ensure!(
            begun["missing"] == 0,
            "not all nodes got a session: {begun}"
        );
        Ok(fleet)
    }

    /// Tells it one line; answers what it says to it.
    ///
    /// # Errors
    /// When it could not be done.
    pub async fn tell(&mut self, command: &str) -> anyhow::Result<Value> {
        let line = format!("{command}\n");
        self.commands.write_all(line.as_bytes()).await?;
        let answer = self.answer().await?;
        ensure!(answer["error"].is_null(), "{command}: {answer}");
        Ok(answer)
    }

    async fn answer(&mut self) -> anyhow::Result<Value> {
        let line = timeout(ANSWER_MAX, self.answers.next_line()).await;
        let line = line.context("nodesim does not answer")??;
        let line = line.context("nodesim ended; its log is nodesim.log")?;
        Ok(serde_json::from_str(&line)?)
    }
}
