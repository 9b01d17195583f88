//! Many simulated nodes beside a cluster: one `nodesim` process, told what to do line by line.

use std::fs::File;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::binaries::Program;
use crate::cluster::{Cluster, JOIN_TOKEN};

/// Longer than anything that is asked for.
const ANSWER_MAX: Duration = Duration::from_secs(180);

/// Simulated nodes with real sessions. Dropping it ends them.
#[derive(Debug)]
pub struct Fleet {
    /// Ended when it is dropped.
    process: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Fleet {
    /// Starts `nodes` nodes and waits until all of them are in a session.
    ///
    /// # Errors
    /// When some do not get there.
    pub async fn start(cluster: &Cluster, nodes: usize) -> anyhow::Result<Self> {
        let log = File::create(cluster.folder().join("nodesim.log"))?;
        let (fleet, begun) = Self::start_with(cluster, nodes, 0, &[], log.into()).await?;
        ensure!(
            begun["missing"] == 0,
            "not all nodes got a session: {begun}"
        );
        Ok(fleet)
    }

    /// The same with `more` arguments of nodesim's, by a process that leaves the processors to
    /// others as readily as `nice` says (nice(2)) and tells `log` how it goes. Answers what it said
    /// of the beginning, too: `missing` nodes got no session within two minutes.
    ///
    /// # Errors
    /// When nodesim does not start.
    pub async fn start_with(
        cluster: &Cluster,
        nodes: usize,
        nice: u8,
        more: &[&str],
        log: Stdio,
    ) -> anyhow::Result<(Self, Value)> {
        let token = cluster.folder().join("join-token");
        std::fs::write(&token, JOIN_TOKEN)?;
        let servers = cluster.quic_addresses().into_iter();
        let servers: Vec<String> = servers.map(|server| server.to_string()).collect();
        let [authority, certificate, key] = cluster.certificates.files("node");
        let mut process = Command::new("nice")
            .args(["-n", &nice.to_string()])
            .arg(Program::Nodesim.path(cluster.settings.programs.as_deref())?)
            .args(["--servers", &servers.join(",")])
            .args(["--nodes", &nodes.to_string()])
            .args(more)
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
            .context("cannot start nice(1) with nodesim")?;
        let commands = process.stdin.take().context("no way to tell it")?;
        let answers = process.stdout.take().context("no way to hear it")?;
        let mut fleet = Self {
            process,
            commands,
            answers: BufReader::new(answers).lines(),
        };
        let begun = fleet.answer().await?;
        Ok((fleet, begun))
    }

    /// Its process id.
    ///
    /// # Errors
    /// When it has ended.
    pub fn id(&self) -> anyhow::Result<u32> {
        self.process.id().context("nodesim ended")
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
        let line = line.context("nodesim ended; its log says why")?;
        Ok(serde_json::from_str(&line)?)
    }
}
