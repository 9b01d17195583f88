//! Links between servers that are cut, both ways or one way: whether a node leaves `ready`, and who
//! leads. Servers say everything to each other over one link (the log, who was heard, requests that
//! are handed on), so that all of it is cut; nodes reach all of them all the time.

use std::time::Duration;

use hack_cluster::OwnNet;

use super::{NODES, Scene, give_share, look, none_row, say, wait_calm};
use crate::fleet::servers;
use crate::http::Ask as _;
use crate::row::Row;

/// For how long: much longer than an election, and than a node may be silent with everything that
/// is added to that.
const CUT: Duration = Duration::from_secs(15);

/// What all figures of this part are called together.
pub(super) const FIGURE: &str = "links between servers cut, nodes that left ready";

/// What is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// Both ways between two servers.
    Between(usize, usize),
    /// What the first one says to the second.
    OneWay(usize, usize),
}

impl Cut {
    /// Pairs of servers: what the first says to the second is lost.
    fn ways(self) -> Vec<(usize, usize)> {
        match self {
            Self::Between(one, other) => vec![(one, other), (other, one)],
            Self::OneWay(from, to) => vec![(from, to)],
        }
    }

    /// The server that is cut off from the leader, if one is.
    fn cut_off(self, leader: usize) -> Option<usize> {
        match self {
            Self::Between(one, other) | Self::OneWay(one, other) => match leader {
                it if it == one => Some(other),
                it if it == other => Some(one),
                _ => None,
            },
        }
    }

    fn describe(self, leader: usize) -> String {
        let role = |server| {
            if server == leader {
                "the leader"
            } else {
                "a follower"
            }
        };
        match self {
            Self::Between(..) if self.cut_off(leader).is_some() => {
                "the link of the leader and a follower".to_owned()
            }
            Self::Between(..) => "the link of two followers".to_owned(),
            Self::OneWay(from, to) => format!("the way from {} to {}", role(from), role(to)),
        }
    }
}

/// Cuts every link between two servers, one after the other, then one link of the leader in either
/// direction only.
///
/// # Errors
/// If the cluster does not recover.
pub(super) fn rows(scene: &mut Scene, net: &OwnNet) -> anyhow::Result<Vec<Row>> {
    wait_calm(scene)?;
    let mut rows = Vec::new();
    for cut in links(scene.servers.len()) {
        rows.push(row(scene, net, |_| cut)?);
    }
    let next = |leader: usize| (leader + 1) % super::SERVERS;
    rows.push(row(scene, net, |leader| Cut::OneWay(leader, next(leader)))?);
    rows.push(row(scene, net, |leader| Cut::OneWay(next(leader), leader))?);
    Ok(rows)
}

/// Every link between two of so many servers.
fn links(servers: usize) -> Vec<Cut> {
    let all = (0..servers).flat_map(|one| (0..one).map(move |other| Cut::Between(other, one)));
    all.collect()
}

fn row(scene: &mut Scene, net: &OwnNet, cut: impl Fn(usize) -> Cut) -> anyhow::Result<Row> {
    let leader = scene.servers.leads()?;
    let cut = cut(leader);
    let what = cut.describe(leader);
    eprintln!("-- {what} is cut for {} s: {cut:?}", CUT.as_secs());
    if let Some(server) = cut.cut_off(leader) {
        give_share(scene, server)?;
    }
    let before = look::all_ready(&scene.servers, NODES)?;
    eprintln!("   before: {}", servers::describe(&scene.servers));
    let port = |number| scene.servers.ports(number).quic;
    let ways = cut.ways().into_iter();
    let ways: Vec<(u16, u16)> = ways.map(|(from, to)| (port(from), port(to))).collect();
    scene.nodes.tell("mark")?;
    net.cut(&ways)?;
    std::thread::sleep(CUT);
    eprintln!("   cut:    {}", servers::describe(&scene.servers));
    net.cut(&[])?;
    wait_calm(scene)?;
    let stats = scene.nodes.wait_live()?;
    eprintln!("   healed: {}", servers::describe(&scene.servers));
    say("sessions", &stats["ways"]);
    // Whatever left and came back has another index.
    let after = look::all_ready(&scene.servers, NODES)?;
    let figure = format!("{what} cut for {} s, nodes that left ready", CUT.as_secs());
    none_row(figure, look::left(&before, &after, &[]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_is_cut_once_and_is_called_by_who_is_at_its_ends() {
        let cuts = links(3);
        let expected = [Cut::Between(0, 1), Cut::Between(0, 2), Cut::Between(1, 2)];
        assert_eq!(cuts, expected);
        assert_eq!(cuts[1].ways(), [(0, 2), (2, 0)]);
        let of_leader = "the link of the leader and a follower";
        let cut_off = cuts.iter().map(|cut| cut.cut_off(1));
        assert_eq!(cut_off.collect::<Vec<_>>(), [Some(0), None, Some(2)]);
        let named = cuts.iter().map(|cut| cut.describe(1));
        let expected = [of_leader, "the link of two followers", of_leader];
        assert_eq!(named.collect::<Vec<_>>(), expected);
        let one_way = Cut::OneWay(1, 2);
        assert_eq!(one_way.ways(), [(1, 2)]);
        let named = [one_way.describe(1), one_way.describe(2)];
        assert_eq!(named[0], "the way from the leader to a follower");
        assert_eq!(named[1], "the way from a follower to the leader");
    }
}
