//! `noded-keeper keeper` and `noded-keeper pump`: reads the arguments, detaches if asked to, and
//! runs one of the two. `noded-keeper --check-state` is what a running keeper asks of the program
//! that it is to become.

use anyhow::{Context as _, Result, bail};
use noded_keeper::keeper::{CHECK_STATE, TAKE_OVER};
use noded_keeper::paths::{DEFAULT_CGROUP_BASE, RuntimePaths};
use noded_keeper::pump::EngineChoice;
use noded_keeper::{detach, keeper, pump};
use std::ffi::OsString;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: noded-keeper keeper [--cgroup-base DIR] [OPTIONS]
       noded-keeper pump [--engine auto|io_uring|epoll] [OPTIONS]
       noded-keeper --check-state < STATE
options: --runtime-dir DIR        sockets, FIFOs and records, on a tmpfs (/run/drover)
         --supervisor-cgroup DIR  a cgroup for this process
         --detach                 go on in the background, in a session of its own
";

/// Which of the two processes this is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Keeper,
    Pump,
}

#[derive(Debug)]
struct Arguments {
    role: Role,
    paths: RuntimePaths,
    cgroup_base: PathBuf,
    supervisor_cgroup: Option<PathBuf>,
    engine: EngineChoice,
    beginning: keeper::Beginning,
    /// The arguments without `--detach`, for the process that goes on; `None` for that process
    /// itself.
    detached: Option<Vec<OsString>>,
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments == [CHECK_STATE] {
        return check_state();
    }
    match parse(&arguments).and_then(|arguments| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("noded-keeper: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn check_state() -> ExitCode {
    match keeper::check_state(std::io::stdin().as_fd()) {
        Ok(words) => {
            // Whoever asked reads it, or does not want to know any more.
            let _ = writeln!(std::io::stdout(), "{words}");
            ExitCode::SUCCESS
        }
        Err(words) => {
            eprintln!("noded-keeper: {words}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    // Log files are as open as pump makes them, whatever starts it.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    if let Some(rest) = &arguments.detached {
        return detach::start_detached(rest).context("cannot detach");
    }
    if let Some(cgroup) = &arguments.supervisor_cgroup
        && let Err(error) = detach::move_to_cgroup(cgroup)
    {
        eprintln!("noded-keeper: warning: staying in the starter's cgroup: {error}");
    }
    match arguments.role {
        Role::Keeper => {
            let Arguments {
                paths,
                cgroup_base,
                beginning,
                ..
            } = arguments;
            Ok(keeper::run(paths, cgroup_base, *beginning)?)
        }
        Role::Pump => Ok(pump::run(&arguments.paths, arguments.engine)?),
    }
}

fn parse(arguments: &[OsString]) -> Result<Arguments> {
    let mut words = arguments.iter();
    let role = match words.next().and_then(|word| word.to_str()) {
        Some("keeper") => Role::Keeper,
        Some("pump") => Role::Pump,
        Some(other) => bail!("unknown subcommand {other:?}\n{USAGE}"),
        None => bail!("a subcommand is missing\n{USAGE}"),
    };
    let mut parsed = Arguments {
        role,
        paths: RuntimePaths::default(),
        cgroup_base: PathBuf::from(DEFAULT_CGROUP_BASE),
        supervisor_cgroup: None,
        engine: EngineChoice::Automatic,
        beginning: keeper::Beginning::Records,
        detached: None,
    };
    while let Some(word) = words.next() {
        let name = word.to_str().unwrap_or_default();
        if name == detach::NEW_SESSION {
            detach::open_session().context("cannot open a session")?;
            continue;
        }
        if name == "--detach" {
            parsed.detached = Some(
                arguments
                    .iter()
                    .filter(|word| *word != "--detach")
                    .cloned()
                    .collect(),
            );
            continue;
        }
        let value = words
            .next()
            .with_context(|| format!("{name}: a value is missing"))?;
        match (name, role) {
            ("--runtime-dir", _) => parsed.paths = RuntimePaths::new(value),
            ("--supervisor-cgroup", _) => parsed.supervisor_cgroup = Some(PathBuf::from(value)),
            ("--cgroup-base", Role::Keeper) => parsed.cgroup_base = PathBuf::from(value),
            (TAKE_OVER, Role::Keeper) => {
                let number = value.to_string_lossy().parse();
                let number = number.with_context(|| format!("{TAKE_OVER}: no number"))?;
                parsed.beginning = keeper::Beginning::State(number);
            }
            ("--engine", Role::Pump) => parsed.engine = engine(&value.to_string_lossy())?,
            _ => bail!("unknown option {name:?}\n{USAGE}"),
        }
    }
    Ok(parsed)
}

fn engine(name: &str) -> Result<EngineChoice> {
    match name {
        "auto" => Ok(EngineChoice::Automatic),
        "io_uring" => Ok(EngineChoice::Ring),
        "epoll" => Ok(EngineChoice::Epoll),
        other => bail!("unknown engine {other:?}: auto, io_uring or epoll"),
    }
}
