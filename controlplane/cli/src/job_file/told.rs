//! What a user is told about a job file: mistakes and warnings, each with its line where the file
//! has one for it.

use protocol_jobspec::{Diagnostic, Places};
use protocol_model::Job;

use super::JobFile;
use crate::failure::Failure;
use crate::session::Session;

impl JobFile {
    /// Finds the job's mistakes before a server is asked. Answers the job in canonical form.
    ///
    /// # Errors
    /// All of them, each with its place in the file where that has one.
    pub(crate) fn check(&self) -> Result<Job, Failure> {
        let canonical = self.canonical();
        match canonical.validate() {
            Ok(()) => Ok(canonical),
            Err(errors) => Err(match self.places() {
                Some(places) => Failure::Mistakes(places.mistakes(&errors)),
                None => Failure::Job(errors.to_string()),
            }),
        }
    }

    /// Shows a server's warnings, a line each. Its release decides what is honoured; what ours
    /// would say in the same words has a place in the file.
    pub(crate) fn warn(&self, session: &Session, warnings: &str) {
        let lines = warnings.lines().map(str::trim);
        let mut lines = lines
            .filter(|line| !line.is_empty() && !is_headline(line))
            .peekable();
        if lines.peek().is_none() {
            return;
        }
        let places = self.places();
        let ours = self.canonical().unhonoured();
        for line in lines {
            let said = line.strip_prefix("* ").unwrap_or(line);
            let known = ours.iter().find(|warning| warning.to_string() == said);
            match (known, &places) {
                (Some(warning), Some(places)) => {
                    // The text around it would drown the others: there may be many.
                    let Diagnostic {
                        file,
                        line,
                        column,
                        message,
                        ..
                    } = places.warning(warning);
                    let note = format!("warning: {file}:{line}:{column}: {message}");
                    session.out.note(&note);
                }
                _ => session.out.note(&format!("warning: {said}")),
            }
        }
    }

    /// The same where no server was asked.
    pub(crate) fn warn_unasked(&self, session: &Session) {
        let ours = self.canonical().unhonoured();
        let said: Vec<String> = ours.iter().map(ToString::to_string).collect();
        self.warn(session, &said.join("\n"));
    }

    fn canonical(&self) -> Job {
        let mut canonical = self.job.clone();
        canonical.canonicalize();
        canonical
    }

    fn places(&self) -> Option<Places> {
        Places::of(&self.name, &self.submission.source)
    }
}

/// "3 warnings:", in front of a list of them.
fn is_headline(line: &str) -> bool {
    let number = line
        .strip_suffix(" warnings:")
        .or_else(|| line.strip_suffix(" warning:"));
    number.is_some_and(|number| number.parse::<u64>().is_ok())
}
