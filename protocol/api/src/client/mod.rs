//! Calls to nodes: files, output, running tasks, figures of a host.

mod stream;

use std::collections::BTreeMap;

use protocol_model::nullable::or_default;
use protocol_model::{FileInfo, NodeMetadata};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::endpoint::{Method, Parameter};
use crate::needs::{
    ALLOC_EXEC, ALLOC_LIFECYCLE, GC_ALLOCATION, JOB_ACTION, NODE_READ, NODE_WRITE, READ_ALLOC,
    READ_FS, READ_LOGS,
};
use crate::operation::operations;
use crate::written::Written;

pub use stream::{ExecData, ExecInput, ExecOutput, ExecResult, StreamFrame, TtySize};

const PATH: Parameter = Parameter::text("path", "below the allocation's directory");
const OFFSET: Parameter = Parameter::number("offset", "bytes from `origin`");
const ORIGIN: Parameter = Parameter::text("origin", "`start` or `end`");
const NODE_ID: Parameter = Parameter::text(
    "node_id",
    "the node; with `--dev --node` the server's own if absent",
);
const NODE_ID_APPLY: Parameter =
    Parameter::text("node_id", "as for a read; `NodeID` of the body comes first");
const GET_OR_PUT: &[Method] = &[Method::Put, Method::Get];
const LOGS: &[Parameter] = &[
    Parameter::text("task", "the task; required"),
    Parameter::text("type", "`stdout` or `stderr`"),
    OFFSET,
    ORIGIN,
    Parameter::flag("follow", "go on as more is written"),
    Parameter::flag("plain", "the bytes alone, without frames"),
];
const EXEC: &[Parameter] = &[
    Parameter::text("task", "the task; required"),
    Parameter::text("command", "a JSON list of the command and its arguments"),
    Parameter::flag("tty", "with a terminal"),
    Parameter::flag("ws_handshake", "the token comes as the first message"),
];
const ACTION: &[Parameter] = &[
    Parameter::text("task", "the task; required"),
    Parameter::text("action", "the action's name; required"),
    Parameter::text(
        "allocID",
        "the allocation of the job; its newest running one if absent",
    ),
    Parameter::text(
        "group",
        "the task's group; needed where two groups have such a task",
    ),
    Parameter::flag("tty", "with a terminal"),
    Parameter::flag("ws_handshake", "the token comes as the first message"),
];

operations! {
    /// read the output of a task
    ReadLogs { id } = get("/v1/client/fs/logs/{id}", READ_LOGS).of_node().parameters(LOGS);
    /// list a directory
    ListFiles { id } -> Vec<FileInfo> =
        get("/v1/client/fs/ls/{id}", READ_FS).of_node().parameters(&[PATH]);
    /// describe a file
    StatFile { id } -> FileInfo = get("/v1/client/fs/stat/{id}", READ_FS).of_node().parameters(&[PATH]);
    /// read a file
    ReadFile { id } = get("/v1/client/fs/cat/{id}", READ_FS).of_node().parameters(&[PATH]);
    /// read a part of a file
    ReadFileAt { id } = get("/v1/client/fs/readat/{id}", READ_FS).of_node().parameters(&[
        PATH, OFFSET, Parameter::number("limit", "bytes; negative: all of them"),
    ]);
    /// follow a file
    StreamFile { id } = get("/v1/client/fs/stream/{id}", READ_FS).of_node().parameters(&[
        PATH, OFFSET, ORIGIN, Parameter::flag("follow", "go on as more is written; the default"),
    ]);
    /// say what the running tasks of an allocation use
    AllocationStats { id } -> Value = get("/v1/client/allocation/{id}/stats", READ_ALLOC)
        .of_node()
        .parameters(&[Parameter::text("task", "only this task")]);
    /// restart running tasks
    RestartAllocation { id } (RestartRequest) -> Written =
        put("/v1/client/allocation/{id}/restart", ALLOC_LIFECYCLE).of_node().optional_body();
    /// send a signal to running tasks
    SignalAllocation { id } (SignalRequest) -> Written =
        put("/v1/client/allocation/{id}/signal", ALLOC_LIFECYCLE).of_node();
    /// run a command beside a running task, over a WebSocket
    ExecAllocation { id } = get("/v1/client/allocation/{id}/exec", ALLOC_EXEC)
        .of_node()
        .token_in_handshake()
        .parameters(EXEC);
    /// run an action of a task of a job, over a WebSocket
    RunAction { id } = get("/v1/job/{id...}/action", JOB_ACTION)
        .of_node()
        .token_in_handshake()
        .parameters(ACTION);
    /// remove from its node what is left of an allocation that has ended
    CollectAllocation { id } -> Written =
        put("/v1/client/allocation/{id}/gc", GC_ALLOCATION).of_node().methods(GET_OR_PUT);
    /// remove from a node what is left of all allocations that have ended
    CollectNode {} -> Written =
        put("/v1/client/gc", NODE_WRITE).of_node().methods(GET_OR_PUT).parameters(&[NODE_ID]);
    /// read the figures of a host, and `Updates`: reports that wait on the node or for an answer
    NodeStats {} -> Value = get("/v1/client/stats", NODE_READ).of_node().parameters(&[NODE_ID]);
    /// read the metadata of a node ([operations.md](operations.md#metadata-of-nodes))
    ReadNodeMetadata {} -> NodeMetadata =
        get("/v1/client/metadata", NODE_READ).of_node().parameters(&[NODE_ID]);
    /// change the dynamic metadata of a node
    ApplyNodeMetadata {} (NodeMetadataRequest) -> NodeMetadata =
        put("/v1/client/metadata", NODE_WRITE).of_node().parameters(&[NODE_ID_APPLY]);
}

/// The body of [`ApplyNodeMetadata`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeMetadataRequest {
    /// The node; empty = as the URL says.
    #[serde(rename = "NodeID", deserialize_with = "or_default")]
    pub node_id: String,
    /// Keys and their values; `null` unsets a key.
    #[serde(deserialize_with = "or_default")]
    pub meta: BTreeMap<String, Option<String>>,
}

/// The body of [`RestartAllocation`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RestartRequest {
    /// The task; empty = every running one.
    #[serde(deserialize_with = "or_default")]
    pub task_name: String,
    /// Whether tasks that have ended run again, too.
    #[serde(deserialize_with = "or_default")]
    pub all_tasks: bool,
}

/// The body of [`SignalAllocation`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct SignalRequest {
    /// The task; empty = every running one.
    #[serde(deserialize_with = "or_default")]
    pub task: String,
    /// The signal's name: `SIGHUP`.
    #[serde(deserialize_with = "or_default")]
    pub signal: String,
}
