//! A machine whose state shows what it was given: the commands in order, and what restored it.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};

use controlplane_raft::{ApplyError, CheckpointSource, Machine, Position, RestoreError};

/// What a [`Journal`] has seen. The test keeps a handle.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) commands: Vec<String>,
    /// Where the newest restore came from, if there was one.
    pub(crate) restored_at: Option<u64>,
    pub(crate) index: u64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Journal {
    pub(crate) seen: Arc<Mutex<Seen>>,
    /// Whether commands of a newer release are understood.
    pub(crate) upgraded: bool,
}

impl Journal {
    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().expect("not poisoned").clone()
    }

    pub(crate) fn commands(&self) -> Vec<String> {
        self.seen().commands
    }
}

impl Machine for Journal {
    fn apply(&mut self, position: Position, command: &[u8]) -> Result<Vec<u8>, ApplyError> {
        let text = String::from_utf8_lossy(command).into_owned();
        if text == "panic" {
            panic!("asked to");
        }
        if text == "newer" && !self.upgraded {
            return Err("written by a newer release".into());
        }
        let mut seen = self.seen.lock().expect("not poisoned");
        assert_eq!(
            position.index,
            seen.index + 1,
            "no index is skipped or repeated"
        );
        seen.index = position.index;
        seen.commands.push(text);
        Ok(format!("answer {}", seen.commands.len()).into_bytes())
    }

    fn advance(&mut self, position: Position) {
        let mut seen = self.seen.lock().expect("not poisoned");
        assert_eq!(
            position.index,
            seen.index + 1,
            "no index is skipped or repeated"
        );
        seen.index = position.index;
    }

    fn checkpoint(&self) -> Box<dyn CheckpointSource> {
        Box::new(Lines(self.commands()))
    }

    fn restore(
        &mut self,
        checkpoint: &mut dyn Read,
        position: Position,
    ) -> Result<(), RestoreError> {
        let text = io::read_to_string(checkpoint)?;
        let mut seen = self.seen.lock().expect("not poisoned");
        seen.commands = text.lines().map(str::to_owned).collect();
        seen.restored_at = Some(position.index);
        seen.index = position.index;
        Ok(())
    }
}

struct Lines(Vec<String>);

impl CheckpointSource for Lines {
    fn write_to(&self, sink: &mut dyn Write) -> io::Result<()> {
        self.0.iter().try_for_each(|line| writeln!(sink, "{line}"))
    }
}
