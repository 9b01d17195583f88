//! The program with the simulated nodes: told line by line, answering line by line.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::cluster::servers::Servers;

/// Nodes that begin in a second: what is measured begins when all of them are there.
const RATE: &str = "200";
/// The class of nodes that are all that there is, or as good as all.
pub(crate) const CLASS: &str = "sim";

/// Nodes of one process: the same in every run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fleet {
    /// How many.
    pub(crate) nodes: usize,
    /// What they are called, and how jobs choose them.
    pub(crate) class: &'static str,
    /// What their ids come from.
    pub(crate) seed: u64,
    /// How readily it leaves the processors to others (nice(2)): a real node takes none of them.
    pub(crate) nice: u8,
}

impl Fleet {
    /// `nodes` nodes that are all that there is.
    pub(crate) const fn only(nodes: usize) -> Self {
        Self {
            nodes,
            class: CLASS,
            seed: 7,
            nice: 10,
        }
    }
}

/// Simulated nodes. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Nodesim {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Nodesim {
    /// Starts a fleet and waits until all of them are in a session; answers what it said of
    /// that, too.
    ///
    /// # Errors
    /// If some do not get there.
    pub(crate) fn start(
        program: &Path,
        servers: &Servers,
        fleet: Fleet,
    ) -> anyhow::Result<(Self, Value)> {
        let [authority, certificate, key] = servers.node_files();
        let mut process = Command::new("nice")
            .args(["-n", &fleet.nice.to_string()])
            .arg(program)
            .args(["--servers", &servers.quic_addresses().join(",")])
            .args(["--nodes", &fleet.nodes.to_string()])
            .args(["--rate", RATE, "--seed", &fleet.seed.to_string()])
            .args(["--class", fleet.class])
            .arg("--ca")
            .arg(authority)
            .arg("--cert")
            .arg(certificate)
            .arg("--key")
            .arg(key)
            .arg("--join-token-file")
            .arg(servers.folder().join("join-token"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start nice(1) with {}", program.display()))?;
        let commands = process.stdin.take().context("no way to tell nodesim")?;
        let answers = process.stdout.take().context("no way to hear nodesim")?;
        let mut nodesim = Self {
            process,
            commands,
            answers: BufReader::new(answers),
        };
        let begun = nodesim.answer()?;
        ensure!(
            begun["missing"] == 0,
            "not every node got a session: {begun}"
        );
        Ok((nodesim, begun))
    }

    /// Tells it one line; answers what it says to it.
    ///
    /// # Errors
    /// If it could not be done.
    pub(crate) fn tell(&mut self, command: &str) -> anyhow::Result<Value> {
        self.commands
            .write_all(format!("{command}\n").as_bytes())
            .context("tell nodesim")?;
        let answer = self.answer()?;
        ensure!(answer["error"].is_null(), "{command}: {answer}");
        Ok(answer)
    }

    /// Waits until every node that is not cut off lives; answers what it went through.
    ///
    /// # Errors
    /// If some do not get there.
    pub(crate) fn wait_live(&mut self) -> anyhow::Result<Value> {
        let mut answer = self.tell("live 120")?;
        ensure!(
            answer["missing"] == 0,
            "nodes that found no way back: {answer}"
        );
        Ok(answer["stats"].take())
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    fn answer(&mut self) -> anyhow::Result<Value> {
        let mut line = String::new();
        self.answers.read_line(&mut line).context("hear nodesim")?;
        ensure!(!line.is_empty(), "nodesim ended");
        serde_json::from_str(&line).with_context(|| format!("read an answer of nodesim: {line}"))
    }
}

impl Drop for Nodesim {
    fn drop(&mut self) {
        // Nothing is left to report an error to.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
