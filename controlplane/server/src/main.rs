//! `controlplane`: one server of Drover's control plane.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use controlplane_keyring::{FileKeks, Kek, KekStore as _};
use controlplane_server::certificates::{self, Certificates};
use controlplane_server::cluster::Cluster;
use controlplane_server::config::Config;
use controlplane_server::data_dir::{self, Chosen};
use controlplane_server::logging::{LevelSet, Logging};
use controlplane_server::threads::half_of_processors;
use controlplane_server::{Server, dev, dev_acl};
use protocol_transport::take_short_turns;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// An entry of the log becomes thousands of small pieces of state, and lets go of others: with the
/// C library's allocator a third of a server's time in a storm of starts was its bookkeeping, and
/// the clearing of pages that it had just given back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// One server of Drover's control plane.
#[derive(Debug, Clone, Parser)]
#[command(name = "controlplane", version, about, arg_required_else_help = true)]
struct Arguments {
    /// The configuration file (HCL)
    #[arg(long, value_name = "FILE", conflicts_with = "dev")]
    config: Option<PathBuf>,
    /// Everything embedded, for a developer's machine: one server, loopback only, certificates of
    /// its own
    #[arg(long)]
    dev: bool,
    /// With --dev: access control is on. The first start makes a management token; it is printed,
    /// and kept in `acl-token` below the data directory
    #[arg(long, requires = "dev")]
    acl: bool,
    /// With --dev: start a node beside the server, as a child
    #[arg(long, requires = "dev")]
    node: bool,
    /// With --node: settings of the node, beside those that --dev writes
    #[arg(long, value_name = "FILE", requires = "node")]
    node_config: Option<PathBuf>,
    /// With --dev: where the state is kept
    #[arg(
        long,
        value_name = "DIR",
        requires = "dev",
        default_value = "/tmp/drover-dev"
    )]
    data_dir: PathBuf,
    /// Check the configuration and its certificates, and exit
    #[arg(long)]
    validate: bool,
    /// Make a new key-encryption key, write it to DIR/ID.kek, print that path, and exit
    #[arg(long, value_name = "DIR", conflicts_with_all = ["config", "dev", "validate"])]
    new_kek: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match start(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::FAILURE
        }
    }
}

/// Makes the key-encryption key that is to replace the present one, or that a credential holds.
fn make_kek(directory: &Path) -> anyhow::Result<()> {
    let directory = std::path::absolute(directory)?;
    let (files, kek) = (FileKeks::new(directory), Kek::generate());
    files
        .store(&kek)
        .context("no key-encryption key was made")?;
    writeln!(std::io::stdout(), "{}", files.path_of(kek.id()).display()).context("cannot print")
}

fn start(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(directory) = &arguments.new_kek {
        return make_kek(directory);
    }
    let mut config = match &arguments.config {
        Some(path) => Config::load(path)?,
        None => Config::dev(arguments.data_dir.clone())?,
    };
    config.acl_enabled |= arguments.acl;
    if arguments.node {
        config.own_node = Some(dev::node_identity(&config.data_dir));
    }
    if arguments.validate {
        if !arguments.dev {
            certificates::load(&config)?;
        }
        eprintln!("the configuration is valid");
        return Ok(());
    }
    let logging = Logging::start(config.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(half_of_processors())
        .on_thread_start(take_short_turns)
        .build()
        .context("cannot start the runtime")?;
    // As a task of the runtime: what the main thread polls itself costs a wake-up of that thread
    // for every entry of the log.
    let serving = runtime.spawn(serve(arguments.clone(), config, logging));
    runtime
        .block_on(serving)
        .context("the server's main task")?
}

async fn serve(arguments: Arguments, config: Config, logging: Logging) -> anyhow::Result<()> {
    let chosen = if arguments.dev {
        Chosen::Dev
    } else {
        Chosen::Configured
    };
    data_dir::prepare(&config.data_dir, chosen)?;
    let (data_dir, region) = (config.data_dir.clone(), config.region.clone());
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    // Under nohup it is ignored, and with --dev stays so; asked before we listen, which ends that.
    let mut hangup = (arguments.config.is_some() || !hangup_is_ignored())
        .then(|| signal(SignalKind::hangup()))
        .transpose()
        .context("cannot listen for SIGHUP")?;
    if let Some(doubt) = config.liveness.doubt() {
        tracing::warn!("{doubt}");
    }
    let mut server = Server::start(config).await?;
    if let Some(file) = arguments.config.clone()
        && let Some(mut hangup) = hangup.take()
    {
        let (certificates, cluster) = (server.certificates().clone(), server.cluster().clone());
        tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                on_hangup(&file, &logging, &certificates, &cluster);
            }
        });
    }
    tracing::info!(
        http = %server.http_address(), quic = %server.quic_address()?, "serving"
    );
    if arguments.acl {
        let token = dev_acl::token(server.cluster(), server.keyring(), &data_dir).await?;
        eprintln!("access control is on; clients use the management token:");
        eprintln!("export NOMAD_TOKEN={token}");
    }
    let mut node = match arguments.node {
        false => None,
        true => Some(start_node(
            &server,
            &data_dir,
            &dev::certificates(&data_dir, &region)?,
            arguments.node_config.as_deref(),
        )?),
    };
    // Without systemd there is nobody to tell.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    let failure = tokio::select! {
        reason = server.failed() => Some(reason),
        _ = interrupt.recv() => None,
        _ = terminate.recv() => None,
        // With --dev: its terminal was closed, and nobody would look for it any more.
        () = hung_up(&mut hangup) => None,
        status = ended(&mut node) => Some(format!("the node ended: {status}")),
    };
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    if let Some(child) = &mut node {
        stop_node(child).await;
    }
    server.shutdown().await;
    match failure {
        None => Ok(()),
        Some(reason) => anyhow::bail!("{reason}"),
    }
}

/// Whether whoever started us had SIGHUP ignored (proc(5), `SigIgn`; the lowest bit is signal 1).
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 == 1)
}

async fn hung_up(hangup: &mut Option<Signal>) {
    match hangup {
        None => std::future::pending().await,
        Some(hangup) => {
            hangup.recv().await;
        }
    }
}

/// Reads the file again for what can change while a server runs.
fn on_hangup(
    path: &std::path::Path,
    logging: &Logging,
    certificates: &Certificates,
    cluster: &Cluster,
) {
    let config = match Config::load(path) {
        Ok(config) => config,
        Err(error) => {
            let error = anyhow::Error::from(error);
            tracing::error!(error = %format!("{error:#}"), "SIGHUP: nothing is changed");
            return;
        }
    };
    cluster.reconfigure(&config);
    let level = config.log.level;
    // Whoever changed more than that has to hear of it at every level that is usual.
    match logging.set_level(level) {
        Ok(LevelSet::Counts) => tracing::warn!(
            %level,
            "SIGHUP: log_level, the certificates, limits.budget and the labels of metrics are read; \
             all other settings need a restart"
        ),
        Ok(LevelSet::Overridden) => tracing::warn!(
            %level,
            "SIGHUP: log_level is read and changes nothing: DROVER_LOG is set; the certificates, \
             limits.budget and the labels of metrics are read; all other settings need a restart"
        ),
        Err(error) => {
            let error = anyhow::Error::from(error);
            tracing::error!(error = %format!("{error:#}"), "SIGHUP: log_level stays as it was");
        }
    }
    match certificates::load(&config).and_then(|identity| certificates.replace(identity)) {
        Ok(()) => tracing::info!("new connections are shown the certificate that was read"),
        Err(error) => {
            tracing::error!(error = %format!("{error:#}"), "the certificate was not replaced");
        }
    }
}

fn start_node(
    server: &Server,
    data_dir: &std::path::Path,
    certificates: &dev::DevCertificates,
    more: Option<&std::path::Path>,
) -> anyhow::Result<tokio::process::Child> {
    let mut text = dev::node_config(data_dir, server.quic_address()?, certificates);
    if let Some(more) = more {
        let read = std::fs::read_to_string(more)
            .with_context(|| format!("cannot read {}", more.display()))?;
        text.push_str(&format!("\n# From {}:\n{read}\n", more.display()));
    }
    let path = data_dir.join("node.hcl");
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    let own = std::env::current_exe().context("cannot find this program")?;
    let binary = own.with_file_name("noded");
    tokio::process::Command::new(&binary)
        .arg("--config")
        .arg(&path)
        .spawn()
        .with_context(|| format!("cannot start {}", binary.display()))
}

async fn ended(node: &mut Option<tokio::process::Child>) -> String {
    match node {
        None => std::future::pending().await,
        Some(child) => match child.wait().await {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        },
    }
}

/// Asks the node to end; its tasks go on, as they would under systemd.
async fn stop_node(child: &mut tokio::process::Child) {
    if let Some(id) = child.id()
        && let Ok(id) = i32::try_from(id)
        && let Some(process) = rustix::process::Pid::from_raw(id)
    {
        let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
    }
    let _ = tokio::time::timeout(std::time::Duration::from_secs(10), child.wait()).await;
}

/// The error and its causes, once.
fn report(error: &anyhow::Error) {
    eprintln!("controlplane: {error}");
    for cause in error.chain().skip(1) {
        eprintln!("  because: {cause}");
    }
}
