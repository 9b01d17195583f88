//! What the host as a whole uses.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::SAMPLE;
use crate::calls::{CallEnd, CallServer, Replies};
use crate::clock;
use crate::fingerprint::{device_of, disk, meminfo};
use crate::input::Question;

impl CallServer {
    pub(in crate::calls) async fn host_stats(&self, replies: &mut Replies) -> Result<(), CallEnd> {
        let before = cpu_times();
        tokio::time::sleep(SAMPLE).await;
        let after = cpu_times();
        let cpus: Vec<Value> = after
            .iter()
            .filter(|(name, _)| name.as_str() != "cpu")
            .filter_map(|(name, times)| Some(cpu_shown(name, before.get(name)?, times)))
            .collect();
        let busy: f64 = cpus.iter().filter_map(|cpu| cpu["Total"].as_f64()).sum();
        let consumed = busy / 100.0 * f64_of(self.core_mhz);
        let data_dir = self.data_dir.clone();
        let disks = self
            .look(move |_| Ok([disk_shown(&data_dir), disk_shown(Path::new("/"))]))
            .await?;
        let [data, root] = disks;
        let (answer, backlog) = oneshot::channel();
        self.ask(Question::Backlog { answer }).await?;
        let backlog = backlog.await.map_err(|_| CallEnd::Gone)?;
        let total = meminfo("MemTotal");
        let (free, available) = (meminfo("MemFree"), meminfo("MemAvailable"));
        let answer = json!({
            "AllocDirStats": data,
            "CPU": cpus,
            "CPUTicksConsumed": consumed,
            "DiskStats": [root],
            "DeviceStats": [],
            "Memory": {
                "Available": available,
                "Free": free,
                "Total": total,
                "Used": total.saturating_sub(available),
            },
            "Updates": {
                "Waiting": backlog.waiting,
                "InFlight": backlog.in_flight,
                "ClockStepsBack": backlog.clock_steps_back,
                "OldestSeconds": backlog.oldest.as_secs_f64(),
            },
            "Timestamp": clock::wall().0,
            "Uptime": clock::moment().0.as_secs(),
        });
        replies.json(&answer).await
    }
}

/// Ticks of each line `cpu*` of `/proc/stat`: user, system, idle, all.
fn cpu_times() -> BTreeMap<String, [u64; 4]> {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    text.lines()
        .filter(|line| line.starts_with("cpu"))
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next()?.to_owned();
            let ticks: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
            let at = |offset: usize| ticks.get(offset).copied().unwrap_or(0);
            // user + nice, system + interrupts, idle + waiting
            let (user, system) = (at(0) + at(1), at(2) + at(5) + at(6));
            Some((
                name,
                [user, system, at(3) + at(4), ticks.iter().take(8).sum()],
            ))
        })
        .collect()
}

fn cpu_shown(name: &str, before: &[u64; 4], after: &[u64; 4]) -> Value {
    let ticks = |offset: usize| f64_of(after[offset].saturating_sub(before[offset]));
    let all = ticks(3).max(1.0);
    let part = |offset: usize| ticks(offset) / all * 100.0;
    json!({
        "CPU": name,
        "User": part(0),
        "System": part(1),
        "Idle": part(2),
        "Total": 100.0 - part(2),
    })
}

fn disk_shown(path: &Path) -> Value {
    let disk = disk(path);
    json!({
        "Device": device_of(path),
        "Mountpoint": path.display().to_string(),
        "Size": disk.total,
        "Available": disk.free,
        "Used": disk.used,
        "UsedPercent": share(disk.shared(), disk.free),
        "InodesUsedPercent": share(disk.inodes_total, disk.inodes_free),
    })
}

#[expect(
    clippy::cast_precision_loss,
    reason = "shown with a few digits; beyond 2^53 nobody looks at the last"
)]
pub(super) fn f64_of(value: u64) -> f64 {
    value as f64
}

/// What is not free, in percent.
fn share(total: u64, free: u64) -> f64 {
    f64_of(total.saturating_sub(free)) / f64_of(total).max(1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_s_processors_are_read() {
        assert!(cpu_times().contains_key("cpu0"));
        let shown = cpu_shown("cpu0", &[0, 0, 0, 0], &[25, 25, 50, 100]);
        assert_eq!(shown["Total"], 50.0);
    }

    #[test]
    fn a_disk_has_a_device_and_shares() {
        let shown = disk_shown(Path::new("/"));
        assert!(shown["Device"].as_str().is_some_and(|it| !it.is_empty()));
        let used = shown["UsedPercent"].as_f64().unwrap();
        assert!((0.0..=100.0).contains(&used), "{used}");
        assert!((share(200, 50) - 75.0).abs() < 0.01);
    }
}
