//! Part `artifact`: a tar.gz with a checksum from an HTTP server of this process, fetched,
//! inspected and merged as noded does it, beside `curl` and then `tar -xz` of the same, in turn.
//!
//! `curl` and `tar` compute no checksum and look at no entry. Nothing waits for the disk on either
//! side; both write to the disk that holds the build.

mod archive;
mod server;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use noded_artifact::{FetchLimits, FetchRequest, Links, Mode, Staging, inspect, merge};
use noded_jail::Fetch;

use self::archive::Archive;
use self::server::Server;
use super::{NAME, folder, jail};
use crate::Bench;
use crate::floor::Quantiles;
use crate::row::Row;

/// Our time, of that of `curl` and `tar`.
const GOAL: f64 = 2.0;
const ROUNDS: usize = 3;
const DESTINATION: &str = "task/local/tree";
const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// See the top of this file. `mib` is the least size of the archive.
///
/// # Errors
/// A tool is missing, or a side fails.
pub(super) fn measure(bench: &Bench, mib: u64, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    ensure!(mib > 0, "--artifact-mib is 0: there is nothing to fetch");
    let scratch = folder(bench, "artifact")?;
    eprintln!("-- a tar.gz of at least {mib} MiB is made");
    let archive = Archive::make(&scratch, mib)?;
    let server = Server::start(&archive.path)?;
    eprintln!("-- {ROUNDS} rounds of ours, curl and then tar, curl into tar");
    let program = bench.programs.join("noded-jail");
    let [mut ours, mut files, mut pipes] = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        let place = |side: &str| scratch.join(format!("{side}-{round}"));
        ours.push(fetch(&program, &place("ours"), &archive, &server).context("ours")?);
        files.push(curl_then_tar(&place("files"), &archive, &server).context("curl, tar")?);
        pipes.push(curl_into_tar(&place("pipe"), &archive, &server).context("curl | tar")?);
    }
    let median = |samples| Quantiles::of(samples).map(|all| all.p50.as_secs_f64());
    let medians = [ours, files, pipes].map(median);
    let [Some(ours), Some(files), Some(pipes)] = medians else {
        unreachable!("there is at least one round");
    };
    let size = archive.bytes >> 20;
    let figure = format!("artifact: tar.gz of {size} MiB, checksum, unpacked and merged, p50");
    rows.push(Row {
        rival: Some("curl, tar"),
        rival_value: Some(files),
        ..Row::new(NAME, figure, ours, "s")
    });
    let figure = "artifact: p50 of ours, of curl and then tar -xz";
    rows.push(Row::new(NAME, figure, ours / files, "").at_most(GOAL));
    let figure = "artifact: p50 of ours, of curl piped into tar -xz";
    rows.push(Row::new(NAME, figure, ours / pipes, ""));
    Ok(())
}

/// A fetch as noded does it: the child downloads and unpacks, then its work is inspected and moved.
fn fetch(
    program: &Path,
    base: &Path,
    archive: &Archive,
    server: &Server,
) -> anyhow::Result<Duration> {
    std::fs::create_dir_all(base)?;
    let begun = Instant::now();
    let path = base.join("staging");
    for folder in [path.clone(), path.join("home"), path.join("tmp")] {
        std::fs::DirBuilder::new().mode(0o700).create(folder)?;
    }
    let own = |name: &str| path.join(name).display().to_string();
    let variables = [
        ("PATH", SEARCH_PATH.to_owned()),
        ("HOME", own("home")),
        ("TMPDIR", own("tmp")),
    ];
    let checksum = format!("sha256:{}", archive.sha256);
    let work = Fetch {
        request: FetchRequest {
            source: server.url(),
            options: BTreeMap::from([("checksum".to_owned(), checksum)]),
            headers: BTreeMap::new(),
            mode: Mode::Any,
            insecure: false,
            limits: FetchLimits::default(),
        },
        staging: path.clone(),
        environment: variables
            .map(|(name, value)| (name.to_owned(), value))
            .to_vec(),
    };
    let fetched = jail::run(program, &work)?;
    let fetched = fetched.map_err(|failure| anyhow::anyhow!(failure.message))?;
    let staging = Staging::new(File::open(&path)?.into(), path);
    let destination = Path::new(DESTINATION);
    inspect(&staging, fetched.shape, destination, Links::Judged, None)?;
    let folder = File::open(base)?;
    merge(&staging, folder.as_fd(), destination)?;
    let took = begun.elapsed();
    archive.must_be_at(&base.join(DESTINATION))?;
    std::fs::remove_dir_all(base)?;
    Ok(took)
}

/// Two programs one after the other, with the archive in a file between them.
fn curl_then_tar(base: &Path, archive: &Archive, server: &Server) -> anyhow::Result<Duration> {
    let (tree, file) = (base.join("tree"), base.join("archive"));
    std::fs::create_dir_all(&tree)?;
    let begun = Instant::now();
    succeed(
        Command::new("curl")
            .arg("-sSf")
            .arg("-o")
            .arg(&file)
            .arg(server.url()),
    )?;
    succeed(
        Command::new("tar")
            .arg("-xzf")
            .arg(&file)
            .arg("-C")
            .arg(&tree),
    )?;
    let took = begun.elapsed();
    archive.must_be_at(&tree)?;
    std::fs::remove_dir_all(base)?;
    Ok(took)
}

/// Both programs at the same time, with a pipe between them.
fn curl_into_tar(base: &Path, archive: &Archive, server: &Server) -> anyhow::Result<Duration> {
    let tree: PathBuf = base.join("tree");
    std::fs::create_dir_all(&tree)?;
    let begun = Instant::now();
    let mut curl = Command::new("curl");
    let mut curl = curl
        .arg("-sSf")
        .arg(server.url())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = curl.stdout.take().context("no pipe")?;
    let mut tar = Command::new("tar");
    succeed(tar.args(["-xzf", "-", "-C"]).arg(&tree).stdin(output))?;
    let status = curl.wait()?;
    let took = begun.elapsed();
    ensure!(status.success(), "curl failed: {status}");
    archive.must_be_at(&tree)?;
    std::fs::remove_dir_all(base)?;
    Ok(took)
}

fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("run {name}"))?;
    ensure!(status.success(), "{name} failed: {status}");
    Ok(())
}
