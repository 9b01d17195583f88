//! Part `memory`: what noded, keeper and pump need for each `exec` task that does nothing.
//!
//! A task asks for at least 10 MB, which an idle one does not use. Where the host's memory is too
//! small for all requests, noded runs where `/proc/meminfo` names a larger total: the figure is
//! about the daemons, not about the host.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hack_cluster::procfs::{descendants, memory_kib};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::NAME;
use super::host::{Host, count};
use crate::Bench;
use crate::programs::Program;
use crate::row::Row;

/// KiB of all three daemons for each task.
const GOAL_KIB: f64 = 64.0;
/// The least that a task can ask for.
const MEMORY_MB: u64 = 10;
const DISK_MB: u64 = 10;
/// Memory that the node keeps for itself.
const SPARE_MB: u64 = 4096;
const MEMINFO: &str = "/proc/meminfo";
/// How long all tasks may take to run.
const RUNNING_MAX: Duration = Duration::from_secs(600);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Reports of the last starts are still on their way then.
const SETTLE: Duration = Duration::from_secs(3);
/// The kernel's own memory, by the names of /proc/vmstat: pages, but for the last, which is in KiB.
const KERNEL_PAGES: [&str; 3] = [
    "nr_slab_reclaimable",
    "nr_slab_unreclaimable",
    "nr_page_table_pages",
];
const KERNEL_KIB: &str = "nr_kernel_stack";

/// The state of the daemons at one moment.
struct Seen {
    /// Proportional set sizes in KiB.
    daemons: Vec<(&'static str, f64)>,
    kernel_kib: f64,
    /// All descendants of the daemons.
    processes: f64,
}

/// See the top of this file.
///
/// # Errors
/// The tasks do not run, or the kernel does not tell.
pub(super) fn measure(bench: &Bench, tasks: u32, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    ensure!(tasks > 0, "--idle-tasks is 0: there is nothing to measure");
    // In a thread: its mounts are its own, and end with it and the daemons.
    std::thread::scope(|scope| {
        let measured = scope.spawn(|| measure_here(bench, tasks, rows));
        measured
            .join()
            .map_err(|_| anyhow::anyhow!("a thread panicked"))?
    })
}

fn measure_here(bench: &Bench, tasks: u32, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    enter_large_memory(&bench.scratch, u64::from(tasks) * MEMORY_MB + SPARE_MB)?;
    let host = Host::start(bench, Program::Pause)?;
    must_hold(&host, u64::from(tasks))?;
    // With one of them noded has loaded what it needs for any.
    run(&host, "first", 1)?;
    let before = Seen::now(&host)?;
    eprintln!("-- {tasks} idle exec tasks");
    run(&host, "idle", usize::try_from(tasks)?)?;
    let after = Seen::now(&host)?;
    let each = |after: f64, before: f64| (after - before) / f64::from(tasks);
    let mut all = 0.0;
    for ((name, after), (_, before)) in after.daemons.iter().zip(&before.daemons) {
        let kib = each(*after, *before);
        all += kib;
        let figure = format!("memory per idle task of {tasks}, {name}");
        rows.push(Row::new(NAME, figure, kib, "KiB"));
    }
    let figure = format!("memory per idle task of {tasks}, noded, keeper and pump");
    rows.push(Row::new(NAME, figure, all, "KiB").at_most(GOAL_KIB));
    let figure = format!("kernel memory per idle task of {tasks}: slab, page tables, stacks");
    let kernel = each(after.kernel_kib, before.kernel_kib);
    rows.push(Row::new(NAME, figure, kernel, "KiB"));
    let processes = each(after.processes, before.processes) - 1.0;
    let figure = format!("processes per idle task of {tasks}, beside its own");
    rows.push(Row::new(NAME, figure, processes, "").at_most(0.0));
    Ok(())
}

/// Registers a job and waits until all of its tasks run.
fn run(host: &Host, id: &str, tasks: usize) -> anyhow::Result<()> {
    let http = host.http()?;
    http.put("/v1/jobs", &host.job(id, "service", tasks))?;
    let deadline = Instant::now() + RUNNING_MAX;
    loop {
        let running = count(&http, id, "Running")?;
        if running >= tasks {
            break;
        }
        let why = || format!("{running} of {tasks} tasks run after {RUNNING_MAX:?}");
        ensure!(Instant::now() < deadline, why());
        std::thread::sleep(LOOK_EVERY);
    }
    std::thread::sleep(SETTLE);
    Ok(())
}

/// A node without the room would leave tasks unplaced, and the wait for them would be long.
fn must_hold(host: &Host, tasks: u64) -> anyhow::Result<()> {
    let node = host.read()?;
    let resources = &node["NodeResources"];
    let wanted = [
        ("MHz", "/Cpu/CpuShares", tasks + 1),
        ("MB of memory", "/Memory/MemoryMB", (tasks + 1) * MEMORY_MB),
        ("MB of disk", "/Disk/DiskMB", (tasks + 1) * DISK_MB),
    ];
    for (what, place, wanted) in wanted {
        let there = resources.pointer(place).and_then(serde_json::Value::as_u64);
        let there = there.with_context(|| format!("the node tells no {place}"))?;
        ensure!(
            there >= wanted,
            "{tasks} tasks ask for {wanted} {what}, and this host has {there}: name fewer with \
             --idle-tasks"
        );
    }
    Ok(())
}

/// Puts this thread, and what it starts from now on, where the kernel names at least `wanted_mb` of
/// memory.
fn enter_large_memory(scratch: &Path, wanted_mb: u64) -> anyhow::Result<()> {
    let none: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    let text = std::fs::read_to_string(MEMINFO)?;
    let Some(larger) = with_memory(&text, wanted_mb * 1024) else {
        return Ok(());
    };
    eprintln!(
        "-- noded sees {wanted_mb} MB of memory, more than there is: requests add up to that"
    );
    let path = scratch.join("meminfo");
    std::fs::write(&path, larger)?;
    mount(Some(&path), MEMINFO, none, MsFlags::MS_BIND, none).context("cover /proc/meminfo")
}

/// The same text with another total; `None` where the total is large enough.
fn with_memory(meminfo: &str, wanted_kib: u64) -> Option<String> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    let there: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    (there < wanted_kib).then(|| meminfo.replacen(line, &format!("MemTotal: {wanted_kib} kB"), 1))
}

impl Seen {
    fn now(host: &Host) -> anyhow::Result<Self> {
        let (mut daemons, mut processes) = (Vec::new(), 0);
        for (pid, name) in host.daemons()? {
            daemons.push((name, f64::from(u32::try_from(memory_kib(pid)?)?)));
            processes += descendants(pid)?.len();
        }
        let vmstat = std::fs::read_to_string("/proc/vmstat").context("read /proc/vmstat")?;
        Ok(Self {
            daemons,
            kernel_kib: kernel_kib(&vmstat)?,
            processes: f64::from(u32::try_from(processes)?),
        })
    }
}

fn kernel_kib(vmstat: &str) -> anyhow::Result<f64> {
    let of = |name: &str| -> anyhow::Result<f64> {
        let rest = vmstat
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let number = rest.and_then(|rest| rest.trim().parse().ok());
        number.with_context(|| format!("no {name} in /proc/vmstat"))
    };
    let page_kib = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)?;
    let page_kib = f64::from(u32::try_from(page_kib.context("no page size")?)?) / 1024.0;
    let mut kib = of(KERNEL_KIB)?;
    for name in KERNEL_PAGES {
        kib += of(name)? * page_kib;
    }
    Ok(kib)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_that_is_too_small_is_replaced_and_no_other_line() {
        let text = "MemTotal:       24000 kB\nMemFree: 12 kB\n";
        let larger = with_memory(text, 40_000).unwrap();
        assert_eq!(larger, "MemTotal: 40000 kB\nMemFree: 12 kB\n");
        assert_eq!(with_memory(text, 24_000), None);
    }

    #[test]
    fn the_kernel_tells_its_own_memory() {
        let vmstat = std::fs::read_to_string("/proc/vmstat").unwrap();
        assert!(kernel_kib(&vmstat).unwrap() > 0.0);
        kernel_kib("nr_slab_reclaimable 5\n").unwrap_err();
    }
}
