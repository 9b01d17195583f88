//! Facts that were looked at again, made quiet: what only trembles (a clock rate, a few megabytes)
//! does not make the scheduler look at every job again.

use protocol_model::{Node, UnixNanos};

use super::{class, set};

/// Free space that changes by less than this share of the disk, and less than
/// [`DISK_STEP_MIB`], is no news.
const DISK_SHARE: i64 = 20;
/// The least change of free space that is news.
const DISK_STEP_MIB: i64 = 1024;
/// Attributes that are measured anew every time and say nothing new.
const TREMBLING: [&str; 3] = ["cpu.frequency", "cpu.totalcompute", "cpu.usablecompute"];

/// The facts to go on with: `fresh`, except where it only trembles around `previous`. `held_mib` is
/// what live allocations may use of the disk: it is theirs already, so that what they have written
/// is not taken from the node a second time.
pub(crate) fn settle(previous: &Node, mut fresh: Node, held_mib: i64) -> Node {
    if fresh.attributes.get("cpu.numcores") == previous.attributes.get("cpu.numcores") {
        for name in TREMBLING {
            if let Some(value) = previous.attributes.get(name) {
                fresh.attributes.insert(name.to_owned(), value.clone());
            }
        }
        fresh.node_resources.cpu.cpu_shares = previous.node_resources.cpu.cpu_shares;
    }
    keep_update_times(previous, &mut fresh);
    add_held(&mut fresh, held_mib);
    let (before, now) = (
        previous.node_resources.disk.disk_mb,
        fresh.node_resources.disk.disk_mb,
    );
    let step = DISK_STEP_MIB.max(total_mib(&fresh) / DISK_SHARE);
    if before.saturating_sub(now).abs() < step {
        fresh.node_resources.disk.disk_mb = before;
        let free = "unique.storage.bytesfree";
        if let Some(value) = previous.attributes.get(free) {
            fresh.attributes.insert(free.to_owned(), value.clone());
        }
    }
    // What the control plane adds is its own.
    fresh.computed_class = class::of(&fresh);
    fresh
}

/// The facts to begin with: those of the last daemon, where what is found only trembles around
/// them. Where anything else changed, all that is found counts: everybody looks anyway.
pub(crate) fn begin(last: Option<&Node>, mut fresh: Node, held_mib: i64) -> Node {
    if let Some(last) = last {
        if settle(last, fresh.clone(), held_mib) == *last {
            return last.clone();
        }
        keep_update_times(last, &mut fresh);
    }
    add_held(&mut fresh, held_mib);
    fresh
}

/// Drivers that are as before changed when they last did, not now.
fn keep_update_times(previous: &Node, fresh: &mut Node) {
    for (name, driver) in &mut fresh.drivers {
        if let Some(before) = previous.drivers.get(name)
            && before.same_but_time(driver)
            && before.update_time.is_some()
        {
            driver.update_time = before.update_time;
        }
    }
}

/// Counts what live allocations may use as the node's, up to the whole disk.
fn add_held(node: &mut Node, held_mib: i64) {
    let total = total_mib(node);
    let disk = &mut node.node_resources.disk;
    let most = if total > 0 { total } else { i64::MAX };
    disk.disk_mb = disk.disk_mb.saturating_add(held_mib.max(0)).min(most);
}

/// The facts of a host that cannot run tasks any more: nothing new is placed on it.
pub(crate) fn unfit(previous: &Node, reason: &str, now: UnixNanos) -> Node {
    let mut node = previous.clone();
    for (name, driver) in &mut node.drivers {
        if driver.healthy {
            driver.healthy = false;
            driver.health_description = reason.to_owned();
            driver.update_time = Some(now);
            node.attributes.remove(&format!("driver.{name}"));
        }
    }
    set(&mut node, "drover.unfit", reason);
    node.computed_class = class::of(&node);
    node
}

fn total_mib(node: &Node) -> i64 {
    let bytes = node.attributes.get("unique.storage.bytestotal");
    let bytes = bytes.and_then(|bytes| bytes.parse::<u64>().ok());
    bytes.map_or(0, |bytes| {
        i64::try_from(bytes / super::MIB).unwrap_or(i64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use protocol_model::{DriverInfo, NodeId};

    use super::*;

    fn node(free_mib: i64, mhz: u64) -> Node {
        let mut node = Node::new(NodeId::from_u128(1), "a", "dc1");
        set(&mut node, "cpu.numcores", 4);
        set(&mut node, "cpu.frequency", mhz);
        set(&mut node, "unique.storage.bytestotal", 100_u64 << 30);
        set(&mut node, "unique.storage.bytesfree", free_mib << 20);
        node.node_resources.disk.disk_mb = free_mib;
        node.node_resources.cpu.cpu_shares = i64::try_from(mhz * 4).unwrap();
        node
    }

    #[test]
    fn what_trembles_is_no_news() {
        let before = settle(&node(50_000, 2000), node(50_000, 2000), 0);
        assert_eq!(settle(&before, node(47_000, 2311), 0), before);
    }

    #[test]
    fn a_disk_that_fills_up_is_news() {
        let before = settle(&node(50_000, 2000), node(50_000, 2000), 0);
        let after = settle(&before, node(40_000, 2000), 0);
        assert_eq!(after.node_resources.disk.disk_mb, 40_000);
        assert_ne!(after, before);
    }

    #[test]
    fn a_daemon_begins_with_the_last_facts_where_nothing_but_what_trembles_changed() {
        let last = settle(&node(50_000, 2000), node(50_000, 2000), 0);
        let again = |fresh| begin(Some(&last), fresh, 0);
        assert_eq!(again(node(49_900, 2311)), last);
        let held = begin(Some(&last), node(40_000, 2311), 9_900);
        assert_eq!(held, last, "what its allocations wrote is theirs");
        let mut moved = node(49_900, 2311);
        moved.meta.insert("rack".to_owned(), "r2".to_owned());
        assert_eq!(again(moved.clone()), moved, "measured anew");
        assert_eq!(
            again(node(30_000, 2000)).node_resources.disk.disk_mb,
            30_000
        );
    }

    #[test]
    fn what_allocations_hold_is_not_counted_twice() {
        let before = settle(&node(50_000, 2000), node(50_000, 2000), 0);
        // They were given 20000, and have written all of it.
        let after = settle(&before, node(30_000, 2000), 20_000);
        assert_eq!(after.node_resources.disk.disk_mb, 50_000);
        let most = settle(&before, node(90_000, 2000), 50_000);
        assert_eq!(most.node_resources.disk.disk_mb, 100 * 1024);
    }

    #[test]
    fn a_driver_that_did_not_change_keeps_the_time_of_its_last_change() {
        let with_driver = |healthy, at| {
            let mut node = node(50_000, 2000);
            let info = DriverInfo {
                healthy,
                update_time: Some(UnixNanos(at)),
                ..DriverInfo::default()
            };
            node.drivers.insert("exec".to_owned(), info);
            node
        };
        let time = |node: &Node| node.drivers["exec"].update_time.map(|at| at.0);
        let before = settle(&with_driver(true, 1), with_driver(true, 1), 0);
        assert_eq!(settle(&before, with_driver(true, 2), 0), before);
        assert_eq!(time(&settle(&before, with_driver(false, 3), 0)), Some(3));
        assert_eq!(begin(Some(&before), with_driver(true, 4), 0), before);
        let mut moved = with_driver(true, 5);
        moved.meta.insert("rack".to_owned(), "r2".to_owned());
        assert_eq!(time(&begin(Some(&before), moved, 0)), Some(1));
    }

    #[test]
    fn another_attribute_is_news_and_changes_the_class() {
        let before = settle(&node(50_000, 2000), node(50_000, 2000), 0);
        let mut fresh = node(50_000, 2000);
        fresh.meta.insert("rack".to_owned(), "r2".to_owned());
        let after = settle(&before, fresh, 0);
        assert_ne!(after.computed_class, before.computed_class);
    }

    #[test]
    fn an_unfit_host_has_no_healthy_driver_and_says_why() {
        let mut before = node(50_000, 2000);
        let healthy = DriverInfo {
            healthy: true,
            ..DriverInfo::default()
        };
        before.drivers.insert("exec".to_owned(), healthy);
        set(&mut before, "driver.exec", 1);
        let after = unfit(&before, "the cgroup is gone", UnixNanos(7));
        assert_eq!(after.drivers["exec"].update_time, Some(UnixNanos(7)));
        assert_eq!(
            after.drivers["exec"].health_description,
            "the cgroup is gone"
        );
        assert!(!after.drivers["exec"].healthy);
        assert!(!after.attributes.contains_key("driver.exec"));
    }
}
