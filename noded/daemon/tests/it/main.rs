//! Real QUIC, real processes: a node against a server that is scripted.

mod calls;
mod crashes;
mod disks;
mod environment;
mod fake_server;
mod following;
mod heartbeats;
mod hostile;
mod identities;
mod isolated;
mod jail;
mod jobs;
mod keeper;
mod limits;
mod metadata;
mod node;
mod placed;
mod scene;
mod sockets;
mod successors;
mod task_api;
mod upkeep;
mod users;
mod volumes;
