//! A consistent read on any server knows everything that was acknowledged before it was asked for.

use super::Invariant;
use crate::eyes::{Observation, View};

#[derive(Debug)]
pub(super) struct ReadsAreCurrent;

impl Invariant for ReadsAreCurrent {
    fn name(&self) -> &'static str {
        "reads_are_current"
    }

    fn source(&self) -> &'static str {
        "controlplane-raft, read barrier: a read of local state is linearizable after it"
    }

    fn on(&mut self, seen: &Observation<'_>, _: &View) -> Result<(), String> {
        match seen {
            Observation::Read {
                server,
                acknowledged,
                index,
            } if index < acknowledged => Err(format!(
                "s{server} answers with {index}, although {acknowledged} was acknowledged before"
            )),
            Observation::JobRead {
                server,
                job,
                acknowledged,
                modify_index,
            } if modify_index.is_none_or(|it| it < *acknowledged) => Err(format!(
                "s{server} answers that {job} is at {modify_index:?}, although {acknowledged} was \
                 acknowledged before"
            )),
            _ => Ok(()),
        }
    }
}
