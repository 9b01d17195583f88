//! Panics of whatever runs in a simulated cluster: a runtime only ends the task, and a run would go
//! on without it. One of the simulator itself ends the run, whose last words are how to replay it.

use std::cell::RefCell;
use std::panic;
use std::sync::Once;

thread_local! {
    /// What panics said on this thread since [`begin`]; `None` = it simulates nothing.
    static SAID: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// While it is there, panics of its thread are noted and not printed.
#[derive(Debug)]
pub struct Noting {
    replay: String,
}

/// Begins to note panics of this thread, which runs what `replay` repeats.
pub fn begin(replay: String) -> Noting {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let noted = SAID.try_with(|said| match said.borrow_mut().as_mut() {
                Some(said) => {
                    said.push(info.to_string());
                    true
                }
                None => false,
            });
            if noted != Ok(true) {
                usual(info);
            }
        }));
    });
    SAID.set(Some(Vec::new()));
    Noting { replay }
}

/// The first panic since [`begin`].
pub fn first() -> Option<String> {
    SAID.with_borrow(|said| said.as_ref()?.first().cloned())
}

impl Drop for Noting {
    fn drop(&mut self) {
        let said = SAID.take().unwrap_or_default();
        // It was the simulator itself.
        if std::thread::panicking() {
            said.iter().for_each(|said| eprintln!("{said}"));
            eprintln!("FAILED: a panic\n  as found:  {}", self.replay);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::process::Command;

    use super::*;

    /// Says to the process that is started below that it is that process.
    const CHILD: &str = "HACK_SIM_CLUSTER_PANICS";
    const NAME: &str = "panics::tests::a_panic_of_the_simulator_is_followed_by_the_replay_line";

    #[test]
    fn a_panic_of_the_simulator_is_followed_by_the_replay_line() {
        if env::var_os(CHILD).is_some() {
            let _noting = begin("the line".to_owned());
            panic!("boom");
        }
        let mut child = Command::new(env::current_exe().unwrap());
        let child = child.args(["--exact", NAME, "--nocapture"]).env(CHILD, "1");
        let output = child.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let after = said.split("boom").nth(1).unwrap_or_default();
        assert!(after.contains("  as found:  the line\n"), "{said}");
    }

    #[test]
    fn a_panic_of_a_task_is_noted() {
        let noting = begin("the line".to_owned());
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let ended = runtime
            .unwrap()
            .block_on(async { tokio::spawn(async { panic!("boom") }).await });
        let said = first();
        drop(noting);
        ended.unwrap_err();
        assert!(said.is_some_and(|said| said.contains("boom")));
        assert_eq!(first(), None);
    }
}
