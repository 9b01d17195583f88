//! Archives that want out, or too much.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use noded_artifact::{FetchError, FetchLimits, FetchRequest, Links, Mode, Owner, Shape, inspect};

use crate::scene::{Entry, Scene, file, gzip, request, tar, zip};
use crate::server::{Reply, Server};

fn refused(scene: &Scene, name: &str, bytes: Vec<u8>) -> String {
    let error = scene.fetch_bytes(name, bytes).expect_err(name);
    assert!(!scene.path("staging/artifact").exists());
    assert!(
        fs::read_dir(scene.path("outside"))
            .expect("listed")
            .next()
            .is_none()
    );
    protocol_error_chain::chain(&error)
}

#[test]
fn entry_that_leads_upwards_is_named() {
    let scene = Scene::new();
    for name in ["../x", "a/../../x", "/../x", ".."] {
        let words = refused(&scene, "a.tar", tar(&[file("ok", ""), file_named(name)]));
        assert_eq!(words, format!("entry contains '..': {name}"));
    }
    let words = refused(&scene, "a.zip", zip(&[file("ok", ""), file("../x", "")]));
    assert_eq!(words, "entry contains '..': ../x");
}

fn file_named(name: &str) -> Entry {
    file(name.to_owned().leak(), "x")
}

#[test]
fn absolute_entry_lies_below_the_artifact() {
    let scene = Scene::new();
    scene
        .fetch_bytes("a.tar", tar(&[file("/etc/x", "text")]))
        .expect("fetched");
    assert_eq!(scene.staged("etc/x"), "text");
}

#[test]
fn entry_below_a_link_is_refused() {
    for target in ["../outside", "/tmp", "sub"] {
        let scene = Scene::new();
        let entries = [
            Entry::Directory("sub/", 0o755),
            Entry::Symlink("link", target.to_owned().leak()),
            file("link/x", "x"),
        ];
        let words = refused(&scene, "a.tar", tar(&entries));
        assert!(words.contains("is a symbolic link"), "{words}");
        let words = refused(&Scene::new(), "a.zip", zip(&entries));
        assert!(words.contains("is a symbolic link"), "{words}");
    }
}

#[test]
fn file_that_replaces_a_link_does_not_follow_it() {
    let scene = Scene::new();
    let target = scene.path("outside/x").display().to_string().leak();
    let entries = [Entry::Symlink("x", target), file("x", "text")];
    scene.fetch_bytes("a.tar", tar(&entries)).expect("fetched");
    assert!(!scene.path("outside/x").exists());
    assert_eq!(scene.staged("x"), "text");
}

#[test]
fn hard_link_out_of_the_archive_is_refused() {
    for target in [
        "../outside/x",
        "/etc/passwd",
        "nowhere",
        "link",
        "link/passwd",
    ] {
        let scene = Scene::new();
        let entries = [Entry::Symlink("link", "/etc"), Entry::HardLink("x", target)];
        let words = refused(&scene, "a.tar", tar(&entries));
        assert!(words.contains('x'), "{words}");
    }
}

#[test]
fn device_is_refused() {
    let scene = Scene::new();
    let words = refused(&scene, "a.tar", tar(&[Entry::Device("null")]));
    assert!(words.contains("\"null\" is a character device"), "{words}");
}

#[test]
fn set_id_bits_of_entries_are_dropped() {
    let entries = || {
        vec![
            Entry::Directory("d/", 0o2755),
            Entry::File("d/x", 0o6755, b"x".to_vec()),
        ]
    };
    for (name, bytes) in [("a.tar", tar(&entries())), ("a.zip", zip(&entries()))] {
        let scene = Scene::new();
        scene.fetch_bytes(name, bytes).expect(name);
        for below in ["d", "d/x"] {
            let path = scene.path("staging/artifact").join(below);
            let mode = fs::metadata(path).expect(below).permissions().mode();
            assert_eq!(mode & 0o7777, 0o755, "{name} {below}");
        }
    }
}

fn limited(name: &str, bytes: Vec<u8>, limits: FetchLimits) -> FetchError {
    let server = Server::new(move |_| Reply::of(bytes.clone()));
    let request = FetchRequest {
        limits,
        ..request(&server.url(&format!("/{name}")))
    };
    Scene::new().fetch(&request).expect_err("too much")
}

#[test]
fn archive_that_grows_above_the_limit_is_refused() {
    let zeros = || Entry::File("zeros", 0o644, vec![0; 4_000_000]);
    for (name, bytes) in [
        ("a.tar.gz", gzip(&tar(&[zeros(), zeros()]))),
        ("a.zip", zip(&[zeros()])),
        ("a.gz", gzip(&[0; 4_000_000])),
    ] {
        let limits = FetchLimits {
            unpacked_bytes_max: Some(1_000_000),
            ..FetchLimits::default()
        };
        let error = limited(name, bytes, limits);
        let words = error.to_string();
        assert!(words.contains("more than 1000000 bytes"), "{name}: {words}");
        assert!(
            words.contains("decompression_size_limit"),
            "{name}: {words}"
        );
        assert!(!error.is_recoverable(), "{name}");
    }
}

#[test]
fn archive_of_more_entries_than_the_limit_is_refused() {
    let many = || (0..6).map(|_| file("x", "")).collect::<Vec<_>>();
    let distinct = ["a", "b", "c", "d", "e", "f"].map(|name| file(name, ""));
    for (name, bytes) in [("a.tar", tar(&many())), ("a.zip", zip(&distinct))] {
        let limits = FetchLimits {
            unpacked_entries_max: Some(5),
            ..FetchLimits::default()
        };
        let words = limited(name, bytes, limits).to_string();
        assert!(words.contains("more than 5 entries"), "{name}: {words}");
    }
}

#[test]
fn long_name_is_not_read_into_memory() {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::GNULongName);
    header.set_size(64 * 1024 * 1024);
    header.set_cksum();
    let mut builder = tar::Builder::new(Vec::new());
    let zeros = std::io::Read::take(std::io::repeat(b'a'), 64 * 1024 * 1024);
    builder.append(&header, zeros).expect("appended");
    let bytes = gzip(&builder.into_inner().expect("an archive"));
    let words = refused(&Scene::new(), "a.tar.gz", bytes);
    assert!(words.contains("longer than 1 MiB"), "{words}");
}

#[test]
fn link_out_of_the_allocation_is_refused_before_the_merge() {
    for (target, escapes) in [
        ("../../../outside", true),
        ("/etc/passwd", true),
        ("sub/../../../../x", true),
        ("chain", true),
        ("up/../../x", true),
        ("loop", true),
        ("../../other", false),
        ("sub/x", false),
        ("../up", false),
    ] {
        let scene = Scene::new();
        let target = target.to_owned().leak();
        let entries = [
            Entry::Directory("sub/", 0o755),
            Entry::Symlink("link", target),
        ];
        // `chain` and `up` lie in the artifact only where the target names them.
        let mut entries: Vec<Entry> = entries.into();
        match &*target {
            "chain" => entries.push(Entry::Symlink("chain", "sub/../../../../etc")),
            "up/../../x" => entries.push(Entry::Symlink("up", "..")),
            "loop" => entries.push(Entry::Symlink("loop", "link")),
            _ => {}
        }
        let fetched = scene.fetch_bytes("a.tar", tar(&entries)).expect("staged");
        let inspected = scene.inspect(fetched.shape, "task/local");
        assert_eq!(inspected.is_err(), escapes, "{target}: {inspected:?}");
        if let Err(error) = inspected {
            let expected = "artifact includes symlink that resolves outside of sandbox: ";
            assert!(error.to_string().starts_with(expected), "{error}");
            assert!(!error.is_recoverable());
        }
    }
}

#[test]
fn staged_tree_of_a_hostile_child_is_inspected_anew() {
    let scene = Scene::new();
    let artifact = scene.path("staging/artifact");
    fs::create_dir(&artifact).expect("made");
    fs::write(artifact.join("x"), "x").expect("written");
    let set_id = fs::Permissions::from_mode(0o6755);
    fs::set_permissions(artifact.join("x"), set_id).expect("set");
    scene.inspect(Shape::Tree, "task/local").expect("taken");
    let mode = fs::metadata(artifact.join("x"))
        .expect("a file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o755);
    let shape = scene
        .inspect(Shape::File, "task/local")
        .expect_err("no file");
    assert!(
        shape.to_string().contains("not what was announced"),
        "{shape}"
    );
    let _socket = std::os::unix::net::UnixListener::bind(artifact.join("s")).expect("bound");
    let special = scene
        .inspect(Shape::Tree, "task/local")
        .expect_err("a socket");
    assert!(special.to_string().contains("includes s,"), "{special}");
}

#[test]
fn owner_gets_the_whole_artifact_and_no_target_of_a_link() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let scene = Scene::new();
    fs::write(scene.path("outside/x"), "x").expect("written");
    let target = scene.path("outside/x").display().to_string().leak();
    let entries = [file("sub/x", "x"), Entry::Symlink("link", target)];
    scene.fetch_bytes("a.tar", tar(&entries)).expect("staged");
    let owner = Owner {
        uid: rustix::fs::Uid::from_raw(12_345),
        gid: rustix::fs::Gid::from_raw(12_346),
    };
    let destination = std::path::Path::new("task/local");
    let (staging, tree) = (scene.staging(), Shape::Tree);
    inspect(&staging, tree, destination, Links::Taken, Some(owner)).expect("taken");
    let owner_of = |below: &str| {
        let about = fs::symlink_metadata(scene.path(below)).expect(below);
        (about.uid(), about.gid())
    };
    for below in ["", "/sub", "/sub/x", "/link"] {
        let path = format!("staging/artifact{below}");
        assert_eq!(owner_of(&path), (12_345, 12_346), "{path}");
    }
    assert_eq!(owner_of("outside/x").0, 0);
}

#[test]
fn mode_is_read_as_the_job_writes_it() {
    assert_eq!(Mode::parse(""), Some(Mode::Any));
    assert_eq!(Mode::parse("dir"), Some(Mode::Dir));
    assert_eq!(Mode::parse("tree"), None);
}
