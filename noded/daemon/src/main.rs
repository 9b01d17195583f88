//! `noded`: the node daemon's command line.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use noded_daemon::config::{Config, Switch};
use noded_daemon::{custody, daemon};
use noded_keeper::client::Starter;
use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;

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
    start_logging(&config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // Preparing and removing allocations; a burst of placements must not become a burst of
        // threads.
        .max_blocking_threads(32)
        .build()
        .context("starting the runtime")?;
    runtime.block_on(serve(config))?;
    // Reads of task files may still be under way; nobody waits for them.
    runtime.shutdown_background();
    Ok(())
}

async fn serve(config: Config) -> anyhow::Result<()> {
    let (stop, stopped) = watch::channel(false);
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping; tasks go on");
        notify(NotifyState::Stopping);
        stop.send_replace(true);
    });
    daemon::run(config, stopped, || notify(NotifyState::Ready)).await?;
    Ok(())
}

/// Without systemd there is nobody to tell, and that is no error.
fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::debug!(%error, "systemd was not told");
    }
}

fn start_logging(config: &Config) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&config.log_level)
        .with_context(|| format!("log_level {:?}", config.log_level))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    if config.log_json == Switch::On {
        builder.json().init();
    } else {
        builder.with_ansi(false).init();
    }
    Ok(())
}
