//! One of every message that travels in a frame of its own, every field set, and one per request of
//! a node.

use std::collections::BTreeMap;

use bytes::Bytes;
use protocol_wire::kind::{FrameMessage, from_frame, to_frame};
use protocol_wire::v1;
use protocol_wire::v1::query_reply::Reply;
use protocol_wire::v1::query_request::Query;
use protocol_wire::v1::template_query::Source;

pub(crate) struct Sample {
    /// The kind of its frame.
    pub(crate) kind: u8,
    /// Which of a message's shapes; empty = it is frozen in one.
    pub(crate) variant: &'static str,
    pub(crate) bytes: Bytes,
    pub(crate) is_read_from: Box<dyn Fn(Bytes) -> bool>,
}

fn sample<M: FrameMessage + PartialEq + 'static>(message: M) -> Sample {
    let (kind, bytes) = to_frame(&message);
    let is_read_from = move |bytes| from_frame::<M>(kind, bytes).is_ok_and(|read| read == message);
    Sample {
        kind,
        variant: "",
        bytes,
        is_read_from: Box::new(is_read_from),
    }
}

fn request(variant: &'static str, alloc_id: Bytes, request: v1::node_request::Request) -> Sample {
    let message = v1::NodeRequest {
        alloc_id,
        request: Some(request),
    };
    Sample {
        variant,
        ..sample(message)
    }
}

fn id(number: u8) -> Bytes {
    Bytes::from(vec![number; 16])
}

fn watermark() -> v1::Watermark {
    v1::Watermark {
        incarnation: id(0xc1),
        index: 300,
    }
}

fn servers() -> Vec<v1::ServerAddress> {
    vec![v1::ServerAddress {
        id: 2,
        address: "10.0.0.2:4647".to_owned(),
    }]
}

fn facts() -> v1::NodeFacts {
    v1::NodeFacts {
        json: Bytes::from_static(b"{\"ID\":\"x\"}"),
    }
}

fn task() -> v1::TaskReport {
    let event = v1::TaskEvent {
        kind: "Terminated".to_owned(),
        time_ns: 50,
        message: "Exit Code: 1".to_owned(),
        details: BTreeMap::from([("exit_code".to_owned(), "1".to_owned())]),
        exit_code: 1,
        signal: 9,
        fails_task: true,
    };
    v1::TaskReport {
        name: "main".to_owned(),
        state: v1::TaskRunState::Dead.into(),
        failed: true,
        restarts: 2,
        last_restart_ns: 40,
        started_at_ns: 30,
        finished_at_ns: 50,
        events: vec![event],
    }
}

fn report() -> v1::AllocReport {
    v1::AllocReport {
        alloc_id: id(0xa1),
        revision: 3,
        client_status: v1::ClientStatus::Failed.into(),
        client_description: "Failed tasks".to_owned(),
        tasks: vec![task()],
        health: v1::Health::Unhealthy.into(),
        health_at_ns: 51,
        desired_version: 12,
        // As in the bytes of those that do not know it.
        health_deployment_id: None,
        network: None,
    }
}

fn networked_report() -> v1::AllocReport {
    v1::AllocReport {
        network: Some(v1::NetworkStatus {
            interface: "eth0".into(),
            address: "172.26.64.2".into(),
            address_ipv6: "fd00::2".into(),
        }),
        ..report()
    }
}

fn judged_report(health_deployment_id: Bytes) -> v1::AllocReport {
    v1::AllocReport {
        health_deployment_id: Some(health_deployment_id),
        ..report()
    }
}

fn session_samples() -> Vec<Sample> {
    vec![
        sample(v1::Hello {
            node_id: id(1),
            secret: Bytes::from(vec![2; 32]),
            nonce: id(3),
            last_epoch: 4,
            watermark: Some(watermark()),
            protocol_min: 1,
            protocol_max: 1,
            daemon_restarted: true,
            join_token: "token".to_owned(),
            facts: Some(facts()),
            boot_id: id(5),
        }),
        sample(welcome(false)),
        Sample {
            variant: "newcomer",
            ..sample(welcome(true))
        },
        Sample {
            variant: "calm",
            ..sample(v1::Welcome {
                calm_interval_ms: 500,
                ..welcome(false)
            })
        },
        sample(v1::Refused {
            reason: v1::RefusedReason::Behind.into(),
            message: "behind".to_owned(),
            retry_interval_ms: 500,
            servers: servers(),
        }),
        sample(v1::WatchAck {
            epoch: 8,
            index: 300,
        }),
        sample(v1::AttachBulk {
            node_id: id(1),
            secret: Bytes::from(vec![2; 32]),
            epoch: 8,
        }),
        sample(v1::CallsWanted {}),
        sample(v1::Attached {}),
        sample(v1::StreamHello {
            node_id: id(1),
            epoch: 8,
            class: v1::UpdateClass::Typical.into(),
            names_known: false,
        }),
        Sample {
            variant: "names_known",
            ..sample(v1::StreamHello {
                node_id: id(1),
                epoch: 8,
                class: v1::UpdateClass::Urgent.into(),
                names_known: true,
            })
        },
    ]
}

fn welcome(newcomer: bool) -> v1::Welcome {
    v1::Welcome {
        epoch: 8,
        resumed: true,
        protocol: 1,
        applied_urgent_seq: 2,
        applied_typical_seq: 3,
        heartbeat_interval_ms: 125,
        typical_interval_ms: 1000,
        urgent_delay_ms: 10,
        retry_interval_ms: 500,
        applied: Some(watermark()),
        servers: servers(),
        newcomer,
        calm_interval_ms: 0,
    }
}

/// A heartbeat, and its answers.
fn heartbeat_samples() -> Vec<Sample> {
    vec![
        sample(v1::Heartbeat {
            epoch: 8,
            tick: 9,
            sent_boottime_ns: 10,
        }),
        sample(heartbeat_ack(false)),
        Sample {
            variant: "cut_off",
            ..sample(heartbeat_ack(true))
        },
        Sample {
            variant: "pace",
            ..sample(v1::HeartbeatAck {
                pace_ms: 2000,
                ..heartbeat_ack(false)
            })
        },
    ]
}

fn heartbeat_ack(cut_off: bool) -> v1::HeartbeatAck {
    v1::HeartbeatAck {
        tick: 9,
        applied_index: 300,
        confirmed_sent_boottime_ns: 10,
        typical_interval_ms: 1000,
        cut_off,
        pace_ms: 0,
    }
}

/// A batch of those that say for whom they found out its health.
fn judged_batch() -> Sample {
    Sample {
        variant: "JudgedFor",
        ..sample(v1::StatusBatch {
            epoch: 8,
            class: v1::UpdateClass::Urgent.into(),
            seq: 5,
            allocs: vec![judged_report(id(0xd1)), judged_report(Bytes::new())],
        })
    }
}

/// A batch of one that says its allocation's network.
fn networked_batch() -> Sample {
    Sample {
        variant: "Network",
        ..sample(v1::StatusBatch {
            epoch: 8,
            class: v1::UpdateClass::Urgent.into(),
            seq: 5,
            allocs: vec![networked_report()],
        })
    }
}

fn watch_known() -> v1::WatchKnown {
    v1::WatchKnown {
        allocs: vec![v1::AllocVersion {
            alloc_id: id(0xa1),
            version: 12,
        }],
    }
}

fn last_part() -> Sample {
    let part = v1::SyncPart {
        epoch: 8,
        last: true,
        allocs: vec![report()],
        allocs_total: 1,
        ..v1::SyncPart::default()
    };
    Sample {
        variant: "total",
        ..sample(part)
    }
}

fn report_samples() -> Vec<Sample> {
    vec![
        sample(v1::SyncPart {
            epoch: 8,
            part: 1,
            last: true,
            watch_index: 300,
            allocs: vec![report()],
            facts: Some(facts()),
            allocs_total: 0,
        }),
        last_part(),
        sample(v1::SyncAck {
            epoch: 8,
            index: 301,
        }),
        sample(v1::StatusBatch {
            epoch: 8,
            class: v1::UpdateClass::Typical.into(),
            seq: 4,
            allocs: vec![report()],
        }),
        judged_batch(),
        sample(v1::DetailReport {
            epoch: 8,
            allocs: vec![report()],
        }),
        sample(v1::BatchAck {
            class: v1::UpdateClass::Typical.into(),
            seq: 4,
            index: 302,
            results: vec![
                v1::ItemResult::Superseded.into(),
                v1::ItemResult::NotInSession.into(),
                v1::ItemResult::UnknownAlloc.into(),
            ],
        }),
        sample(v1::FactsUpdate {
            epoch: 8,
            facts: Some(facts()),
        }),
        sample(v1::FactsAck {
            epoch: 8,
            index: 303,
        }),
        sample(v1::WatchMap {
            at: Some(watermark()),
            part: 1,
            last: true,
            allocs: vec![v1::AllocVersion {
                alloc_id: id(0xa1),
                version: 12,
            }],
        }),
        sample(watch_known()),
    ]
}

fn delta_samples() -> Vec<Sample> {
    vec![
        sample(v1::WatchDelta {
            previous_index: 300,
            index: 302,
            specs: vec![v1::JobSpec {
                hash: Bytes::from(vec![6; 32]),
                json_zstd: Bytes::from_static(b"compressed"),
            }],
            changed: vec![v1::DesiredAlloc {
                alloc_id: id(0xa1),
                version: 12,
                spec_hash: Bytes::from(vec![6; 32]),
                json: Bytes::from_static(b"{}"),
                root_key: 0,
            }],
            removed: vec![id(0xa2)],
        }),
        Sample {
            variant: "root_key",
            ..sample(v1::WatchDelta {
                changed: vec![v1::DesiredAlloc {
                    alloc_id: id(0xa1),
                    version: 12,
                    spec_hash: Bytes::from(vec![6; 32]),
                    json: Bytes::from_static(b"{}"),
                    root_key: 3,
                }],
                ..v1::WatchDelta::default()
            })
        },
    ]
}

fn bulk_samples() -> Vec<Sample> {
    let logs = v1::LogsRequest {
        task: "main".to_owned(),
        stderr: true,
        follow: true,
        offset: 7,
        origin: v1::Origin::End.into(),
    };
    let chunk = v1::FileChunk {
        file: "stdout.0".to_owned(),
        offset: 7,
        data: Bytes::from_static(b"data"),
        event: "file truncated".to_owned(),
    };
    let size = v1::TtySize {
        height: 24,
        width: 80,
    };
    vec![
        sample(v1::NodeRequest {
            alloc_id: id(0xa1),
            request: Some(v1::node_request::Request::Logs(logs)),
        }),
        sample(v1::NodeReply {
            reply: Some(v1::node_reply::Reply::Chunk(chunk)),
        }),
        sample(v1::ExecInput {
            input: Some(v1::exec_input::Input::TtySize(size)),
        }),
    ]
}

/// Each request of a node: a new one is a shape of a message that is frozen already.
fn request_samples() -> Vec<Sample> {
    use v1::node_request::Request;
    let task = || "main".to_owned();
    let path = || "alloc/data".to_owned();
    let read = v1::FsReadRequest {
        path: path(),
        offset: 7,
        limit: 8,
        follow: true,
        origin: v1::Origin::End.into(),
    };
    let restart = v1::RestartRequest {
        task: task(),
        all_tasks: true,
    };
    let signal = v1::SignalRequest {
        task: task(),
        signal: "SIGHUP".to_owned(),
    };
    let exec = v1::ExecRequest {
        task: task(),
        command: vec!["sh".to_owned(), "-i".to_owned()],
        tty: true,
    };
    let list = v1::FsListRequest { path: path() };
    let stat = v1::FsStatRequest { path: path() };
    let stats = v1::StatsRequest { task: task() };
    let of_alloc = |variant, of: Request| request(variant, id(0xa1), of);
    let of_node = |variant, of: Request| request(variant, Bytes::new(), of);
    vec![
        of_alloc("FsList", Request::FsList(list)),
        of_alloc("FsStat", Request::FsStat(stat)),
        of_alloc("FsRead", Request::FsRead(read)),
        of_alloc("Stats", Request::Stats(stats)),
        of_alloc("Restart", Request::Restart(restart)),
        of_alloc("Signal", Request::Signal(signal)),
        of_alloc("Exec", Request::Exec(exec)),
        of_node("HostStats", Request::HostStats(v1::HostStatsRequest {})),
        of_node(
            "CollectGarbage",
            Request::CollectGarbage(v1::CollectGarbageRequest {}),
        ),
        of_node("Foreign", Request::Foreign(v1::ForeignRequest {})),
        of_node(
            "ReleaseForeign",
            Request::ReleaseForeign(v1::ReleaseForeignRequest {}),
        ),
        of_node("ReadMeta", Request::ReadMeta(v1::ReadMetaRequest {})),
        of_node("ApplyMeta", Request::ApplyMeta(meta_changes())),
    ]
}

/// A key that is set, one that is set to nothing, one that is unset.
fn meta_changes() -> v1::ApplyMetaRequest {
    let change = |key: &str, value: Option<&str>| v1::MetaChange {
        key: key.to_owned(),
        value: value.map(str::to_owned),
    };
    v1::ApplyMetaRequest {
        changes: vec![
            change("rack", Some("r1")),
            change("empty", Some("")),
            change("gone", None),
        ],
    }
}

/// A caller that needs a right on a host volume.
fn mounter() -> v1::Asker {
    asker_of(vec![v1::requirement::Right::HostVolume(
        v1::HostVolumeRight {
            volume: "data".to_owned(),
            any: vec![1, 2],
        },
    )])
}

/// A caller with every kind of requirement of the first release that sends them.
fn asker() -> v1::Asker {
    use v1::requirement::Right;
    asker_of(vec![
        Right::Management(v1::Unit {}),
        Right::Namespace(v1::NamespaceRight {
            namespace: "default".to_owned(),
            any: vec![v1::CapabilitySet {
                capabilities: vec![1, 2],
            }],
        }),
        Right::NodePool(v1::NodePoolRight {
            node_pool: "gpu".to_owned(),
            capability: 2,
        }),
        Right::Node(1),
        Right::Agent(2),
        Right::Operator(1),
        Right::OperatorLevel(2),
    ])
}

fn asker_of(rights: Vec<v1::requirement::Right>) -> v1::Asker {
    let rights = rights.into_iter();
    let requirements = rights.map(|right| v1::Requirement { right: Some(right) });
    let caller = v1::Caller {
        kind: v1::caller::Kind::Token.into(),
        accessor_id: "11111111-2222-3333-4444-555555555555".to_owned(),
        address: "10.0.0.9".to_owned(),
        requirements: requirements.collect(),
        workload: None,
    };
    v1::Asker {
        origin: Some(v1::asker::Origin::Caller(caller)),
    }
}

/// A task with a signed token.
fn workload() -> v1::Asker {
    let caller = v1::Caller {
        kind: v1::caller::Kind::Workload.into(),
        workload: Some(v1::WorkloadCaller {
            alloc_id: id(0xa1),
            task: "api".to_owned(),
            root_key: id(0xb2),
            expires_at: 1_700_000_060,
        }),
        ..v1::Caller::default()
    };
    v1::Asker {
        origin: Some(v1::asker::Origin::Caller(caller)),
    }
}

fn server_samples() -> Vec<Sample> {
    let error = v1::ProposeError {
        kind: v1::propose_error::Kind::NotLeader.into(),
        message: "not the leader".to_owned(),
        retry_after_s: 0,
    };
    let body = Bytes::from_static(b"body");
    let detail = v1::AllocDetail {
        alloc_id: id(0xa1),
        tasks: vec![task()],
    };
    vec![
        sample(v1::ProposeRequest {
            command: body.clone(),
            asker: None,
        }),
        Sample {
            variant: "asker",
            ..sample(v1::ProposeRequest {
                command: body.clone(),
                asker: Some(asker()),
            })
        },
        Sample {
            variant: "host_volume",
            ..sample(v1::ProposeRequest {
                command: body.clone(),
                asker: Some(mounter()),
            })
        },
        Sample {
            variant: "workload",
            ..sample(v1::ProposeRequest {
                command: body.clone(),
                asker: Some(workload()),
            })
        },
        sample(v1::ProposeReply {
            index: 9,
            response: body.clone(),
            error: Some(error),
        }),
        sample(v1::RelayRequest { node_id: id(1) }),
        sample(v1::Relayed::default()),
        Sample {
            variant: "too_many_calls",
            ..sample(v1::Relayed {
                too_many_calls: true,
                not_attached: false,
            })
        },
        Sample {
            variant: "not_attached",
            ..sample(v1::Relayed {
                too_many_calls: false,
                not_attached: true,
            })
        },
        sample(v1::DetailRequest {
            alloc_ids: vec![id(0xa1)],
        }),
        sample(v1::DetailReply {
            details: vec![detail],
        }),
    ]
}

fn liveness_samples() -> Vec<Sample> {
    let heard = v1::HeardNode {
        node_id: id(1),
        epoch: 8,
        age_ms: 5,
        sent_boottime_ns: 10,
    };
    vec![
        sample(v1::LivenessReport {
            server_id: 2,
            report: 3,
            heard: vec![heard],
            late: false,
            crowded: false,
        }),
        Sample {
            variant: "late",
            ..sample(v1::LivenessReport {
                server_id: 2,
                report: 3,
                heard: Vec::new(),
                late: true,
                crowded: false,
            })
        },
        Sample {
            variant: "crowded",
            ..sample(v1::LivenessReport {
                server_id: 2,
                report: 3,
                heard: Vec::new(),
                late: true,
                crowded: true,
            })
        },
        sample(v1::LivenessConfirmed {
            report: 3,
            not_watched: Vec::new(),
            led_for_ms: None,
        }),
        Sample {
            variant: "not_watched",
            ..sample(v1::LivenessConfirmed {
                report: 3,
                not_watched: vec![id(1)],
                led_for_ms: None,
            })
        },
        Sample {
            variant: "led_for",
            ..sample(v1::LivenessConfirmed {
                report: 3,
                not_watched: Vec::new(),
                led_for_ms: Some(60_000),
            })
        },
    ]
}

fn member_samples() -> Vec<Sample> {
    vec![
        sample(v1::MembershipRequest {
            change: Some(v1::membership_request::Change::Remove(7)),
        }),
        sample(v1::MembershipReply {
            kind: v1::membership_reply::Kind::UnknownServer.into(),
            message: "server 7 is not a member".to_owned(),
        }),
        sample(v1::AboutRequest {}),
        sample(v1::AboutReply {
            build: "0.1.0".to_owned(),
            command_level: 1,
            ..v1::AboutReply::default()
        }),
        Sample {
            variant: "datacenter",
            ..sample(v1::AboutReply {
                build: "0.1.0".to_owned(),
                command_level: 1,
                datacenter: "dc1".to_owned(),
                ..v1::AboutReply::default()
            })
        },
        Sample {
            variant: "acl",
            ..sample(v1::AboutReply {
                build: "0.1.0".to_owned(),
                command_level: 3,
                datacenter: "dc1".to_owned(),
                acl_enabled: Some(false),
                time_ns: Some(1_764_000_000_000_000_000),
                ..v1::AboutReply::default()
            })
        },
        Sample {
            variant: "issuer",
            ..sample(v1::AboutReply {
                command_level: 4,
                oidc_issuer: Some("https://id.example".to_owned()),
                ..v1::AboutReply::default()
            })
        },
    ]
}

fn kek_samples() -> Vec<Sample> {
    let kek = || Bytes::from(vec![7; 32]);
    vec![
        sample(v1::KekRequest {
            server_id: 1,
            kek_id: vec![9; 8].into(),
            proof: Bytes::new(),
        }),
        Sample {
            variant: "proof",
            ..sample(v1::KekRequest {
                server_id: 1,
                kek_id: vec![9; 8].into(),
                proof: vec![5; 16].into(),
            })
        },
        sample(v1::KekProofRequest {
            server_id: 2,
            proof: vec![5; 16].into(),
        }),
        sample(v1::KekProofReply { sent: true }),
        sample(v1::KekReply {
            keks: vec![kek(), kek()],
            refused: "server 7 is not a member".to_owned(),
        }),
        sample(v1::KekStore {
            server_id: 1,
            term: 3,
            kek: kek(),
            proof: Bytes::new(),
        }),
        sample(v1::LockRenewRequest {
            namespace: "default".to_owned(),
            path: "app/leader".to_owned(),
            lock_id: id(0x1c),
        }),
        sample(v1::LockRenewReply {
            kind: v1::lock_renew_reply::Kind::AnotherLock.into(),
        }),
        Sample {
            variant: "proof",
            ..sample(v1::KekStore {
                server_id: 1,
                term: 3,
                kek: kek(),
                proof: vec![5; 16].into(),
            })
        },
    ]
}

fn query_samples() -> Vec<Sample> {
    let source = || v1::VariableSource {
        namespace: "default".to_owned(),
        path: "nomad/jobs/web".to_owned(),
    };
    let asked = |source| v1::TemplateQuery {
        alloc_id: vec![1; 16].into(),
        task: "server".to_owned(),
        known_index: 7,
        source: Some(source),
    };
    let template = |source| Query::Template(asked(source));
    let watch = Query::TemplateWatch(v1::TemplateWatch {
        queries: vec![asked(Source::Variable(source()))],
    });
    let identities = Query::SignIdentities(v1::SignIdentities {
        identities: vec![v1::IdentityName {
            alloc_id: vec![1; 16].into(),
            task: "server".to_owned(),
            identity: "default".to_owned(),
        }],
    });
    let keys = Query::Keys(v1::KeysQuery { known_index: 7 });
    [
        ("", identities),
        ("keys", keys),
        ("variable", template(Source::Variable(source()))),
        ("variables", template(Source::Variables(source()))),
        ("watch", watch),
    ]
    .map(|(variant, query)| Sample {
        variant,
        ..sample(v1::QueryRequest {
            min_index: 9,
            query: Some(query),
        })
    })
    .into()
}

fn reply_samples() -> Vec<Sample> {
    let token = v1::signed_identity::Result::Token(v1::IdentityToken {
        jwt: "a.b.c".to_owned(),
        issued_at: 5,
        expires_at: 65,
        root_key: 2,
    });
    let rejection = v1::signed_identity::Result::Rejection(3);
    let signed = Reply::Signed(v1::SignedIdentities {
        identities: [token, rejection]
            .map(|result| v1::SignedIdentity {
                result: Some(result),
            })
            .into(),
    });
    let error = Reply::Error(v1::QueryError {
        status: 503,
        message: "the keyring is not available on this server".to_owned(),
    });
    let keys = Reply::Keys(v1::PublicKeys {
        index: 9,
        jwks: b"{}".as_slice().into(),
        issuer: "https://drover.example".to_owned(),
    });
    let template = Reply::Template(v1::TemplateReply {
        index: 9,
        variables: vec![v1::TemplateVariable {
            namespace: "default".to_owned(),
            path: "nomad/jobs/web".to_owned(),
            json: b"{}".as_slice().into(),
        }],
    });
    [
        ("", signed),
        ("error", error),
        ("keys", keys),
        ("template", template),
        (
            "moved",
            Reply::Moved(v1::TemplateMoved {
                positions: vec![0, 3],
            }),
        ),
    ]
    .map(|(variant, reply)| Sample {
        variant,
        ..sample(v1::QueryReply { reply: Some(reply) })
    })
    .into()
}

fn task_api_samples() -> Vec<Sample> {
    let headers = || {
        vec![v1::ApiHeader {
            name: "authorization".to_owned(),
            value: b"Bearer x".as_slice().into(),
        }]
    };
    vec![
        sample(v1::ApiRequest {
            alloc_id: vec![1; 16].into(),
            task: "server".to_owned(),
            peer_uid: 65_534,
            method: "PUT".to_owned(),
            target: "/v1/var/a?cas=0".to_owned(),
            headers: headers(),
            body: b"{".as_slice().into(),
            more: true,
        }),
        sample(v1::ApiResponse {
            status: 403,
            headers: headers(),
            rejected: true,
        }),
        sample(v1::ApiBody {
            data: b"}".as_slice().into(),
            last: true,
        }),
    ]
}

/// One of every message, every field set.
pub(crate) fn samples() -> impl Iterator<Item = Sample> {
    [
        session_samples(),
        heartbeat_samples(),
        report_samples(),
        vec![networked_batch()],
        delta_samples(),
        bulk_samples(),
        request_samples(),
        server_samples(),
        liveness_samples(),
        member_samples(),
        kek_samples(),
        query_samples(),
        reply_samples(),
        task_api_samples(),
    ]
    .into_iter()
    .flatten()
}
