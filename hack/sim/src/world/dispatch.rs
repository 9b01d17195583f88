//! Dispatches and the clients that ask for them: a client that hears nothing asks again, with the
//! same token.

use std::sync::Arc;

use controlplane_state::command::ChildJob;
use controlplane_state::{Command, Launched, Outcome, Refusal};
use protocol_model::{EvalTrigger, Job, JobKey, JobStatus};

use super::World;
use crate::event::{Answer, Event, ServerIx};
use crate::invariants::Observation;
use crate::schedule::jobs;
use crate::time::{MILLI, SECOND, wall};

/// When a client that was not answered asks again.
const ASKS_AGAIN: u64 = SECOND;
/// When the server builds a child again whose template changed meanwhile.
const BUILDS_AGAIN: u64 = 5 * MILLI;

impl World {
    /// A dispatch as the API makes it, from what the server that is asked knows. `None` where that
    /// server answers by itself.
    pub(super) fn dispatch(&mut self, server: ServerIx, job: usize, token: u32) -> Option<Command> {
        let key = JobKey::new("default", jobs::name(job));
        let text = jobs::token(token);
        let snapshot = self.servers[usize::from(server)].snapshot.clone();
        let template = snapshot.job(&key).filter(|job| job.is_parameterized())?;
        if let Some(child) = snapshot.dispatched_with(&key, &text) {
            let launched = Launched {
                child: child.key(),
                create_index: child.create_index,
                eval: None,
            };
            self.counts.ops_acknowledged += 1;
            self.answer_dispatch(token, &launched);
            return None;
        }
        if template.stop {
            return None;
        }
        let mut child = Job::clone(template);
        let second = wall(self.now, 0).0 / 1_000_000_000;
        let unique = self.rng.id() >> 96;
        child.id = format!("{}/dispatch-{second}-{unique:08x}", template.id);
        child.name.clone_from(&child.id);
        child.parent_id.clone_from(&template.id);
        child.dispatched = true;
        child.dispatch_idempotency_token = text;
        child.payload = Some(jobs::payload(token));
        child.status = JobStatus::Pending;
        child.canonicalize();
        self.clients.tokens.insert(child.id.clone(), token);
        Some(Command::JobDispatch(ChildJob {
            spec: child.spec_hash(),
            parent_index: template.job_modify_index,
            eval: Some(self.eval(&child, EvalTrigger::JobRegister)),
            job: Arc::new(child),
        }))
    }

    /// A client hears what became of its dispatch.
    pub(super) fn on_dispatched(&mut self, number: u32, token: u32, answer: &Answer) {
        match answer {
            Answer::Done {
                outcome: Outcome::JobDispatched(launched),
                ..
            } => {
                self.counts.ops_acknowledged += 1;
                self.answer_dispatch(token, launched);
            }
            Answer::NoLeader | Answer::Unknown => {
                self.counts.ops_unknown += 1;
                self.queue.push(self.now + ASKS_AGAIN, Event::Op(number));
            }
            Answer::Refused(Refusal::TemplateChanged { .. } | Refusal::ChildExists(_)) => {
                self.queue.push(self.now + BUILDS_AGAIN, Event::Op(number));
            }
            Answer::Refused(_) | Answer::Done { .. } => {}
        }
    }

    fn answer_dispatch(&mut self, token: u32, launched: &Launched) {
        self.note(|| format!("token {token} is answered {}", launched.child));
        self.observe(Observation::Dispatched { token, launched });
    }
}
