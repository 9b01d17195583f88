//! A node's Hello: what it says, and whether it gets a session.
//!
//! ```text
//!   Hello --no place, too many refusals--> Refused        without a look
//!     |  --resumed, repeated--> Welcome                   leader's state, or a consistent read
//!     |  --wrong secret, wrong token--> Refused           from a consistent read
//!     +-- new session --NodeHello--> Welcome              (commit)
//! ```

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use controlplane_state::command::{DaemonLife, JoinVerdict, NodeHello};
use controlplane_state::{
    Command, HelloAnswer, Outcome, SessionEpoch, Snapshot, Welcome, WelcomeKind, computed_class,
};
use protocol_model::{Node, NodeId};
use protocol_transport::{FrameReader, Handshake};
use protocol_wire::kind::from_frame;
use protocol_wire::{PROTOCOL_MAX, PROTOCOL_MIN, v1};
use tokio::time::Instant;

use super::answers::Refuse;
use super::twins::is_rival;
use super::{Gateway, digest};
use crate::cluster::ChangeError;

/// How long a server behind a node's watermark waits before it sends the node elsewhere.
const CATCH_UP_MAX: Duration = Duration::from_secs(2);

/// A Hello whose fields make sense.
pub(super) struct KnownHello {
    pub(super) node: NodeId,
    secret: Bytes,
    nonce: [u8; 16],
    boot_id: [u8; 16],
    facts: Option<Arc<Node>>,
    pub(super) message: v1::Hello,
}

pub(super) async fn read_hello(reader: &mut FrameReader) -> Result<KnownHello, String> {
    let frame = reader.expect().await.map_err(|error| error.to_string())?;
    let message: v1::Hello =
        from_frame(frame.kind, frame.body).map_err(|error| error.to_string())?;
    let node = NodeId::from_slice(&message.node_id).ok_or("node_id is not 16 bytes")?;
    if message.secret.len() != 32 {
        return Err("secret is not 32 bytes".to_owned());
    }
    let nonce = message
        .nonce
        .as_ref()
        .try_into()
        .map_err(|_| "nonce is not 16 bytes")?;
    let boot_id = message
        .boot_id
        .as_ref()
        .try_into()
        .map_err(|_| "boot_id is not 16 bytes")?;
    let facts = match &message.facts {
        None => None,
        Some(facts) => Some(Arc::new(read_facts(facts, node)?)),
    };
    Ok(KnownHello {
        node,
        secret: message.secret.clone(),
        nonce,
        boot_id,
        facts,
        message,
    })
}

/// Waits until it is certain that a Hello is nothing that was said a while ago, where that matters:
/// it came with a connection's first packet, which somebody kept back and sends now, once
/// ([`Handshake`]). One that names the node's newest session is said in this very place, or not
/// answered yet: it goes on with what there is, or begins what the node, which repeats its nonce,
/// is given, too. Any other may be older than the session that it would end.
///
/// `false` where the node will never be there itself.
pub(super) async fn is_of_now(
    gateway: &Gateway,
    node: NodeId,
    named: SessionEpoch,
    handshake: &mut Handshake,
) -> bool {
    let names_newest = {
        let snapshot = gateway.cluster.snapshot();
        let record = snapshot.node(node);
        record.is_some_and(|record| record.session.epoch == named)
    };
    names_newest || handshake.done().await
}

pub(super) fn read_facts(facts: &v1::NodeFacts, node: NodeId) -> Result<Node, String> {
    let mut facts: Node = serde_json::from_slice(&facts.json)
        .map_err(|error| format!("the node's facts make no sense: {error}"))?;
    if facts.id != node {
        return Err("the node's facts are of another node".to_owned());
    }
    // The class is the proposer's to compute, so that servers of two releases never disagree.
    facts.computed_class = computed_class(&facts);
    Ok(facts)
}

/// Decides whether a Hello is looked at, and remembers whom it turned away.
pub(super) async fn knock(
    gateway: &Gateway,
    hello: KnownHello,
    address: IpAddr,
    handshake: &mut Handshake,
) -> Result<Welcome, Refuse> {
    use v1::RefusedReason as Reason;
    if !gateway.has_room(hello.node) {
        return Err(Refuse::overfull(gateway));
    }
    if gateway.heard.is_cut_off() {
        let text = "this server does not reach the leader: another server may serve the node";
        return Err(Refuse::new(Reason::NoLeader, text));
    }
    if !gateway.knocks().may_knock(address, Instant::now()) {
        let text = format!(
            "too many knocks of {address} were refused lately, for their secret or their join token: \
             mend the node's configuration; it is looked at again after a while"
        );
        return Err(Refuse::new(Reason::Overloaded, text));
    }
    let answer = greet(gateway, hello, address, handshake).await;
    if let Err(refused) = &answer
        && matches!(refused.reason, Reason::WrongSecret | Reason::JoinToken)
    {
        gateway.knocks().on_refused(address, Instant::now());
    }
    answer
}

/// Decides on a Hello: what can be decided outside of the log, then the log.
async fn greet(
    gateway: &Gateway,
    hello: KnownHello,
    address: IpAddr,
    handshake: &mut Handshake,
) -> Result<Welcome, Refuse> {
    let message = &hello.message;
    if message.protocol_min > PROTOCOL_MAX || message.protocol_max < PROTOCOL_MIN {
        let text = format!(
            "the node speaks protocol {} to {}, this server {PROTOCOL_MIN} to {PROTOCOL_MAX}; \
             upgrade the servers first",
            message.protocol_min, message.protocol_max
        );
        return Err(Refuse::new(v1::RefusedReason::Protocol, text));
    }
    catch_up(gateway, message.watermark.as_ref()).await?;
    let knock = NodeHello {
        node: hello.node,
        secret_hash: digest(&hello.secret),
        nonce: hello.nonce,
        last_epoch: SessionEpoch(message.last_epoch),
        boot_id: hello.boot_id,
        daemon: DaemonLife::of_restarted(message.daemon_restarted),
        facts: hello.facts,
        join: if gateway.join_allowed(&message.join_token) {
            JoinVerdict::Allowed
        } else {
            JoinVerdict::Denied
        },
    };
    if let Some(answer) = answer_without_entry(gateway, &knock).await? {
        return answer;
    }
    // What was the newest session here before may not be by now.
    if !is_of_now(gateway, knock.node, knock.last_epoch, handshake).await {
        let text = "the connection ended before the node had shown that it is there";
        return Err(Refuse::new(v1::RefusedReason::Malformed, text));
    }
    let node = knock.node;
    let is_rival = {
        let snapshot = gateway.cluster.snapshot();
        let session = snapshot.node(node).map(|record| record.session);
        session.is_some_and(|newest| is_rival(newest.epoch, &newest.nonce, &knock))
    };
    let other = gateway.session_address(node);
    let command = Command::NodeHello(Box::new(knock));
    match gateway.cluster.change(command).await?.outcome {
        Outcome::Welcome(welcome) => {
            if is_rival && welcome.kind == WelcomeKind::New {
                gateway.note_rival(node, address, other);
            }
            let deadline = Instant::now() + CATCH_UP_MAX;
            match gateway.cluster.at_least(welcome.epoch.0, deadline).await {
                Ok(_) => Ok(welcome),
                Err(_) => {
                    let text = "this server is behind the session that was made";
                    Err(Refuse::new(v1::RefusedReason::Behind, text))
                }
            }
        }
        other => {
            let text = format!("the state answered a hello with {other:?}");
            Err(Refuse::new(v1::RefusedReason::NoLeader, text))
        }
    }
}

/// What needs no entry of the log: a resume, a repeat, a refusal. The leader's own state may
/// welcome; a follower's may be older than the session, and what would be refused may be of
/// yesterday, so that is asked of what is on a majority.
async fn answer_without_entry(
    gateway: &Gateway,
    knock: &NodeHello,
) -> Result<Option<Result<Welcome, Refuse>>, Refuse> {
    let leads = gateway.cluster.is_leader();
    let at_hand = gateway.cluster.snapshot().answer_hello(knock);
    let answer = match at_hand {
        HelloAnswer::Propose => return Ok(None),
        HelloAnswer::Welcome(_) if leads => at_hand,
        HelloAnswer::Welcome(_) | HelloAnswer::Refused(_) => {
            gateway.cluster.consistent().await?.answer_hello(knock)
        }
    };
    Ok(match answer {
        HelloAnswer::Propose => None,
        HelloAnswer::Welcome(welcome) => Some(Ok(welcome)),
        HelloAnswer::Refused(refusal) => Some(Err(ChangeError::Refused(refusal).into())),
    })
}

/// A server behind what the node has seen waits a little, then sends the node elsewhere.
async fn catch_up(gateway: &Gateway, watermark: Option<&v1::Watermark>) -> Result<(), Refuse> {
    let Some(watermark) = watermark else {
        return Ok(());
    };
    let snapshot = gateway.cluster.snapshot();
    if !same_incarnation(&snapshot, watermark) || snapshot.index() >= watermark.index {
        return Ok(());
    }
    let deadline = Instant::now() + CATCH_UP_MAX;
    match gateway.cluster.at_least(watermark.index, deadline).await {
        Ok(_) => Ok(()),
        Err(_) => {
            let text = format!(
                "this server is at index {}, the node has seen {}",
                gateway.cluster.snapshot().index(),
                watermark.index
            );
            Err(Refuse::new(v1::RefusedReason::Behind, text))
        }
    }
}

fn same_incarnation(snapshot: &Snapshot, watermark: &v1::Watermark) -> bool {
    snapshot.cluster().incarnation.is_some_and(|incarnation| {
        incarnation.as_bytes().as_slice() == watermark.incarnation.as_ref()
    })
}

/// Whether what a node was told before belongs to this cluster's history.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum History {
    /// It does: its watch index means something here.
    Ours,
    /// It was told by another incarnation, or by none.
    Foreign,
}

pub(super) fn history(gateway: &Gateway, watermark: Option<&v1::Watermark>) -> History {
    let snapshot = gateway.cluster.snapshot();
    match watermark {
        Some(watermark) if same_incarnation(&snapshot, watermark) => History::Ours,
        _ => History::Foreign,
    }
}
