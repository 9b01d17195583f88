//! Compiles the messages with a protobuf compiler written in Rust, so that a fresh machine needs no
//! `protoc`.

/// Messages that carry keys, tokens, secrets of nodes or values of variables.
const SECRET: [&str; 10] = [
    "KekReply",
    "KekStore",
    "IdentityToken",
    "TemplateVariable",
    "ApiHeader",
    "ApiBody",
    "LockRenewRequest",
    "ApiRequest",
    "AttachBulk",
    "Hello",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["session", "watch", "bulk", "cluster", "query", "log"]
        .map(|name| format!("proto/{name}.proto"));
    for file in &files {
        println!("cargo:rerun-if-changed={file}");
    }
    // The log's messages refer to those of the session, which live in another module. Compiled
    // first: the second run writes the session's module whole.
    let log = protox::compile([&files[5]], ["proto"])?;
    prost_build::Config::new()
        .bytes(["."])
        .btree_map(["."])
        .enable_type_names()
        .extern_path(".drover.wire.v1", "crate::v1")
        .compile_fds(log)?;
    let descriptors = protox::compile(&files[..5], ["proto"])?;
    prost_build::Config::new()
        // `secrets` has theirs.
        .skip_debug(SECRET.map(|name| format!(".drover.wire.v1.{name}")))
        .bytes(["."])
        .btree_map(["."])
        .enable_type_names()
        .compile_fds(descriptors)?;
    Ok(())
}
