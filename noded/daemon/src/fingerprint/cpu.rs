//! Processors: how many, how fast, what kind.

/// Where nothing tells the frequency (virtual machines): a core counts as this.
const MHZ_UNKNOWN: u64 = 1000;

/// The host's processors.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cpu {
    pub(super) architecture: &'static str,
    pub(super) cores: u64,
    pub(super) mhz: u64,
    pub(super) model: Option<String>,
}

impl Cpu {
    pub(super) fn total_mhz(&self) -> u64 {
        self.cores.saturating_mul(self.mhz)
    }
}

pub(super) fn look() -> Cpu {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let maximum = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/base_frequency")
        .or_else(|_| {
            std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
        })
        .ok()
        .and_then(|text| text.trim().parse::<u64>().ok())
        .map(|khz| khz / 1000);
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    read(&text, maximum, cores)
}

fn read(text: &str, base_mhz: Option<u64>, cores_available: u64) -> Cpu {
    let values = |key: &'static str| {
        text.lines().filter_map(move |line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then(|| value.trim().to_owned())
        })
    };
    let listed = values("processor").count() as u64;
    // The clock varies while it is read: the fastest core says most.
    let current = values("cpu MHz")
        .filter_map(|value| value.split('.').next()?.parse::<u64>().ok())
        .max();
    Cpu {
        architecture: architecture(),
        cores: if listed > 0 { listed } else { cores_available },
        mhz: base_mhz
            .or(current)
            .filter(|mhz| *mhz > 0)
            .unwrap_or(MHZ_UNKNOWN),
        model: values("model name").next(),
    }
}

/// The name that Go, and so Nomad's users, give it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "processor\t: 0\nmodel name\t: A CPU\ncpu MHz\t\t: 2399.998\n\n\
                        processor\t: 1\nmodel name\t: A CPU\ncpu MHz\t\t: 2000.000\n";

    #[test]
    fn cores_are_counted_and_the_fastest_clock_is_taken() {
        let cpu = read(INFO, None, 8);
        assert_eq!((cpu.cores, cpu.mhz, cpu.total_mhz()), (2, 2399, 4798));
        assert_eq!(cpu.model.as_deref(), Some("A CPU"));
    }

    #[test]
    fn a_base_frequency_wins_and_nothing_at_all_still_counts() {
        assert_eq!(read(INFO, Some(1800), 8).mhz, 1800);
        let unknown = read("", None, 4);
        assert_eq!((unknown.cores, unknown.mhz), (4, MHZ_UNKNOWN));
    }
}
