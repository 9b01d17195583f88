//! What tasks and the host use, in the shapes of the API.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use isolation::cgroup::{Stats, TaskPath};
use protocol_wire::v1;
use serde_json::{Value, json};

use super::{CallEnd, CallFailed, CallServer, Replies};
use crate::clock;
use crate::fingerprint::{disk, meminfo};
use crate::input::{AllocView, Liveness};

/// Between the two samples that a rate is made of.
const SAMPLE: Duration = Duration::from_millis(100);

/// One look at a task.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    stats: Stats,
    /// Resident pages of its processes, for hosts without the memory controller.
    resident_bytes: u64,
}

impl CallServer {
    pub(super) async fn stats(
        &self,
        view: &AllocView,
        request: &v1::StatsRequest,
        replies: &mut Replies,
    ) -> Result<(), CallEnd> {
        let wanted = &request.task;
        if !wanted.is_empty() && view.spec.task(wanted).is_none() {
            let problem = format!("unknown task name {wanted:?}");
            return Err(CallFailed::not_found(problem).into());
        }
        let alloc = view.spec.id().to_string();
        let tasks: Vec<&str> = view
            .runs
            .iter()
            .filter(|(run, liveness)| {
                *liveness == Liveness::Alive && (wanted.is_empty() || run.task == *wanted)
            })
            .map(|(run, _)| run.task.as_str())
            .collect();
        let before: BTreeMap<&str, Sample> = self.samples(&alloc, &tasks);
        tokio::time::sleep(SAMPLE).await;
        let after = self.samples(&alloc, &tasks);
        let timestamp = clock::wall().0;
        let mut sum = Usage::default();
        let mut shown = serde_json::Map::new();
        for (task, second) in &after {
            let Some(first) = before.get(task) else {
                continue;
            };
            let usage = Usage::between(first, second);
            sum.add(&usage);
            let value = json!({
                "ResourceUsage": usage.shown(),
                "Timestamp": timestamp,
                "Pids": Value::Null,
            });
            shown.insert((*task).to_owned(), value);
        }
        let answer = json!({
            "ResourceUsage": sum.shown(),
            "Tasks": shown,
            "Timestamp": timestamp,
        });
        replies.json(&answer).await
    }

    fn samples<'a>(&self, alloc: &str, tasks: &[&'a str]) -> BTreeMap<&'a str, Sample> {
        tasks
            .iter()
            // A task that ended meanwhile has none.
            .filter_map(|task| Some((*task, self.sample(alloc, task)?)))
            .collect()
    }

    fn sample(&self, alloc: &str, task: &str) -> Option<Sample> {
        let path = TaskPath::new(alloc, task).ok()?;
        let cgroup = self.executor.hierarchy.open_task(&path).ok()?;
        let stats = cgroup.stat_reader().ok()?.read().ok()?;
        let resident_bytes = match stats.memory_bytes {
            Some(_) => 0,
            None => cgroup.procs().ok()?.into_iter().map(resident).sum(),
        };
        Some(Sample {
            at: Instant::now(),
            stats,
            resident_bytes,
        })
    }

    pub(super) async fn host_stats(&self, replies: &mut Replies) -> Result<(), CallEnd> {
        let before = cpu_times();
        tokio::time::sleep(SAMPLE).await;
        let after = cpu_times();
        let cpus: Vec<Value> = after
            .iter()
            .filter(|(name, _)| name.as_str() != "cpu")
            .filter_map(|(name, times)| Some(cpu_shown(name, before.get(name)?, times)))
            .collect();
        let root = disk_shown(&self.data_dir);
        let total = meminfo("MemTotal");
        let (free, available) = (meminfo("MemFree"), meminfo("MemAvailable"));
        let answer = json!({
            "AllocDirStats": root,
            "CPU": cpus,
            "CPUTicksConsumed": 0.0,
            "DiskStats": [disk_shown(Path::new("/"))],
            "DeviceStats": [],
            "Memory": {
                "Available": available,
                "Free": free,
                "Total": total,
                "Used": total.saturating_sub(available),
            },
            "Timestamp": clock::wall().0,
            "Uptime": clock::moment().0.as_secs(),
        });
        replies.json(&answer).await
    }
}

/// What something uses.
#[derive(Debug, Default)]
struct Usage {
    percent: f64,
    user_percent: f64,
    system_percent: f64,
    throttled_periods: u64,
    throttled_ns: u64,
    memory_bytes: u64,
    swap_bytes: u64,
    pids: u64,
}

impl Usage {
    fn between(first: &Sample, second: &Sample) -> Self {
        let elapsed = second.at.duration_since(first.at).as_secs_f64().max(0.001);
        let rate = |before: u64, after: u64| {
            Duration::from_micros(after.saturating_sub(before)).as_secs_f64() / elapsed * 100.0
        };
        let (a, b) = (&first.stats, &second.stats);
        Self {
            percent: rate(a.cpu_usage_us, b.cpu_usage_us),
            user_percent: rate(a.cpu_user_us, b.cpu_user_us),
            system_percent: rate(a.cpu_system_us, b.cpu_system_us),
            throttled_periods: b.throttled_periods.unwrap_or(0),
            throttled_ns: b.throttled_us.unwrap_or(0).saturating_mul(1000),
            memory_bytes: b.memory_bytes.unwrap_or(second.resident_bytes),
            swap_bytes: b.swap_bytes.unwrap_or(0),
            pids: b.pids.unwrap_or(0),
        }
    }

    fn add(&mut self, other: &Self) {
        self.percent += other.percent;
        self.user_percent += other.user_percent;
        self.system_percent += other.system_percent;
        self.throttled_periods += other.throttled_periods;
        self.throttled_ns += other.throttled_ns;
        self.memory_bytes += other.memory_bytes;
        self.swap_bytes += other.swap_bytes;
        self.pids += other.pids;
    }

    fn shown(&self) -> Value {
        json!({
            "CpuStats": {
                "Measured": ["Throttled Periods", "Throttled Time", "Percent"],
                "Percent": self.percent,
                "SystemMode": self.system_percent,
                "UserMode": self.user_percent,
                "ThrottledPeriods": self.throttled_periods,
                "ThrottledTime": self.throttled_ns,
                "TotalTicks": 0.0,
            },
            "DeviceStats": Value::Null,
            "MemoryStats": {
                "Cache": 0,
                "KernelMaxUsage": 0,
                "KernelUsage": 0,
                "MappedFile": 0,
                "MaxUsage": 0,
                "Measured": ["RSS", "Swap", "Usage"],
                "RSS": self.memory_bytes,
                "Swap": self.swap_bytes,
                "Usage": self.memory_bytes,
            },
        })
    }
}

/// Resident bytes of one process; 0 when it is gone.
fn resident(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages: u64 = text
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .unwrap_or(0);
    pages.saturating_mul(page_bytes())
}

fn page_bytes() -> u64 {
    nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)
        .ok()
        .flatten()
        .and_then(|bytes| u64::try_from(bytes).ok())
        .unwrap_or(4096)
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
    let used = disk.total.saturating_sub(disk.free);
    json!({
        "Device": "",
        "Mountpoint": path.display().to_string(),
        "Size": disk.total,
        "Available": disk.free,
        "Used": used,
        "UsedPercent": f64_of(used) / f64_of(disk.total).max(1.0) * 100.0,
        "InodesUsedPercent": 0.0,
    })
}

#[expect(
    clippy::cast_precision_loss,
    reason = "shown with a few digits; beyond 2^53 nobody looks at the last"
)]
fn f64_of(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_come_from_two_samples() {
        let now = Instant::now();
        let sample = |at, used| Sample {
            at,
            stats: Stats {
                cpu_usage_us: used,
                ..Stats::default()
            },
            resident_bytes: 4096,
        };
        let first = sample(now, 1_000_000);
        let second = sample(now + Duration::from_secs(1), 1_500_000);
        let usage = Usage::between(&first, &second);
        assert!((usage.percent - 50.0).abs() < 0.01, "{}", usage.percent);
        assert_eq!(usage.shown()["MemoryStats"]["RSS"], 4096);
    }

    #[test]
    fn the_host_s_processors_are_read() {
        assert!(cpu_times().contains_key("cpu0"));
        let shown = cpu_shown("cpu0", &[0, 0, 0, 0], &[25, 25, 50, 100]);
        assert_eq!(shown["Total"], 50.0);
    }
}
