//! `noded`: the node daemon's command line.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Parser;
use noded_daemon::config::{Config, Switch};
use noded_daemon::custody;
use noded_daemon::daemon::{self, Signals};
use noded_daemon::upkeep::Surroundings;
use noded_keeper::client::Starter;
use protocol_transport::take_short_turns;
use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, reload};

/// Runs allocations on this host.
#[derive(Debug, Parser)]
#[command(name = "noded", version)]
struct Arguments {
    /// The configuration file (HCL).
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Check the configuration and end.
    #[arg(long)]
    validate: bool,
    /// End keeper and pump, which outlive noded, and remove cgroups and mounts; refused while a
    /// task or noded itself runs.
    #[arg(long, conflicts_with = "validate")]
    end_custody: bool,
    /// Never start keeper and pump: they are services of their own (drover-keeper, drover-pump).
    #[arg(long)]
    keeper_is_a_service: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("noded: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    // What noded makes is as open as it says, whatever starts it.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let mut config = Config::load(&arguments.config)?;
    if arguments.keeper_is_a_service {
        config.keeper_starter = Starter::ServiceManager;
    }
    if arguments.validate {
        eprintln!("{} is valid", arguments.config.display());
        return Ok(());
    }
    if arguments.end_custody {
        return custody::end(&config).context("custody of tasks goes on");
    }
    let log = start_logging(&config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // The host belongs to its tasks. And what the loop, the session and keeper's link tell one
        // another stays on one processor: waking another takes longer than most of what they do.
        .worker_threads(1)
        .on_thread_start(take_short_turns)
        // Preparing and removing allocations; a burst of placements must not become a burst of
        // threads.
        .max_blocking_threads(32)
        .build()
        .context("starting the runtime")?;
    // As a task of the runtime: what the main thread polls itself costs a wake-up of that thread,
    // and the node's loop is polled for every event.
    let serving = runtime.spawn(serve(config, arguments.config.clone(), log));
    runtime.block_on(serving).context("the node's loop")??;
    // Reads of task files may still be under way; nobody waits for them.
    runtime.shutdown_background();
    Ok(())
}

async fn serve(config: Config, path: PathBuf, log: Log) -> anyhow::Result<()> {
    let (stop, stopped) = watch::channel(false);
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    let mut hangup = signal(SignalKind::hangup()).context("listening for SIGHUP")?;
    let (reload, reloads) = mpsc::channel(1);
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            // One that waits already reads the file as it will be then.
            let _ = reload.try_send(());
        }
    });
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping; tasks keep running");
        notify(NotifyState::Stopping);
        stop.send_replace(true);
    });
    let signals = Signals {
        stop: stopped,
        reload: reloads,
    };
    daemon::run(config, path, signals, Arc::new(log)).await?;
    Ok(())
}

/// Without systemd there is nobody to tell, and that is no error.
fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::debug!(%error, "systemd was not told");
    }
}

/// The filter of log lines, which may be changed while noded runs.
struct Log(reload::Handle<EnvFilter, Registry>);

impl Surroundings for Log {
    fn ready(&self) {
        notify(NotifyState::Ready);
    }

    fn reloading(&self) {
        notify(NotifyState::Reloading);
    }

    fn set_log_level(&self, filter: &str) -> Result<(), String> {
        let filter = EnvFilter::try_new(filter).map_err(|error| error.to_string())?;
        self.0.reload(filter).map_err(|error| error.to_string())
    }
}

fn start_logging(config: &Config) -> anyhow::Result<Log> {
    let filter = EnvFilter::try_new(&config.log_level)
        .with_context(|| format!("log_level {:?}", config.log_level))?;
    let (filter, handle) = reload::Layer::new(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    if config.log_json == Switch::On {
        registry.with(lines.json()).init();
    } else {
        registry.with(lines.with_ansi(false)).init();
    }
    Ok(Log(handle))
}
