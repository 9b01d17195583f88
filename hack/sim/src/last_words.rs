//! What a run says when it panics: a bug of the product may (style, Errors), or one of the
//! simulator itself. The process ends there, and must not take the line that replays the run with
//! it.

use std::cell::RefCell;
use std::panic;
use std::sync::Once;

thread_local! {
    /// The run that goes on in this thread.
    static REPLAY: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// While it is there, a panic of its thread is followed by the line that replays it.
#[derive(Debug)]
pub struct LastWords(());

impl LastWords {
    /// A run begins in this thread, and `replay` repeats it.
    pub fn begin(replay: String) -> Self {
        static HOOK: Once = Once::new();
        // A hook, because nothing is unwound where long runs are built for speed.
        HOOK.call_once(|| {
            let usual = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                usual(info);
                let replay = REPLAY.try_with(|it| it.try_borrow().ok()?.clone());
                if let Ok(Some(replay)) = replay {
                    eprintln!("FAILED: a panic\n  as found:  {replay}");
                }
            }));
        });
        REPLAY.set(Some(replay));
        Self(())
    }
}

impl Drop for LastWords {
    fn drop(&mut self) {
        REPLAY.take();
    }
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::process::Command;

    use crate::run::{run, run_telling};
    use crate::schedule::Settings;

    /// Says to the process that is started below that it is that process.
    const CHILD: &str = "HACK_SIM_LAST_WORDS";
    const NAME: &str =
        "last_words::tests::a_panic_of_a_run_is_followed_by_the_line_that_replays_it";

    fn dies() {
        let short = Settings {
            steps: Some(10),
            ..Settings::of(6)
        };
        run(&short);
        let outside = std::panic::catch_unwind(|| panic!("not of a run"));
        outside.unwrap_err();
        let long = Settings {
            nodes: Some(50),
            ..Settings::of(7)
        };
        run_telling(&long, &mut |_| panic!("boom"));
    }

    #[test]
    fn a_panic_of_a_run_is_followed_by_the_line_that_replays_it() {
        if env::var_os(CHILD).is_some() {
            dies();
        }
        let mut child = Command::new(env::current_exe().unwrap());
        let child = child.args(["--exact", NAME, "--nocapture"]).env(CHILD, "1");
        let output = child.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let after = said.split("boom").nth(1).unwrap_or_default();
        let line = "  as found:  cargo xtask sim --seed 7 --nodes 50 --check-every 1\n";
        assert!(after.contains(line), "{said}");
        assert_eq!(said.matches("as found").count(), 1, "{said}");
    }
}
