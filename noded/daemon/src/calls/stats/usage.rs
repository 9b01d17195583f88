//! From two looks at a task to what it uses.

use std::time::{Duration, Instant};

use isolation::cgroup::Stats;
use serde_json::{Value, json};

use super::memory::Memory;

/// One look at a task.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) stats: Stats,
    pub(super) memory: Memory,
}

/// What something uses.
#[derive(Debug, Default)]
pub(super) struct Usage {
    /// Of one core; a task of two busy threads has 200.
    percent: f64,
    user_percent: f64,
    system_percent: f64,
    /// MHz, as jobs ask for them.
    ticks: f64,
    /// `None` where nothing can throttle here.
    throttled: Option<Throttled>,
    memory: Memory,
}

#[derive(Debug, Default, Clone, Copy)]
struct Throttled {
    periods: u64,
    nanos: u64,
}

impl Usage {
    /// What was used between two looks, on cores of `core_mhz`.
    pub(super) fn between(first: &Sample, second: &Sample, core_mhz: u64) -> Self {
        let elapsed = second.at.duration_since(first.at).as_secs_f64().max(0.001);
        let rate = |before: u64, after: u64| {
            Duration::from_micros(after.saturating_sub(before)).as_secs_f64() / elapsed * 100.0
        };
        let (a, b) = (&first.stats, &second.stats);
        let percent = rate(a.cpu_usage_us, b.cpu_usage_us);
        let throttled = b.throttled_periods.map(|periods| Throttled {
            periods,
            nanos: b.throttled_us.unwrap_or(0).saturating_mul(1000),
        });
        Self {
            percent,
            user_percent: rate(a.cpu_user_us, b.cpu_user_us),
            system_percent: rate(a.cpu_system_us, b.cpu_system_us),
            ticks: percent / 100.0 * super::host::f64_of(core_mhz),
            throttled,
            memory: second.memory.clone(),
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.percent += other.percent;
        self.user_percent += other.user_percent;
        self.system_percent += other.system_percent;
        self.ticks += other.ticks;
        if let Some(more) = other.throttled {
            let sum = self.throttled.get_or_insert_default();
            sum.periods += more.periods;
            sum.nanos += more.nanos;
        }
        self.memory.add(&other.memory);
    }

    pub(super) fn shown(&self) -> Value {
        let mut measured = vec!["System Mode", "User Mode", "Total Ticks", "Percent"];
        if self.throttled.is_some() {
            measured.extend(["Throttled Periods", "Throttled Time"]);
        }
        let throttled = self.throttled.unwrap_or_default();
        json!({
            "CpuStats": {
                "Measured": measured,
                "Percent": self.percent,
                "SystemMode": self.system_percent,
                "UserMode": self.user_percent,
                "ThrottledPeriods": throttled.periods,
                "ThrottledTime": throttled.nanos,
                "TotalTicks": self.ticks,
            },
            "DeviceStats": Value::Null,
            "MemoryStats": self.memory.shown(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: Instant, used: u64, memory: Memory) -> Sample {
        Sample {
            at,
            stats: Stats {
                cpu_usage_us: used,
                ..Stats::default()
            },
            memory,
        }
    }

    #[test]
    fn rates_and_ticks_come_from_two_samples() {
        let now = Instant::now();
        let first = sample(now, 1_000_000, Memory::default());
        let memory = Memory::of_processes(&[std::process::id()]);
        let second = sample(now + Duration::from_secs(1), 1_500_000, memory);
        let mut usage = Usage::between(&first, &second, 3000);
        assert!((usage.percent - 50.0).abs() < 0.01, "{}", usage.percent);
        assert!((usage.ticks - 1500.0).abs() < 1.0, "{}", usage.ticks);
        let shown = usage.shown();
        assert!(shown["MemoryStats"]["RSS"].as_u64().unwrap() > 0);
        assert!(
            !shown["CpuStats"]["Measured"]
                .to_string()
                .contains("Throttled")
        );
        let twice = Usage::between(&first, &second, 3000);
        usage.add(&twice);
        assert!((usage.ticks - 3000.0).abs() < 1.0, "{}", usage.ticks);
    }
}
