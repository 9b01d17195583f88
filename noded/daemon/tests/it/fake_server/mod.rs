//! A server that welcomes one node, tells it what to run, and remembers what it says.

mod queries;
mod streams;
mod tasks;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use protocol_model::{AllocId, Allocation, Job};
use protocol_transport::ca::{CertificateAuthority, CertificateRequest};
use protocol_transport::files::{write_certificate, write_key};
use protocol_transport::{
    Endpoint, EndpointConfig, FrameReader, FrameWriter, Identity, Region, Role, StreamKind,
};
use protocol_wire::kind::{FrameMessage, from_frame, to_frame};
use protocol_wire::report::AllocReport;
use protocol_wire::{PROTOCOL_MAX, v1};
use tokio::sync::watch;

use streams::serve;
pub(crate) use tasks::Asked;

const CAP: usize = 16 * 1024 * 1024;
const DAY: Duration = Duration::from_secs(24 * 3600);
const INCARNATION: [u8; 16] = [7; 16];
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What the server wants and knows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    pub(crate) index: u64,
    pub(crate) wanted: BTreeMap<AllocId, (Allocation, Arc<Job>)>,
    pub(crate) reports: BTreeMap<AllocId, AllocReport>,
    /// Session and revision of each of them.
    marks: BTreeMap<AllocId, (u64, u64)>,
    pub(crate) hellos: Vec<v1::Hello>,
    pub(crate) synced: Vec<Vec<AllocId>>,
    pub(crate) watch_acked: u64,
    pub(crate) heartbeats: u64,
    /// Heartbeats are not answered.
    pub(crate) mute: bool,
    /// Connections that were made.
    pub(crate) connections: usize,
    /// The newest protocol version of the server.
    pub(crate) protocol_max: u32,
    /// How often the node's connection for calls was asked for.
    pub(crate) calls_wanted: u64,
    /// Tokens that were signed.
    pub(crate) signed: u64,
    /// How long tokens are valid that have a ttl, in seconds.
    pub(crate) token_ttl_s: u64,
    /// The root key that every allocation names.
    pub(crate) root_key: u32,
    /// The items of the variables that templates may read, by path.
    pub(crate) variables: BTreeMap<String, BTreeMap<String, String>>,
    /// The public keys of the cluster, and their index.
    pub(crate) keys: (u64, serde_json::Value),
    /// Requests of tasks that were forwarded.
    pub(crate) requests: Vec<v1::ApiRequest>,
    /// Streams that they came on.
    pub(crate) task_streams: usize,
    /// Requests of tasks get no answer.
    pub(crate) is_mute_to_tasks: bool,
    /// Connections are closed at once.
    pub(crate) is_closed: bool,
    /// Facts that came outside of a Hello.
    pub(crate) facts: Vec<protocol_model::Node>,
    /// Requests of tasks, with their whole bodies.
    pub(crate) asked: Vec<Asked>,
    /// Requests of tasks that were given up by the node: their stream was reset.
    pub(crate) left: usize,
}

#[derive(Debug)]
pub(crate) struct FakeServer {
    pub(crate) address: SocketAddr,
    known: Arc<watch::Sender<Known>>,
    bulk: Arc<Mutex<Option<quinn::Connection>>>,
    connections: Arc<Mutex<Vec<quinn::Connection>>>,
    _endpoint: Endpoint,
}

fn identity(
    authority: &CertificateAuthority,
    role: Role,
) -> (Identity, protocol_transport::ca::CertifiedPem) {
    let request = CertificateRequest {
        role,
        region: Region::global(),
        common_name: format!("{role}-1"),
        names: vec!["localhost".to_owned()],
        addresses: Vec::new(),
        validity: DAY,
    };
    let issued = authority.issue(&request).unwrap();
    let identity = Identity::from_pem(&authority.pem().certificate, &issued).unwrap();
    (identity, issued)
}

impl FakeServer {
    /// Listens on the loopback address, and writes a node's certificates into `tls`.
    pub(crate) fn start(tls: &Path) -> Self {
        let authority = CertificateAuthority::create("test", DAY).unwrap();
        let (own, _) = identity(&authority, Role::Server);
        let (_, node) = identity(&authority, Role::Node);
        write_certificate(&tls.join("ca.pem"), &authority.pem().certificate).unwrap();
        write_certificate(&tls.join("node.pem"), &node.certificate).unwrap();
        write_key(&tls.join("node-key.pem"), &node.key).unwrap();
        let endpoint = Endpoint::bind(&EndpointConfig::loopback(own)).unwrap();
        let mut listener = endpoint.listen();
        let (known, _) = watch::channel(Known {
            index: 10,
            protocol_max: PROTOCOL_MAX,
            token_ttl_s: 20,
            keys: (1, serde_json::json!({"keys": []})),
            ..Known::default()
        });
        let server = Self {
            address: endpoint.local_address().unwrap(),
            known: Arc::new(known),
            bulk: Arc::default(),
            connections: Arc::default(),
            _endpoint: endpoint,
        };
        let (known, bulk) = (Arc::clone(&server.known), Arc::clone(&server.bulk));
        let connections = Arc::clone(&server.connections);
        tokio::spawn(async move {
            while let Some(peer) = listener.accept().await {
                assert_eq!(peer.identity.role, Role::Node);
                if known.borrow().is_closed {
                    peer.connection.close(0_u32.into(), b"closed");
                    continue;
                }
                connections.lock().unwrap().push(peer.connection.clone());
                known.send_modify(|known| known.connections += 1);
                tokio::spawn(serve(
                    peer.connection,
                    Arc::clone(&known),
                    Arc::clone(&bulk),
                ));
            }
        });
        server
    }

    /// Wants an allocation, new or changed.
    pub(crate) fn want(&self, mut alloc: Allocation, job: &Arc<Job>) {
        self.known.send_modify(|known| {
            known.index += 1;
            alloc.alloc_modify_index = known.index;
            known.wanted.insert(alloc.id, (alloc, Arc::clone(job)));
        });
    }

    /// Does not know an allocation any more.
    pub(crate) fn forget(&self, alloc: AllocId) {
        self.known.send_modify(|known| {
            known.index += 1;
            known.wanted.remove(&alloc);
        });
    }

    /// What is known now.
    pub(crate) fn known(&self) -> Known {
        self.known.borrow().clone()
    }

    /// Tokens that expire are valid for so many seconds from now on.
    pub(crate) fn sign_for(&self, ttl_s: u64) {
        self.known.send_modify(|known| known.token_ttl_s = ttl_s);
    }

    /// Another root key signs the identities of every allocation.
    pub(crate) fn change_root_key(&self, root_key: u32) {
        self.known.send_modify(|known| {
            known.root_key = root_key;
            for (alloc, _) in known.wanted.values_mut() {
                known.index += 1;
                alloc.alloc_modify_index = known.index;
            }
        });
    }

    /// Writes a variable.
    pub(crate) fn put(&self, path: &str, items: &[(&str, &str)]) {
        let items = items
            .iter()
            .map(|&(key, value)| (key.to_owned(), value.to_owned()));
        self.known.send_modify(|known| {
            known.index += 1;
            known.variables.insert(path.to_owned(), items.collect());
        });
    }

    /// Waits until what is known fits.
    pub(crate) async fn until(&self, what: &str, fits: impl FnMut(&Known) -> bool) -> Known {
        let mut known = self.known.subscribe();
        let waited = tokio::time::timeout(PATIENCE, known.wait_for(fits)).await;
        match waited {
            Ok(found) => found.unwrap().clone(),
            Err(_) => panic!(
                "never happened: {what}; known: {:#?}",
                self.known.borrow().reports
            ),
        }
    }

    /// Whether heartbeats are answered from now on.
    pub(crate) fn answer_heartbeats(&self, answer: bool) {
        self.known.send_modify(|known| known.mute = !answer);
    }

    /// How many of the node's connections stand.
    pub(crate) fn standing(&self) -> usize {
        let connections = self.connections.lock().unwrap();
        let standing = connections.iter().filter(|it| it.close_reason().is_none());
        standing.count()
    }

    /// Publishes these keys.
    pub(crate) fn publish(&self, keys: serde_json::Value) {
        self.known
            .send_modify(|known| known.keys = (known.keys.0 + 1, keys));
    }

    /// Whether requests of tasks are answered from now on.
    pub(crate) fn answer_tasks(&self, answer: bool) {
        self.known
            .send_modify(|known| known.is_mute_to_tasks = !answer);
    }

    /// Takes no connection any more, and closes those that stand.
    pub(crate) fn close(&self) {
        self.known.send_modify(|known| known.is_closed = true);
        self.cut();
    }

    /// The connections of the node break.
    pub(crate) fn cut(&self) {
        for connection in std::mem::take(&mut *self.connections.lock().unwrap()) {
            connection.close(0_u32.into(), b"cut");
        }
    }

    /// The newest protocol version of sessions that begin from now on.
    pub(crate) fn set_protocol_max(&self, protocol_max: u32) {
        self.known
            .send_modify(|known| known.protocol_max = protocol_max);
    }

    /// Asks for the node's connection for calls, if it attaches one on demand.
    pub(crate) fn ask_for_calls(&self) {
        self.known.send_modify(|known| known.calls_wanted += 1);
    }

    /// The connection for calls breaks.
    pub(crate) fn cut_calls(&self) {
        if let Some(connection) = self.bulk.lock().unwrap().take() {
            connection.close(0_u32.into(), b"no calls");
        }
    }

    /// The node is dead: calls wait for the connection of the next one.
    pub(crate) fn hang_up(&self) {
        self.bulk.lock().unwrap().take();
    }

    /// Calls the node, about an allocation or about itself; answers everything until `end`, or the
    /// error.
    pub(crate) async fn call(
        &self,
        alloc: impl Into<Option<AllocId>>,
        request: v1::node_request::Request,
    ) -> Result<Vec<v1::node_reply::Reply>, v1::NodeError> {
        let (mut writer, mut reader) = self.open(alloc, request).await;
        writer.finish().ok();
        let mut replies = Vec::new();
        while let Some(reply) = next(&mut reader).await {
            match reply {
                v1::node_reply::Reply::End(_) => return Ok(replies),
                v1::node_reply::Reply::Error(error) => return Err(error),
                v1::node_reply::Reply::Heartbeat(_) => {}
                reply => replies.push(reply),
            }
        }
        panic!("the call ended without an end: {replies:?}");
    }

    /// Opens a call and leaves it to the test.
    pub(crate) async fn open(
        &self,
        alloc: impl Into<Option<AllocId>>,
        request: v1::node_request::Request,
    ) -> (FrameWriter, FrameReader) {
        let connection = tokio::time::timeout(PATIENCE, async {
            loop {
                let connection = self.bulk.lock().unwrap().clone();
                match connection {
                    Some(connection) if connection.close_reason().is_none() => return connection,
                    _ => {
                        self.ask_for_calls();
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
            }
        });
        let connection = connection.await.expect("a connection for calls");
        let (mut send, recv) = connection.open_bi().await.unwrap();
        StreamKind::NodeCall.write(&mut send).await.unwrap();
        let mut writer = FrameWriter::new(send, CAP);
        let alloc: Option<AllocId> = alloc.into();
        let alloc_id = alloc.map(|alloc| alloc.as_bytes().to_vec());
        let message = v1::NodeRequest {
            alloc_id: alloc_id.unwrap_or_default().into(),
            request: Some(request),
        };
        write(&mut writer, &message).await;
        (writer, FrameReader::new(recv, CAP))
    }

    /// The output of a task, as a call reads it.
    pub(crate) async fn logs(&self, alloc: AllocId, task: &str, stderr: bool) -> String {
        let request = v1::LogsRequest {
            task: task.to_owned(),
            stderr,
            ..v1::LogsRequest::default()
        };
        let replies = self
            .call(alloc, v1::node_request::Request::Logs(request))
            .await
            .unwrap();
        text_of(&replies)
    }
}

pub(crate) async fn next(reader: &mut FrameReader) -> Option<v1::node_reply::Reply> {
    let frame = tokio::time::timeout(PATIENCE, reader.read())
        .await
        .expect("a reply")
        .ok()??;
    from_frame::<v1::NodeReply>(frame.kind, frame.body)
        .unwrap()
        .reply
}

pub(crate) fn text_of(replies: &[v1::node_reply::Reply]) -> String {
    let bytes: Vec<u8> = replies
        .iter()
        .flat_map(|reply| match reply {
            v1::node_reply::Reply::Chunk(chunk) => chunk.data.to_vec(),
            other => panic!("no chunk: {other:?}"),
        })
        .collect();
    String::from_utf8(bytes).unwrap()
}

pub(crate) async fn write<M: FrameMessage>(writer: &mut FrameWriter, message: &M) {
    let (kind, body) = to_frame(message);
    // A peer that left is seen by whoever waits for it.
    let _ = writer.write(kind, body).await;
}
