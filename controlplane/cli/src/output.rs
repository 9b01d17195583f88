//! Where words go: data to stdout, the rest to stderr, colour only where somebody sees it.

use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;

use crate::failure::Failure;

/// Whether text is coloured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Colour {
    /// With escape sequences.
    On,
    /// As it is.
    Off,
}

impl Colour {
    /// Coloured only on a terminal, and only if nobody objects.
    pub(crate) fn choose(refused: bool) -> Self {
        if !refused && io::stdout().is_terminal() {
            Self::On
        } else {
            Self::Off
        }
    }

    /// A heading.
    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Something new.
    pub(crate) fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// Something lost or wrong.
    pub(crate) fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    /// Something changed.
    pub(crate) fn yellow(self, text: &str) -> String {
        self.paint("33", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        match self {
            Self::On => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            Self::Off => text.to_owned(),
        }
    }
}

/// The two streams of a command.
#[derive(Debug)]
pub(crate) struct Output {
    colour: Colour,
}

impl Output {
    /// Streams with or without colour.
    pub(crate) fn new(colour: Colour) -> Self {
        Self { colour }
    }

    /// Whether text is coloured.
    pub(crate) fn colour(&self) -> Colour {
        self.colour
    }

    /// Data: `text`, ended by one newline.
    pub(crate) fn data(&self, text: &str) -> Result<(), Failure> {
        self.bytes(text.trim_end_matches('\n').as_bytes())?;
        self.bytes(b"\n")
    }

    /// Data as it is: what a task wrote.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout
            .write_all(bytes)
            .and_then(|()| stdout.flush())
            .map_err(Failure::Output)
    }

    /// Data as JSON, indented.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value).map_err(|source| Failure::Json {
            what: "the answer",
            source,
        })?;
        self.data(&text)
    }

    /// A line about the progress of things, or a warning. A closed stderr stops nothing.
    pub(crate) fn note(&self, text: &str) {
        let mut stderr = io::stderr().lock();
        let _ = writeln!(stderr, "{text}");
    }

    /// Bytes for stderr: what a task wrote there.
    pub(crate) fn error_bytes(&self, bytes: &[u8]) {
        let mut stderr = io::stderr().lock();
        let _ = stderr.write_all(bytes).and_then(|()| stderr.flush());
    }

    /// A failure with its causes and its hint.
    pub(crate) fn failure(&self, failure: &Failure) {
        let failure = failure.inner();
        self.note(&format!("{} {failure}", self.colour.red("error:")));
        let mut cause = std::error::Error::source(failure);
        while let Some(error) = cause {
            self.note(&format!("  caused by: {error}"));
            cause = error.source();
        }
        if let Some(hint) = failure.hint() {
            self.note(&format!("hint: {hint}"));
        }
    }
}
