//! `noded-jail VERB`: noded starts it for one piece of work. See the library.

use std::process::ExitCode;

use noded_jail::{Fetch, Render, Verb, confine, fetch, render, serve};
use protocol_error_chain::chain;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let verb = match (words.next(), words.next()) {
        (Some(word), None) => word.parse::<Verb>().map_err(|error| error.to_string()),
        _ => Err("usage: noded-jail render|fetch < REQUEST".to_owned()),
    };
    let verb = match verb {
        Ok(verb) => verb,
        Err(problem) => {
            eprintln!("noded-jail: {problem}");
            return ExitCode::from(2);
        }
    };
    let served = match verb {
        Verb::Render => serve::<Render>(|_| confine::Profile::Compute, render),
        Verb::Fetch => serve::<Fetch>(
            |work| confine::Profile::Fetch {
                staging: work.staging.clone(),
            },
            fetch,
        ),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("noded-jail: {}", chain(&error));
            ExitCode::FAILURE
        }
    }
}
