//! This process's terminal, while a command of another host is shown on it.

use rustix::termios::{self, OptionalActions, Termios, Winsize};

use crate::failure::Failure;

/// The terminal in raw mode; dropping it brings the old mode back.
#[derive(Debug)]
pub(super) struct RawTerminal {
    before: Termios,
}

impl RawTerminal {
    /// Every key goes to the command, Ctrl-C too.
    ///
    /// # Errors
    /// If stdin is no terminal.
    pub(super) fn enter() -> Result<Self, Failure> {
        let failed = |error: rustix::io::Errno| Failure::Host {
            what: "switching the terminal to raw mode",
            source: error.into(),
        };
        let before = termios::tcgetattr(std::io::stdin()).map_err(failed)?;
        let mut raw = before.clone();
        raw.make_raw();
        termios::tcsetattr(std::io::stdin(), OptionalActions::Now, &raw).map_err(failed)?;
        Ok(Self { before })
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // Nothing better can be done with a terminal that refuses.
        let _ = termios::tcsetattr(std::io::stdin(), OptionalActions::Drain, &self.before);
    }
}

/// How large the window is; `None` where there is none, or one without a size.
pub(super) fn window() -> Option<Winsize> {
    let size = termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some(size)
}
