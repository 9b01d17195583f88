//! `drover`, the command line of the cluster.
//!
//! - [`main`] is the whole program: arguments and environment in, text and an exit code out.
//!
//! What happens to one call:
//!
//! ```text
//!   argv --argv--> flags as clap reads them --arguments--> a command
//!        --session--> a client, an Output, the time
//!        --commands--> calls of /v1 --render--> text (functions: values in, text out)
//! ```
//!
//! - Data goes to stdout; progress, warnings and errors go to stderr.
//! - Job files are read here (`job_file`), with the files beside them; the server gets JSON.
//! - Exit codes: 0 done, 1 failed, 2 accepted but not everything placed; `job plan`: 0 nothing
//!   changes, 1 something does, 255 failed; `alloc exec`: the command's own.

mod arguments;
mod argv;
mod asking;
mod commands;
mod failure;
mod find;
mod job_file;
mod listing;
mod monitor;
mod output;
mod refusal;
mod render;
mod session;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};

use crate::arguments::Arguments;
use crate::commands::job::plan::FAILED as PLAN_FAILED;
use crate::commands::var::lock::group_leader;
use crate::failure::{Exit, Failure};
use crate::output::{Colour, Output};
use crate::session::Session;

/// Reads the process's arguments and carries them out.
pub fn main() -> ExitCode {
    let words = std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.collect();
    if let Some((first, rest)) = words.split_first()
        && first == group_leader::WORD
    {
        let out = Output::new(Colour::Off);
        return exit(&out, carry_out(group_leader::run(rest)));
    }
    let mut root = Arguments::command();
    root.build();
    let words = argv::normalise(&root, words);
    let program = std::iter::once("drover".to_owned());
    let parsed = Arguments::command()
        .try_get_matches_from(program.chain(words.iter().cloned()))
        .and_then(|matches| Arguments::from_arg_matches(&matches));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(error) => {
            // A closed pipe leaves nobody to tell.
            let _ = error.print();
            if wants_template(&error) {
                let _ = writeln!(
                    std::io::stderr(),
                    "hint: answers are not rendered by templates in this release; -json prints the \
                     whole answer, for jq to choose from"
                );
            }
            return match error.use_stderr() {
                true => ExitCode::from(usage_code(&words)),
                false => ExitCode::SUCCESS,
            };
        }
    };
    let session = Session::new(arguments.global);
    exit(&session.out, carry_out(arguments.command.run(&session)))
}

/// The exit code of a command. Its failure is printed.
fn exit(out: &Output, ended: Result<Exit, Failure>) -> ExitCode {
    match ended {
        Ok(Exit(code)) => ExitCode::from(code),
        Err(failure) => {
            if !failure.is_closed_pipe() {
                out.failure(&failure);
            }
            ExitCode::from(failure.code())
        }
    }
}

/// The exit code where `words` make no sense: 1 of `job plan` would mean that something changes.
fn usage_code(words: &[String]) -> u8 {
    let mut commands = words.iter().filter(|word| !word.starts_with('-'));
    match (commands.next(), commands.next()) {
        (Some(job), Some(plan)) if job == "job" && plan == "plan" => PLAN_FAILED,
        _ => 1,
    }
}

/// Whether `-t TEMPLATE` was refused: users of Nomad know it on every command that reads.
fn wants_template(error: &clap::Error) -> bool {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let flag = error.get(ContextKind::InvalidArg);
    error.kind() == ErrorKind::UnknownArgument
        && matches!(flag, Some(ContextValue::String(flag)) if flag == "-t")
}

fn carry_out(command: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| Failure::Host {
            what: "starting the runtime",
            source,
        })?;
    runtime.block_on(command)
}
