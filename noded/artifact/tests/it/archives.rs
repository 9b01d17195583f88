//! Archives that people make.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use noded_artifact::{Mode, Shape};

use crate::scene::{Entry, Scene, bzip2, file, gzip, request, tar, with, xz, zip, zstd};
use crate::server::{Reply, Server};

fn entries() -> Vec<Entry> {
    vec![
        Entry::Directory("./", 0o755),
        Entry::Directory("bin/", 0o555),
        Entry::File("bin/tool", 0o755, b"tool".to_vec()),
        file("deep/er/text", "text"),
        Entry::Symlink("link", "bin/tool"),
        Entry::HardLink("again", "bin/tool"),
    ]
}

#[test]
fn tar_is_unpacked_in_each_compression() {
    let plain = tar(&entries());
    for (name, bytes) in [
        ("a.tar", plain.clone()),
        ("a.tar.gz", gzip(&plain)),
        ("a.tgz", gzip(&plain)),
        ("a.tar.bz2", bzip2(&plain)),
        ("a.tbz2", bzip2(&plain)),
        ("a.tar.xz", xz(&plain)),
        ("a.txz", xz(&plain)),
        ("a.tar.zst", zstd(&plain)),
        ("a.tzst", zstd(&plain)),
    ] {
        let scene = Scene::new();
        let fetched = scene.fetch_bytes(name, bytes);
        assert_eq!(fetched.expect(name).shape, Shape::Tree, "{name}");
        assert_eq!(scene.staged("deep/er/text"), "text", "{name}");
        assert_eq!(scene.staged("link"), "tool", "{name}");
        assert_eq!(scene.staged("again"), "tool", "{name}");
        let about = fs::metadata(scene.path("staging/artifact/bin/tool")).expect(name);
        assert_eq!(about.permissions().mode() & 0o7777, 0o755, "{name}");
        let modified = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        assert_eq!(about.modified().expect("a time"), modified, "{name}");
        assert!(!scene.path("staging/download").exists(), "{name}");
    }
}

#[test]
fn zip_is_unpacked_with_modes_and_links() {
    let scene = Scene::new();
    let entries = [
        Entry::Directory("bin/", 0o755),
        Entry::File("bin/tool", 0o750, b"tool".to_vec()),
        file("deep/er/text", "text"),
        Entry::Symlink("link", "bin/tool"),
    ];
    scene.fetch_bytes("a.zip", zip(&entries)).expect("fetched");
    assert_eq!(scene.staged("link"), "tool");
    assert_eq!(scene.staged("deep/er/text"), "text");
    let about = fs::metadata(scene.path("staging/artifact/bin/tool")).expect("a file");
    assert_eq!(about.permissions().mode() & 0o7777, 0o750);
}

#[test]
fn single_compressed_file_loses_its_end() {
    for (name, bytes) in [
        ("a.txt.gz", gzip(b"text")),
        ("a.txt.bz2", bzip2(b"text")),
        ("a.txt.xz", xz(b"text")),
        ("a.txt.zst", zstd(b"text")),
    ] {
        let scene = Scene::new();
        scene.fetch_bytes(name, bytes.clone()).expect(name);
        assert_eq!(scene.staged("a.txt"), "text", "{name}");
        let scene = Scene::new();
        let server = Server::new(move |_| Reply::of(bytes.clone()));
        let mut request = request(&server.url(&format!("/{name}")));
        request.mode = Mode::File;
        assert_eq!(scene.fetch(&request).expect(name).shape, Shape::File);
        assert_eq!(scene.staged(""), "text", "{name}");
    }
}

#[test]
fn archive_of_one_file_becomes_the_file() {
    let fetch = |entries: &[Entry]| {
        let bytes = tar(entries);
        let server = Server::new(move |_| Reply::of(bytes.clone()));
        let mut request = request(&server.url("/a.tar"));
        request.mode = Mode::File;
        let scene = Scene::new();
        let fetched = scene.fetch(&request);
        (scene, fetched)
    };
    let (scene, fetched) = fetch(&[file("x", "text")]);
    assert_eq!(fetched.expect("one file").shape, Shape::File);
    assert_eq!(scene.staged(""), "text");
    for entries in [&[file("x", ""), file("y", "")][..], &[], &entries()] {
        let (_, fetched) = fetch(entries);
        let words = fetched.expect_err("not one file").to_string();
        assert!(words.contains("exactly one file"), "{words}");
    }
}

#[test]
fn archive_option_decides_over_the_name() {
    let packed = gzip(&tar(&entries()));
    let server = Server::new(move |_| Reply::of(packed.clone()));
    let scene = Scene::new();
    let request = with(&server.url("/release"), &[("archive", "tar.gz")]);
    scene.fetch(&request).expect("fetched");
    assert_eq!(scene.staged("deep/er/text"), "text");
    let scene = Scene::new();
    let request = with(&server.url("/a.tar.gz"), &[("archive", "false")]);
    scene.fetch(&request).expect("fetched");
    assert!(scene.path("staging/artifact/a.tar.gz").is_file());
}

#[test]
fn subdirectory_of_an_archive_is_the_artifact() {
    let packed = tar(&entries());
    let server = Server::new(move |_| Reply::of(packed.clone()));
    let scene = Scene::new();
    scene
        .fetch(&request(&server.url("/a.tar//deep/er")))
        .expect("fetched");
    assert_eq!(scene.staged("text"), "text");
    for sub in ["nowhere", "bin/tool", "link"] {
        let url = server.url(&format!("/a.tar//{sub}"));
        let error = Scene::new().fetch(&request(&url)).expect_err(sub);
        assert!(error.to_string().contains(sub), "{error}");
    }
}

#[test]
fn damaged_archive_is_refused_and_may_be_tried_again() {
    let plain = tar(&entries());
    let mut packed = gzip(&plain);
    packed.truncate(packed.len() - 6);
    let mut flipped = plain.clone();
    flipped[0] ^= 1;
    for (name, bytes) in [
        ("a.tar.gz", packed),
        ("a.tar", flipped),
        ("a.tar.xz", plain.clone()),
        ("a.zip", plain),
    ] {
        let error = Scene::new().fetch_bytes(name, bytes).expect_err(name);
        assert!(error.is_recoverable(), "{name}: {error}");
    }
}
