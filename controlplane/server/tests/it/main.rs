//! The HTTP API's contract, tried over real sockets against a real server: by our own client, by
//! one that is not ours, and by bytes that no client would send.

mod acl;
mod conventions;
mod fake_node;
mod foreign_client;
mod golden;
mod jobs;
mod node_calls;
mod operator;
mod plan;
mod three;
mod world;
