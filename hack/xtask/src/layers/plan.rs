//! The plan of a test run: which layer a crate's tests belong to, and which lane runs them.
//!
//! A lane runs its executables one after the other, and the lanes run side by side. Tests of real
//! clusters and tests of one host spend most of their time waiting, so the tests that compute fill
//! the processors meanwhile.

use super::build::Executable;

/// The layers of ARCHITECTURE.md that exist, in the order in which they build on each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LayerName {
    /// Decisions: examples, tables, properties; no root, no network.
    Pure,
    /// Real processes, sockets, QUIC and disks on this host.
    Process,
    /// The kernel: namespaces, cgroups, signals. Needs root.
    Root,
    /// The programs themselves: clusters that are killed and restarted.
    RealProcesses,
    /// The checks and tools themselves.
    Tools,
    /// The README's command from start to end.
    EndToEnd,
    /// A host under systemd with all of cgroup v2: an emulated one.
    RealHost,
}

impl LayerName {
    pub(super) const ALL: [Self; 7] = [
        Self::Pure,
        Self::Process,
        Self::Root,
        Self::RealProcesses,
        Self::Tools,
        Self::EndToEnd,
        Self::RealHost,
    ];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Pure => "pure",
            Self::Process => "process and quic",
            Self::Root => "root and syscalls",
            Self::RealProcesses => "real processes",
            Self::Tools => "tools",
            Self::EndToEnd => "end to end",
            Self::RealHost => "real host",
        }
    }
}

/// What runs one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lane {
    /// Clusters of real processes. They wait for elections and timeouts.
    Clusters,
    /// Tests of one host: sockets, disks, processes. They wait, too, but for less; a cluster's
    /// heartbeats go first.
    Host,
    /// Tests that only compute. They run at a lower priority, so that they delay no other test's
    /// heartbeat.
    Computing,
}

impl Lane {
    pub(super) const ALL: [Self; 3] = [Self::Clusters, Self::Host, Self::Computing];

    /// The `nice` value of the lane's executables.
    pub(super) const fn nice(self) -> u8 {
        match self {
            Self::Clusters => 0,
            Self::Host => 5,
            Self::Computing => 15,
        }
    }
}

/// How the tests of one crate are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) crate_name: &'static str,
    pub(super) layer: LayerName,
    pub(super) lane: Lane,
    /// Tests of one executable that run at the same time.
    pub(super) threads: usize,
}

const fn row(crate_name: &'static str, layer: LayerName, lane: Lane, threads: usize) -> Row {
    Row {
        crate_name,
        layer,
        lane,
        threads,
    }
}

/// Every crate with tests. Within a lane the executables run in this order: long ones first, so
/// that none begins alone at the end.
const ROWS: &[Row] = &[
    row("hack-e2e", LayerName::RealProcesses, Lane::Clusters, 3),
    row("noded-daemon", LayerName::Process, Lane::Host, 2),
    row("noded-keeper", LayerName::Root, Lane::Host, 2),
    row("controlplane-server", LayerName::Process, Lane::Host, 2),
    row("controlplane-keyring", LayerName::Process, Lane::Host, 2),
    row("controlplane-raft", LayerName::Process, Lane::Host, 2),
    row("hack-nodesim", LayerName::Process, Lane::Host, 2),
    row("protocol-transport", LayerName::Process, Lane::Host, 2),
    row("controlplane-cli", LayerName::Process, Lane::Host, 2),
    row("protocol-client", LayerName::Process, Lane::Host, 2),
    row("noded-jail", LayerName::Root, Lane::Host, 2),
    row("isolation", LayerName::Root, Lane::Host, 2),
    row("netns", LayerName::Root, Lane::Host, 2),
    row("hack-cluster", LayerName::Process, Lane::Host, 2),
    row("hack-sim", LayerName::Pure, Lane::Computing, 2),
    row("hack-sim-cluster", LayerName::Process, Lane::Computing, 2),
    row("hack-model-check", LayerName::Pure, Lane::Computing, 2),
    row("controlplane-state", LayerName::Pure, Lane::Computing, 2),
    row("hack-fuzz", LayerName::Pure, Lane::Computing, 2),
    row(
        "controlplane-scheduler",
        LayerName::Pure,
        Lane::Computing,
        2,
    ),
    row("noded-core", LayerName::Pure, Lane::Computing, 2),
    row("noded-template", LayerName::Pure, Lane::Computing, 2),
    row("noded-artifact", LayerName::Process, Lane::Host, 2),
    row("controlplane-leader", LayerName::Pure, Lane::Computing, 2),
    row("protocol-access", LayerName::Pure, Lane::Computing, 2),
    row("protocol-api", LayerName::Pure, Lane::Computing, 2),
    row("protocol-error-chain", LayerName::Pure, Lane::Computing, 1),
    row("protocol-jobspec", LayerName::Pure, Lane::Computing, 2),
    row("protocol-model", LayerName::Pure, Lane::Computing, 2),
    row("protocol-wire", LayerName::Pure, Lane::Computing, 2),
    row("hack-xtask", LayerName::Tools, Lane::Computing, 2),
    row("hack-bench", LayerName::Tools, Lane::Host, 2),
    row("hack-testkit", LayerName::Tools, Lane::Computing, 2),
];

/// How a crate's tests are run; `None` for a crate that nobody entered in the table.
pub(super) fn row_of(crate_name: &str) -> Option<Row> {
    ROWS.iter()
        .copied()
        .find(|row| row.crate_name == crate_name)
}

/// The executables of each lane, in the order of the table. A crate without a row is run last in
/// the lane that computes, and fails the run in the account.
pub(super) fn queues(executables: Vec<Executable>) -> Vec<(Lane, Vec<Executable>)> {
    let mut queues: Vec<(Lane, Vec<Executable>)> = Lane::ALL
        .into_iter()
        .map(|lane| (lane, Vec::new()))
        .collect();
    let place = |executable: &Executable| {
        let known = ROWS
            .iter()
            .position(|row| row.crate_name == executable.crate_name);
        known.unwrap_or(ROWS.len())
    };
    let mut sorted = executables;
    sorted.sort_by_key(place);
    for executable in sorted {
        let lane = row_of(&executable.crate_name).map_or(Lane::Computing, |row| row.lane);
        if let Some((_, queue)) = queues.iter_mut().find(|(name, _)| *name == lane) {
            queue.push(executable);
        }
    }
    queues
}

/// The crates of one layer.
#[cfg(test)]
pub(super) fn crates_of(layer: LayerName) -> impl Iterator<Item = &'static str> {
    let rows = ROWS.iter().filter(move |row| row.layer == layer);
    rows.map(|row| row.crate_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executable(crate_name: &str) -> Executable {
        Executable {
            crate_name: crate_name.to_owned(),
            target: "it".to_owned(),
            program: "/it".into(),
            folder: "/".into(),
            version: "0.1.0".to_owned(),
        }
    }

    #[test]
    fn executables_go_to_their_lane_in_the_order_of_the_table() {
        let names = ["netns", "noded-daemon", "hack-e2e", "new-crate", "hack-sim"];
        let lanes = queues(names.into_iter().map(executable).collect());
        let names: Vec<Vec<&str>> = lanes
            .iter()
            .map(|(_, queue)| queue.iter().map(|it| it.crate_name.as_str()).collect())
            .collect();
        let expected: Vec<Vec<&str>> = vec![
            vec!["hack-e2e"],
            vec!["noded-daemon", "netns"],
            vec!["hack-sim", "new-crate"],
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn no_crate_has_two_rows() {
        let mut names: Vec<&str> = ROWS.iter().map(|row| row.crate_name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROWS.len());
    }
}
