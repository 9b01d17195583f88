//! A node that speaks the protocol and runs nothing: what it is called for is answered from a list.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use controlplane_server::{Server, dev};
use protocol_model::{AllocId, ClientStatus, Node, NodeId, TaskEvent, TaskRunState, TaskState};
use protocol_transport::{
    Endpoint, EndpointConfig, FrameReader, FrameWriter, Identity, Region, Role, StreamKind,
};
use protocol_wire::kind::{FrameMessage, from_datagram, from_frame, to_datagram, to_frame};
use protocol_wire::report::AllocReport;
use protocol_wire::{PROTOCOL_MAX, PROTOCOL_MIN, v1};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::fake_answers::answer;
use crate::world::{PATIENCE, World};

/// A node in a session.
pub(crate) struct FakeNode {
    pub(crate) id: NodeId,
    endpoint: Endpoint,
    epoch: u64,
    session: quinn::Connection,
    streams: (FrameWriter, FrameReader),
    /// The protocol version that the server chose.
    protocol: u32,
    /// The connection for calls.
    calls: Option<quinn::Connection>,
}

/// What a node held of its session at a server that it left.
pub(crate) struct Left {
    _session: quinn::Connection,
    _streams: (FrameWriter, FrameReader),
}

/// What a node was told and did before it knocks.
#[derive(Default)]
pub(crate) struct Past {
    pub(crate) epoch: u64,
    pub(crate) watermark: Option<v1::Watermark>,
    pub(crate) reports: Vec<AllocReport>,
}

pub(crate) const SECRET: [u8; 32] = [7; 32];

impl FakeNode {
    /// Joins, reports that it runs nothing, and answers calls with [`answer`].
    pub(crate) async fn join(world: &World) -> Self {
        Self::join_server(&world.server, &world.data_dir()).await
    }

    /// As [`Self::join`], with the certificates below `root`.
    pub(crate) async fn join_server(server: &Server, root: &Path) -> Self {
        Self::join_as(server, root, 1).await
    }

    /// As [`Self::join_server`], as the node of that number.
    pub(crate) async fn join_as(server: &Server, root: &Path, number: u8) -> Self {
        Self::knock(server, root, number, Past::default()).await
    }

    /// As [`Self::join_as`], as a node that has been somewhere before.
    pub(crate) async fn knock(server: &Server, root: &Path, number: u8, past: Past) -> Self {
        let address = server.quic_address().expect("an address");
        Self::enter(address, root, hack_testkit::nodes::node(number), past).await
    }

    /// As [`Self::join_server`], with the server at `address` for the node.
    pub(crate) async fn join_at(address: SocketAddr, root: &Path) -> Self {
        let facts = hack_testkit::nodes::node(1);
        Self::enter(address, root, facts, Past::default()).await
    }

    /// As [`Self::join_server`], as the node of these facts.
    pub(crate) async fn join_with(server: &Server, root: &Path, facts: Node) -> Self {
        let address = server.quic_address().expect("an address");
        Self::enter(address, root, facts, Past::default()).await
    }

    /// As [`Self::join_server`], with this protocol version and without a connection for calls.
    pub(crate) async fn join_detached(server: &Server, root: &Path, protocol_max: u32) -> Self {
        let address = server.quic_address().expect("an address");
        let facts = hack_testkit::nodes::node(1);
        Self::begin(address, root, facts, (Past::default(), protocol_max)).await
    }

    /// As [`Self::knock`], with this protocol version and without a connection for calls.
    pub(crate) async fn knock_detached(
        server: &Server,
        root: &Path,
        past: Past,
        protocol_max: u32,
    ) -> Self {
        let address = server.quic_address().expect("an address");
        let facts = hack_testkit::nodes::node(1);
        Self::begin(address, root, facts, (past, protocol_max)).await
    }

    async fn enter(address: SocketAddr, root: &Path, facts: Node, past: Past) -> Self {
        let mut node = Self::begin(address, root, facts, (past, PROTOCOL_MAX)).await;
        node.attach().await;
        node
    }

    async fn begin(
        address: SocketAddr,
        root: &Path,
        facts: Node,
        (past, protocol_max): (Past, u32),
    ) -> Self {
        let made = dev::certificates(root, &Region::global()).expect("certificates");
        let identity =
            Identity::load(&made.ca, &made.node.certificate, &made.node.key).expect("an identity");
        let endpoint = Endpoint::bind(&EndpointConfig::loopback(identity)).expect("an endpoint");
        let id = facts.id;
        let json = serde_json::to_vec(&facts).expect("facts are JSON");
        let hello = v1::Hello {
            node_id: id.as_bytes().to_vec().into(),
            secret: SECRET.to_vec().into(),
            nonce: vec![1; 16].into(),
            boot_id: vec![2; 16].into(),
            protocol_min: PROTOCOL_MIN,
            protocol_max,
            join_token: "dev".to_owned(),
            facts: Some(v1::NodeFacts { json: json.into() }),
            last_epoch: past.epoch,
            watermark: past.watermark.clone(),
            ..v1::Hello::default()
        };
        let welcomed = timeout(PATIENCE, welcomed(&endpoint, address, &hello));
        let (session, (mut writer, mut reader), welcome) = welcomed.await.expect("is welcome");
        let epoch = welcome.epoch;
        write(
            &mut writer,
            &v1::SyncPart {
                epoch,
                last: true,
                watch_index: past.watermark.map_or(0, |watermark| watermark.index),
                allocs: past.reports.iter().map(Into::into).collect(),
                ..v1::SyncPart::default()
            },
        )
        .await;
        let _: v1::SyncAck = read(&mut reader).await;

        Self {
            id,
            endpoint,
            epoch,
            session,
            streams: (writer, reader),
            protocol: welcome.protocol,
            calls: None,
        }
    }

    /// Attaches a connection for calls, and answers them with [`answer`].
    pub(crate) async fn attach(&mut self) {
        let calls = self.connect_again().await;
        let (mut attach, mut attached) = open(&calls, StreamKind::Bulk).await;
        let message = v1::AttachBulk {
            node_id: self.id.as_bytes().to_vec().into(),
            secret: SECRET.to_vec().into(),
            epoch: self.epoch,
        };
        write(&mut attach, &message).await;
        let _: v1::Attached = read(&mut attached).await;
        tokio::spawn(serve(calls.clone()));
        self.calls = Some(calls);
    }

    /// Closes its connection for calls.
    pub(crate) fn detach(&mut self) {
        let calls = self.calls.take().expect("it is attached");
        calls.close(0u8.into(), b"detached");
    }

    /// The protocol version of its session.
    pub(crate) fn protocol(&self) -> u32 {
        self.protocol
    }
}

/// Says Hello, again where nobody leads yet, as a node does.
async fn welcomed(
    endpoint: &Endpoint,
    address: SocketAddr,
    hello: &v1::Hello,
) -> (quinn::Connection, (FrameWriter, FrameReader), v1::Welcome) {
    loop {
        let session = endpoint.connect(address).await.expect("connects");
        let (mut writer, mut reader) = open(&session, StreamKind::NodeSession).await;
        write(&mut writer, hello).await;
        let frame = reader.expect().await.expect("an answer");
        if frame.kind == v1::Welcome::KIND {
            let welcome = from_frame(frame.kind, frame.body).expect("a Welcome");
            return (session, (writer, reader), welcome);
        }
        let refused: v1::Refused = from_frame(frame.kind, frame.body).expect("a refusal");
        let reason = refused.reason();
        assert_eq!(reason, v1::RefusedReason::NoLeader, "{}", refused.message);
        sleep(Duration::from_millis(50)).await;
    }
}

impl FakeNode {
    /// Where its connections come from.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Another connection with the same certificate.
    pub(crate) async fn connect_again(&self) -> quinn::Connection {
        let address = self.session.remote_address();
        self.endpoint.connect(address).await.expect("connects")
    }

    /// Goes on with its session over another connection, to the same server, and keeps this one.
    pub(crate) async fn resume_beside(&self) -> quinn::Connection {
        let again = self.connect_again().await;
        let (mut writer, mut reader) = open(&again, StreamKind::NodeSession).await;
        write(&mut writer, &self.hello()).await;
        let welcome: v1::Welcome = read(&mut reader).await;
        assert!(welcome.resumed);
        again
    }

    /// Loses its connection and goes on with its session over another one, to the same server.
    pub(crate) async fn resume(&mut self) -> v1::Welcome {
        self.session.close(0u8.into(), b"cut");
        let address = self.session.remote_address();
        self.move_to(address).await.1
    }

    /// Goes on with its session at the server at `address`. The one that has it until then hears
    /// nothing of that while what it had is held.
    pub(crate) async fn move_to(&mut self, address: SocketAddr) -> (Left, v1::Welcome) {
        let again = self.endpoint.connect(address).await.expect("connects");
        let (mut writer, mut reader) = open(&again, StreamKind::NodeSession).await;
        write(&mut writer, &self.hello()).await;
        let welcome: v1::Welcome = read(&mut reader).await;
        let left = Left {
            _session: std::mem::replace(&mut self.session, again),
            _streams: std::mem::replace(&mut self.streams, (writer, reader)),
        };
        (left, welcome)
    }

    /// Forgets its session, as a daemon that was started again, and begins another one with this
    /// complete report, over another connection to the same server.
    pub(crate) async fn begin_anew(&mut self, reports: &[AllocReport]) {
        let again = self.connect_again().await;
        let (mut writer, mut reader) = open(&again, StreamKind::NodeSession).await;
        let hello = v1::Hello {
            daemon_restarted: true,
            nonce: vec![4; 16].into(),
            ..self.hello()
        };
        write(&mut writer, &hello).await;
        let welcome: v1::Welcome = read(&mut reader).await;
        assert!(!welcome.resumed);
        let part = v1::SyncPart {
            epoch: welcome.epoch,
            last: true,
            allocs: reports.iter().map(Into::into).collect(),
            ..v1::SyncPart::default()
        };
        write(&mut writer, &part).await;
        let _: v1::SyncAck = read(&mut reader).await;
        self.epoch = welcome.epoch;
        self.session = again;
        self.streams = (writer, reader);
    }

    /// Shows that it is alive where its session is now, until that connection ends.
    pub(crate) fn beats(&self) -> JoinHandle<()> {
        let (session, epoch) = (self.session.clone(), self.epoch);
        tokio::spawn(async move {
            for tick in 1.. {
                let heartbeat = v1::Heartbeat {
                    epoch,
                    tick,
                    ..v1::Heartbeat::default()
                };
                if session.send_datagram(to_datagram(&heartbeat)).is_err() {
                    return;
                }
                sleep(Duration::from_millis(100)).await;
            }
        })
    }

    /// Shows once that it is alive; the answer.
    pub(crate) async fn heartbeat(&mut self, tick: u64) -> v1::HeartbeatAck {
        let heartbeat = v1::Heartbeat {
            epoch: self.epoch,
            tick,
            ..v1::Heartbeat::default()
        };
        let sent = self.session.send_datagram(to_datagram(&heartbeat));
        sent.expect("is sent");
        let answer = timeout(PATIENCE, self.session.read_datagram()).await;
        from_datagram(answer.expect("in time").expect("an answer")).expect("an answer")
    }

    /// What it says to go on with its session.
    pub(crate) fn hello(&self) -> v1::Hello {
        v1::Hello {
            node_id: self.id.as_bytes().to_vec().into(),
            secret: SECRET.to_vec().into(),
            nonce: vec![3; 16].into(),
            boot_id: vec![2; 16].into(),
            protocol_min: PROTOCOL_MIN,
            protocol_max: PROTOCOL_MAX,
            last_epoch: self.epoch,
            ..v1::Hello::default()
        }
    }

    /// What an update or watch stream of this node's session begins with.
    pub(crate) fn stream_hello(&self) -> v1::StreamHello {
        v1::StreamHello {
            node_id: self.id.as_bytes().to_vec().into(),
            epoch: self.epoch,
            class: v1::UpdateClass::Urgent.into(),
            names_known: false,
        }
    }

    /// The session's number.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Why the server ends the session; nothing else may come before.
    pub(crate) async fn refused(&mut self) -> v1::Refused {
        read(&mut self.streams.1).await
    }

    /// Says something in the session.
    pub(crate) async fn say<M: FrameMessage>(&mut self, message: &M) {
        write(&mut self.streams.0, message).await;
    }

    /// The next thing that it is told in the session.
    pub(crate) async fn hear<M: FrameMessage>(&mut self) -> M {
        read(&mut self.streams.1).await
    }

    /// The connection of the session.
    pub(crate) fn session(&self) -> &quinn::Connection {
        &self.session
    }

    /// Reports that an allocation's task runs, with one event.
    pub(crate) async fn report_running(&self, alloc: AllocId, task: &str, event: TaskEvent) {
        self.report(v1::UpdateClass::Urgent, 1, &running(alloc, task, event))
            .await;
    }

    /// Says one report in a batch of its own, on a stream of its own. What became of it.
    pub(crate) async fn report(
        &self,
        class: v1::UpdateClass,
        seq: u64,
        report: &AllocReport,
    ) -> v1::ItemResult {
        let (mut writer, mut reader) = open(&self.session, StreamKind::NodeUpdates).await;
        write(&mut writer, &self.stream_hello()).await;
        let batch = v1::StatusBatch {
            epoch: self.epoch,
            class: class.into(),
            seq,
            allocs: vec![report.into()],
        };
        write(&mut writer, &batch).await;
        let ack: v1::BatchAck = read(&mut reader).await;
        assert_eq!((ack.class(), ack.seq), (class, seq));
        let mut results = ack.results();
        results.next().expect("one of one")
    }
}

/// An allocation's task runs, and this happened to it.
pub(crate) fn running(alloc: AllocId, task: &str, event: TaskEvent) -> AllocReport {
    let mut report = AllocReport::new(alloc, 1, ClientStatus::Running);
    let mut state = TaskState {
        state: TaskRunState::Running,
        ..TaskState::default()
    };
    state.push_event(event);
    report.task_states.insert(task.to_owned(), state);
    report
}

async fn serve(calls: quinn::Connection) {
    while let Ok((send, mut recv)) = calls.accept_bi().await {
        tokio::spawn(async move {
            let kind = StreamKind::read(&mut recv, Role::Server)
                .await
                .expect("a call");
            assert_eq!(kind, StreamKind::NodeCall);
            let mut reader = FrameReader::new(recv, 1 << 20);
            let mut writer = FrameWriter::new(send, 1 << 20);
            let request: v1::NodeRequest = read(&mut reader).await;
            answer(request, &mut writer, reader).await;
            // A caller that went away first is no failure of the node.
            let _ = writer.finish();
        });
    }
}

pub(crate) async fn open(
    connection: &quinn::Connection,
    kind: StreamKind,
) -> (FrameWriter, FrameReader) {
    let (mut send, recv) = connection.open_bi().await.expect("a stream");
    kind.write(&mut send).await.expect("its kind");
    (
        FrameWriter::new(send, 1 << 20),
        FrameReader::new(recv, 1 << 20),
    )
}

pub(crate) async fn write<M: FrameMessage>(writer: &mut FrameWriter, message: &M) {
    let (kind, body) = to_frame(message);
    writer.write(kind, body).await.expect("is written");
}

pub(crate) async fn read<M: FrameMessage>(reader: &mut FrameReader) -> M {
    let frame = reader.expect().await.expect("a frame");
    from_frame(frame.kind, frame.body).expect("the message that fits")
}
