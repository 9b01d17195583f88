//! Processors: how many, how fast, what kind.

/// Where nothing tells the frequency (virtual machines): a core counts as this.
const MHZ_UNKNOWN: u64 = 1000;

/// The host's processors.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cpu {
    pub(super) architecture: &'static str,
    pub(super) cores: u64,
    /// The numbers of those that this process may run on.
    pub(super) usable: Vec<u16>,
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
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allowed = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    read(&text, allowed, maximum, cores)
}

/// `allowed` is a list of the kernel: `0-3,8`. Without one, all cores are.
fn read(text: &str, allowed: Option<&str>, base_mhz: Option<u64>, cores_available: u64) -> Cpu {
    let values = |key: &'static str| {
        text.lines().filter_map(move |line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then(|| value.trim().to_owned())
        })
    };
    let numbers: Vec<u16> = values("processor")
        .filter_map(|it| it.parse().ok())
        .collect();
    let listed = numbers.len() as u64;
    let all = || (0..u16::try_from(cores_available).unwrap_or(u16::MAX)).collect();
    let mut usable = if listed > 0 { numbers } else { all() };
    usable.retain(|core| allowed.is_none_or(|list| contains(list, *core)));
    // The clock varies while it is read: the fastest core says most.
    let current = values("cpu MHz")
        .filter_map(|value| value.split('.').next()?.parse::<u64>().ok())
        .max();
    Cpu {
        architecture: architecture(),
        cores: if listed > 0 { listed } else { cores_available },
        usable,
        mhz: base_mhz
            .or(current)
            .filter(|mhz| *mhz > 0)
            .unwrap_or(MHZ_UNKNOWN),
        model: values("model name").next(),
    }
}

fn contains(list: &str, core: u16) -> bool {
    list.trim().split(',').any(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = first.parse::<u16>().ok().zip(last.parse::<u16>().ok());
        range.is_some_and(|(first, last)| (first..=last).contains(&core))
    })
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
        let cpu = read(INFO, None, None, 8);
        assert_eq!((cpu.cores, cpu.mhz, cpu.total_mhz()), (2, 2399, 4798));
        assert_eq!(cpu.model.as_deref(), Some("A CPU"));
    }

    #[test]
    fn usable_cores_are_those_that_are_there_and_allowed() {
        let usable = |text, allowed| read(text, allowed, None, 4).usable;
        assert_eq!(usable(INFO, None), [0, 1]);
        assert_eq!(usable(INFO, Some("\t1-3,7\n")), [1]);
        assert_eq!(usable("", Some("0,2-2")), [0, 2]);
        let gap = "processor\t: 0\nprocessor\t: 2\n";
        assert_eq!(usable(gap, Some("0-63")), [0, 2]);
    }

    #[test]
    fn a_base_frequency_wins_and_nothing_at_all_still_counts() {
        assert_eq!(read(INFO, None, Some(1800), 8).mhz, 1800);
        let unknown = read("", None, None, 4);
        assert_eq!((unknown.cores, unknown.mhz), (4, MHZ_UNKNOWN));
    }
}
