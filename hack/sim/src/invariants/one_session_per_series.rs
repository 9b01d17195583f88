//! A node that knocks again and again, since no answer came, gets one session: a repeated knock
//! does not end what an earlier one began.

use std::collections::BTreeMap;

use controlplane_state::{Command, Outcome, SessionEpoch, WelcomeKind};
use protocol_model::NodeStatus;

use super::{Invariant, Observation};
use crate::event::NodeIx;
use crate::node_ids::node_ix;
use crate::world::World;

/// Which series each knock belongs to, by what it says, and the session that a series made.
#[derive(Debug, Default)]
pub(super) struct OneSessionPerSeries {
    series_of: BTreeMap<(NodeIx, [u8; 16]), [u8; 16]>,
    made: BTreeMap<(NodeIx, [u8; 16]), SessionEpoch>,
}

impl Invariant for OneSessionPerSeries {
    fn name(&self) -> &'static str {
        "one_session_per_series"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, States: a Hello carries a nonce, drawn once per series of attempts"
    }

    fn on(&mut self, seen: &Observation<'_>, _: &World) -> Result<(), String> {
        if let Observation::HelloSent {
            node,
            series,
            nonce,
            ..
        } = seen
        {
            self.series_of.insert((*node, *nonce), *series);
            return Ok(());
        }
        let Observation::Applied {
            before,
            command: Command::NodeHello(hello),
            applied,
            ..
        } = seen
        else {
            return Ok(());
        };
        let Outcome::Welcome(welcome) = &applied.outcome else {
            return Ok(());
        };
        let node = node_ix(hello.node);
        let Some(series) = self.series_of.get(&(node, hello.nonce)) else {
            return Err(format!("n{node} is welcome and never knocked"));
        };
        if welcome.kind != WelcomeKind::New {
            return Ok(());
        }
        let earlier = self.made.insert((node, *series), welcome.epoch);
        let lives = before.node(hello.node).is_some_and(|record| {
            let status = record.node.status;
            Some(record.session.epoch) == earlier
                && matches!(status, NodeStatus::Ready | NodeStatus::Initializing)
        });
        if lives {
            return Err(format!(
                "n{node}: session {} ends session {earlier:?} of the same series of knocks",
                welcome.epoch
            ));
        }
        Ok(())
    }
}
