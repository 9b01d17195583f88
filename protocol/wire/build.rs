//! Compiles the messages with a protobuf compiler written in Rust, so that a fresh machine needs no
//! `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["session", "watch", "bulk", "cluster", "log"]
        .map(|name| format!("proto/{name}.proto"));
    for file in &files {
        println!("cargo:rerun-if-changed={file}");
    }
    let descriptors = protox::compile(&files, ["proto"])?;
    prost_build::Config::new()
        .bytes(["."])
        .btree_map(["."])
        .enable_type_names()
        .compile_fds(descriptors)?;
    Ok(())
}
