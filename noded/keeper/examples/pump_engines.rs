//! What pump's two engines cost, side by side: CPU time of pump for each MiB of task output, and
//! how fast it goes. `cargo run --release -p noded-keeper --example pump_engines [ROUNDS]
//! [WORKLOAD]`, after `cargo build --release -p noded-keeper`; programs as `NAME=PATH` compare
//! builds.
//!
//! Engines alternate within each round, because a shared host is fast in one minute and slow in the
//! next; the best round of each counts. Nothing here is a test: figures are printed, not judged.

use anyhow::{Context as _, Result, bail, ensure};
use noded_keeper::io::{LogLimits, OutputStream, create_streams};
use noded_keeper::paths::RuntimePaths;
use noded_keeper::protocol::TaskKey;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MIB: f64 = 1024.0 * 1024.0;
const ROUNDS: usize = 5;
const ENGINES: [&str; 2] = ["io_uring", "epoll"];
const PATIENCE: Duration = Duration::from_secs(120);

/// What tasks do meanwhile.
#[derive(Debug, Clone, Copy)]
struct Workload {
    name: &'static str,
    streams: usize,
    /// Bytes of one write.
    chunk: usize,
    /// Bytes of each stream.
    total: usize,
    pace: Pace,
}

/// When the next write of a stream comes.
#[derive(Debug, Clone, Copy)]
enum Pace {
    AtOnce,
    /// So long after the one before; streams do not know of each other.
    Apart(Duration),
    /// The same, and all streams at the same time.
    Together(Duration),
}

const WORKLOADS: [Workload; 7] = [
    Workload {
        name: "1 stream, 64 KiB writes",
        streams: 1,
        chunk: 64 * 1024,
        total: 384 << 20,
        pace: Pace::AtOnce,
    },
    Workload {
        name: "1 stream, 4 KiB writes",
        streams: 1,
        chunk: 4096,
        total: 256 << 20,
        pace: Pace::AtOnce,
    },
    Workload {
        name: "1 stream, 120 B writes",
        streams: 1,
        chunk: 120,
        total: 16 << 20,
        pace: Pace::AtOnce,
    },
    Workload {
        name: "8 streams, 4 KiB writes",
        streams: 8,
        chunk: 4096,
        total: 32 << 20,
        pace: Pace::AtOnce,
    },
    Workload {
        name: "200 streams, 120 B each 5 ms",
        streams: 200,
        chunk: 120,
        total: 120 * 400,
        pace: Pace::Apart(Duration::from_millis(5)),
    },
    Workload {
        name: "200 streams, 120 B at once, 20 ms",
        streams: 200,
        chunk: 120,
        total: 120 * 100,
        pace: Pace::Together(Duration::from_millis(20)),
    },
    Workload {
        name: "2000 streams, 120 B each 500 ms",
        streams: 2000,
        chunk: 120,
        total: 120 * 6,
        pace: Pace::Apart(Duration::from_millis(500)),
    },
];

/// What one run cost.
#[derive(Debug, Clone, Copy)]
struct Cost {
    cpu_ms_per_mib: f64,
    mib_per_s: f64,
    switches_per_mib: f64,
}

struct Pump(Child);

impl Drop for Pump {
    fn drop(&mut self) {
        // Ended already, or killed now: either way it is gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Pump {
    fn start(program: &Path, engine: &str, paths: &RuntimePaths) -> Result<Self> {
        let child = Command::new(program)
            .args(["pump", "--engine", engine, "--runtime-dir"])
            .arg(paths.root())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        Ok(Self(child))
    }

    /// Nanoseconds on a processor (the first field of schedstat), and voluntary switches.
    fn usage(&self) -> Result<(f64, f64)> {
        let folder = PathBuf::from(format!("/proc/{}", self.0.id()));
        let schedule = fs::read_to_string(folder.join("schedstat"))?;
        let nanos: f64 = schedule.split(' ').next().unwrap_or("0").parse()?;
        let status = fs::read_to_string(folder.join("status"))?;
        let switches = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
            .context("no count of switches")?;
        Ok((nanos, switches.trim().parse()?))
    }
}

fn main() -> Result<()> {
    let own = std::env::current_exe()?;
    let beside = own
        .parent()
        .and_then(Path::parent)
        .map(|folder| folder.join("noded-keeper"));
    let mut programs = Vec::new();
    let mut rounds = ROUNDS;
    let mut only = String::new();
    for word in std::env::args().skip(1) {
        match word.split_once('=') {
            Some((name, path)) => programs.push((name.to_owned(), PathBuf::from(path))),
            None if word.bytes().all(|byte| byte.is_ascii_digit()) => {
                rounds = word.parse().context("ROUNDS")?;
            }
            None => only = word,
        }
    }
    if programs.is_empty() {
        programs.push((String::new(), beside.context("no folder of programs")?));
    }
    let mut table = std::io::stdout();
    writeln!(
        table,
        "{:34} {:22} {:>11} {:>8} {:>13}",
        "", "best of each", "CPU ms/MiB", "MiB/s", "switches/MiB"
    )?;
    for workload in WORKLOADS.into_iter().filter(|w| w.name.contains(&only)) {
        compare(workload, &programs, rounds)?;
    }
    Ok(())
}

fn compare(workload: Workload, programs: &[(String, PathBuf)], rounds: usize) -> Result<()> {
    let mut all: Vec<(String, Vec<Cost>)> = Vec::new();
    for round in 0..rounds {
        let mut place = 0;
        for (name, program) in programs {
            for engine in ENGINES {
                let cost = measure(workload, program, engine)?;
                if round == 0 {
                    all.push((format!("{name} {engine}"), Vec::new()));
                }
                all[place].1.push(cost);
                place += 1;
            }
        }
    }
    for (name, costs) in all {
        let least = |of: fn(&Cost) -> f64| costs.iter().map(of).fold(f64::MAX, f64::min);
        writeln!(
            std::io::stdout(),
            "{:34} {:22} {:11.3} {:8.0} {:13.1}",
            workload.name,
            name,
            least(|cost| cost.cpu_ms_per_mib),
            -least(|cost| -cost.mib_per_s),
            least(|cost| cost.switches_per_mib),
        )?;
    }
    Ok(())
}

fn measure(workload: Workload, program: &Path, engine: &str) -> Result<Cost> {
    let folder = tempfile::Builder::new().prefix("drover-bench-").tempdir()?;
    let paths = RuntimePaths::new(folder.path().join("run"));
    paths.create()?;
    fs::create_dir(folder.path().join("logs"))?;
    let mut fifos = Vec::new();
    for number in 0..workload.streams {
        let run = TaskKey::new("bench", format!("task{number}"), 1)?;
        let limits = LogLimits {
            max_files: 2,
            max_file_size_bytes: 1 << 40,
        };
        create_streams(&paths, &run, folder.path(), Path::new("logs"), limits)?;
        let fifo = paths
            .io_directory()
            .join(OutputStream::Stdout.fifo_name(run.owner()));
        fifos.push(OpenOptions::new().read(true).write(true).open(fifo)?);
    }
    let pump = Pump::start(program, engine, &paths)?;
    // It reads once the first byte of every stream is in its file.
    for fifo in &mut fifos {
        fifo.write_all(b"\n")?;
    }
    wait_for(folder.path(), workload.streams)?;
    let (cpu, switches) = pump.usage()?;
    let begin = Instant::now();
    let written = write(workload, &fifos)?;
    wait_for(folder.path(), written + workload.streams)?;
    let elapsed = begin.elapsed().as_secs_f64();
    let (cpu_after, switches_after) = pump.usage()?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let mib = written as f64 / MIB;
    Ok(Cost {
        cpu_ms_per_mib: (cpu_after - cpu) / 1e6 / mib,
        mib_per_s: mib / elapsed,
        switches_per_mib: (switches_after - switches) / mib,
    })
}

/// As tasks would; answers how many bytes.
fn write(workload: Workload, fifos: &[File]) -> Result<usize> {
    let mut line = vec![b'x'; workload.chunk];
    line[workload.chunk - 1] = b'\n';
    let count = workload.total / workload.chunk;
    match workload.pace {
        Pace::AtOnce => std::thread::scope(|scope| {
            let writers: Vec<_> = fifos
                .iter()
                .map(|mut fifo| {
                    let line = &line;
                    scope.spawn(move || (0..count).try_for_each(|_| fifo.write_all(line)))
                })
                .collect();
            writers.into_iter().try_for_each(|writer| {
                let Ok(written) = writer.join() else {
                    bail!("a writer panicked")
                };
                Ok(written?)
            })
        })?,
        Pace::Apart(pause) => slowly(&line, fifos, count, pause, pause)?,
        Pace::Together(pause) => slowly(&line, fifos, count, pause, Duration::ZERO)?,
    }
    Ok(count * workload.chunk * workload.streams)
}

/// One write of each stream, spread over `spread`, and again after each `pause`.
fn slowly(
    line: &[u8],
    fifos: &[File],
    count: usize,
    pause: Duration,
    spread: Duration,
) -> Result<()> {
    let begin = Instant::now();
    let streams = u32::try_from(fifos.len())?;
    for round in 0..u32::try_from(count)? {
        for (number, mut fifo) in (0_u32..).zip(fifos) {
            let due = pause * round + spread * number / streams;
            std::thread::sleep(due.saturating_sub(begin.elapsed()));
            fifo.write_all(line)?;
        }
    }
    Ok(())
}

fn wait_for(folder: &Path, bytes: usize) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        let mut found = 0;
        for entry in fs::read_dir(folder.join("logs"))? {
            found += usize::try_from(entry?.metadata()?.len())?;
        }
        if found >= bytes {
            return Ok(());
        }
        ensure!(Instant::now() < end, "{found} of {bytes} bytes arrived");
        std::thread::sleep(Duration::from_millis(2));
    }
}
