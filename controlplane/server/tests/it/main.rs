//! The HTTP API's contract, tried over real sockets against a real server: by our own client, by
//! one that is not ours, and by bytes that no client would send.

mod acl;
mod belongings;
mod conventions;
mod cut_links;
mod ends;
mod fake_answers;
mod fake_node;
mod followers;
mod foreign_client;
mod full_disk;
mod golden;
mod https;
mod job_text;
mod jobs;
mod large;
mod lists;
mod majority;
mod moves;
mod node_calls;
mod node_streams;
mod operator;
mod plan;
mod regions;
mod relays;
mod releases;
mod restore;
mod restored_cluster;
mod roaming;
mod routes;
mod rubbish;
mod sessions;
mod signals;
mod three;
mod validate;
mod world;
