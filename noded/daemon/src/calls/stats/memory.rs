//! The memory of a task: what its cgroup is charged, or what its processes have, where the host has
//! no memory controller for us. `Measured` says which.

use serde_json::{Value, json};

/// What is known of a task's memory, in bytes.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    usage: u64,
    rss: u64,
    swap: u64,
    cache: u64,
    mapped_file: u64,
    kernel: u64,
    max_usage: u64,
    measured: Vec<&'static str>,
}

impl Memory {
    /// By the memory controller: everything charged to the cgroup, page cache included. `file`
    /// reads one of the controller's files.
    pub(super) fn of_cgroup(
        file: impl Fn(&'static str) -> Option<String>,
        usage: u64,
        swap: Option<u64>,
    ) -> Self {
        let text = file("memory.stat").unwrap_or_default();
        let line = |key| value_of(&text, key);
        let mut memory = Self {
            usage,
            rss: line("anon").unwrap_or(usage),
            swap: swap.unwrap_or(0),
            cache: line("file").unwrap_or(0),
            mapped_file: line("file_mapped").unwrap_or(0),
            kernel: line("kernel").unwrap_or(0),
            measured: vec!["RSS", "Cache", "Mapped File", "Usage", "Kernel Usage"],
            ..Self::default()
        };
        if swap.is_some() {
            memory.measured.push("Swap");
        }
        // Linux 5.19 and later.
        if let Some(peak) = file("memory.peak").and_then(|text| text.trim().parse().ok()) {
            memory.max_usage = peak;
            memory.measured.push("Max Usage");
        }
        memory
    }

    /// By its processes: what several of them share is divided among them, so that the sum is what
    /// would come free.
    pub(super) fn of_processes(pids: &[u32]) -> Self {
        let mut memory = Self {
            measured: vec!["RSS", "Swap", "Usage", "PSS of the processes"],
            ..Self::default()
        };
        for pid in pids {
            // Gone meanwhile.
            let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) else {
                continue;
            };
            let kib = |key| value_of(&text, key).unwrap_or(0).saturating_mul(1024);
            memory.rss += kib("Rss:");
            memory.usage += kib("Pss:");
            memory.swap += kib("SwapPss:");
        }
        memory
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.usage += other.usage;
        self.rss += other.rss;
        self.swap += other.swap;
        self.cache += other.cache;
        self.mapped_file += other.mapped_file;
        self.kernel += other.kernel;
        self.max_usage += other.max_usage;
        for name in &other.measured {
            if !self.measured.contains(name) {
                self.measured.push(name);
            }
        }
    }

    pub(super) fn shown(&self) -> Value {
        json!({
            "Cache": self.cache,
            "KernelMaxUsage": 0,
            "KernelUsage": self.kernel,
            "MappedFile": self.mapped_file,
            "MaxUsage": self.max_usage,
            "Measured": self.measured,
            "RSS": self.rss,
            "Swap": self.swap,
            "Usage": self.usage,
        })
    }
}

/// The number after a key at the beginning of a line.
fn value_of(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == key).then(|| words.next()?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_says_what_it_is_charged_for() {
        let stat = "anon 4096\nfile 8192\nkernel 512\nfile_mapped 1024\n";
        let older = |file| (file == "memory.stat").then(|| stat.to_owned());
        let shown = Memory::of_cgroup(older, 20_000, None).shown();
        for (name, expected) in [
            ("Usage", 20_000),
            ("RSS", 4096),
            ("Cache", 8192),
            ("KernelUsage", 512),
            ("MappedFile", 1024),
            ("MaxUsage", 0),
        ] {
            assert_eq!(shown[name], expected, "{name}");
        }
        assert!(!shown["Measured"].to_string().contains("Max Usage"));
        let newer = |file| match file {
            "memory.peak" => Some("30000\n".to_owned()),
            file => older(file),
        };
        let shown = Memory::of_cgroup(newer, 20_000, Some(7)).shown();
        assert_eq!(
            (&shown["MaxUsage"], &shown["Swap"]),
            (&30_000.into(), &7.into())
        );
    }

    #[test]
    fn processes_are_summed_and_that_is_said() {
        let own = Memory::of_processes(&[std::process::id(), u32::MAX]);
        assert!(own.usage > 0 && own.rss >= own.usage);
        assert!(own.shown()["Measured"].to_string().contains("PSS"));
    }
}
