//! `nodesim`: thousands of nodes with real sessions, from one process. See the crate's front page.

use std::io::{BufRead, Write};
use std::time::Duration;

use clap::Parser;
use hack_nodesim::args::Args;
use hack_nodesim::control::{Answer, Command, carry_out};
use hack_nodesim::fleet::Fleet;
use tokio::sync::mpsc;
use tracing_subscriber::EnvFilter;

/// How often it is told how far the nodes are, while they begin.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// How long they may take until commands are taken all the same.
const BEGIN_MAX: Duration = Duration::from_secs(120);

/// A thousand nodes share the processors with the servers that they are there to try.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let filter = EnvFilter::try_from_env("NODESIM_LOG").unwrap_or_else(|_| EnvFilter::new("off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let mut fleet = Fleet::new(&args)?;
    eprintln!("-- {} nodes behind {}", args.nodes, fleet.address()?);
    fleet.mark();
    begin(&mut fleet, &args).await;
    let begun = Answer {
        command: "begin".to_owned(),
        missing: Some(fleet.wait_live(Duration::ZERO).await),
        stats: Some(fleet.stats()),
        ..Answer::default()
    };
    say(&begun)?;
    let mut lines = read_lines();
    while let Some(line) = lines.recv().await {
        let mut answer = match line.parse::<Command>() {
            Ok(Command::Quit) => break,
            Ok(command) => carry_out(&mut fleet, &command).await,
            Err(error) => Answer {
                error: Some(error.to_string()),
                ..Answer::default()
            },
        };
        answer.command = line;
        say(&answer)?;
    }
    fleet.end().await;
    Ok(())
}

/// Lines of standard input, until it ends. A thread reads them: to wait for input must not hold up
/// the end of the process.
fn read_lines() -> mpsc::Receiver<String> {
    let (lines, received) = mpsc::channel(1);
    std::thread::spawn(move || {
        let input = std::io::stdin().lock().lines();
        for line in input.map_while(Result::ok) {
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
    });
    received
}

/// Starts all nodes and tells how far they are until all of them live.
async fn begin(fleet: &mut Fleet, args: &Args) {
    let step = args.rate.max(1);
    while fleet.len() < args.nodes as usize {
        let next = u32::try_from(fleet.len())
            .unwrap_or(u32::MAX)
            .saturating_add(step);
        fleet.grow(next.min(args.nodes), args.rate).await;
        tell(fleet, args.nodes);
    }
    let looks = BEGIN_MAX.as_secs() / TELL_EVERY.as_secs();
    for _ in 0..looks {
        if fleet.wait_live(TELL_EVERY).await == 0 {
            break;
        }
        tell(fleet, args.nodes);
    }
    tell(fleet, args.nodes);
}

fn tell(fleet: &Fleet, nodes: u32) {
    let stats = fleet.stats();
    eprintln!(
        "-- {} of {nodes} live, {} connecting, {} greeting, {} syncing, {} away; {} MiB",
        stats.stages.live,
        stats.stages.connecting,
        stats.stages.greeting,
        stats.stages.syncing,
        stats.stages.away,
        stats.cost.rss_kib / 1024
    );
}

fn say(answer: &Answer) -> anyhow::Result<()> {
    let mut line = serde_json::to_string(answer)?;
    line.push('\n');
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes())?;
    Ok(out.flush()?)
}
