//! The merge into a task's directory.

use std::fs;
use std::os::unix::fs::symlink;

use crate::scene::{Scene, file, tar};

fn staged() -> Scene {
    let scene = Scene::new();
    let entries = [file("a", "new"), file("sub/b", "new")];
    scene.fetch_bytes("a.tar", tar(&entries)).expect("staged");
    scene
}

fn text(scene: &Scene, below: &str) -> String {
    fs::read_to_string(scene.path(below)).expect(below)
}

#[test]
fn tree_is_merged_into_a_directory_that_is_there() {
    let scene = staged();
    fs::write(scene.path("alloc/task/local/a"), "old").expect("written");
    fs::create_dir(scene.path("alloc/task/local/sub")).expect("made");
    fs::write(scene.path("alloc/task/local/sub/c"), "kept").expect("written");
    scene.merge("task/local").expect("merged");
    assert_eq!(text(&scene, "alloc/task/local/a"), "new");
    assert_eq!(text(&scene, "alloc/task/local/sub/b"), "new");
    assert_eq!(text(&scene, "alloc/task/local/sub/c"), "kept");
}

#[test]
fn directories_of_a_destination_are_made() {
    let scene = staged();
    scene.merge("task/x/y/z").expect("merged");
    assert_eq!(text(&scene, "alloc/task/x/y/z/sub/b"), "new");
}

#[test]
fn file_becomes_its_destination() {
    let scene = Scene::new();
    fs::write(scene.path("staging/artifact"), "new").expect("written");
    fs::write(scene.path("alloc/task/local/x"), "old").expect("written");
    scene.merge("task/local/x").expect("merged");
    assert_eq!(text(&scene, "alloc/task/local/x"), "new");
}

#[test]
fn planted_link_is_never_followed() {
    // On the way to the destination, as the destination, and below it.
    for (link, destination) in [
        ("task/local/x", "task/local/x/y"),
        ("task/local/x", "task/local/x"),
        ("task/local/sub", "task/local"),
    ] {
        let scene = staged();
        symlink(scene.path("outside"), scene.path("alloc").join(link)).expect("planted");
        let error = scene.merge(destination).expect_err(destination);
        assert!(
            error.to_string().contains("is a link and in the way"),
            "{error}"
        );
        assert!(
            fs::read_dir(scene.path("outside"))
                .expect("listed")
                .next()
                .is_none()
        );
    }
}

#[test]
fn planted_link_in_place_of_a_file_is_replaced() {
    let scene = staged();
    fs::write(scene.path("outside/a"), "outside").expect("written");
    symlink(scene.path("outside/a"), scene.path("alloc/task/local/a")).expect("planted");
    scene.merge("task/local").expect("merged");
    assert_eq!(text(&scene, "outside/a"), "outside");
    assert_eq!(text(&scene, "alloc/task/local/a"), "new");
}

#[test]
fn destination_outside_the_allocation_is_refused() {
    for destination in ["../x", "task/../../x", "/x"] {
        let scene = staged();
        let error = scene.merge(destination).expect_err(destination);
        let words = error.to_string();
        assert!(
            words.starts_with("artifact destination path escapes alloc directory"),
            "{words}"
        );
        assert!(!error.is_recoverable());
    }
}

#[test]
fn something_of_another_kind_in_the_way_is_named() {
    let scene = staged();
    fs::create_dir(scene.path("alloc/task/local/a")).expect("made");
    let error = scene.merge("task/local").expect_err("a directory is there");
    let expected = "task/local/a is a directory and in the way of the artifact";
    assert_eq!(error.to_string(), expected);
    let scene = staged();
    fs::write(scene.path("alloc/task/local/sub"), "").expect("written");
    let error = scene.merge("task/local").expect_err("a file is there");
    assert!(error.to_string().contains("local/sub is a file"), "{error}");
}

#[test]
fn tree_is_copied_to_another_file_system() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("skipped: needs /dev/shm");
        return;
    };
    let scene = staged();
    symlink("sub/b", scene.path("staging/artifact/link")).expect("made");
    let base = fs::File::open(memory.path()).expect("opened");
    let base = std::os::fd::AsFd::as_fd(&base);
    let destination = std::path::Path::new("x");
    noded_artifact::merge(&scene.staging(), base, destination).expect("merged");
    let read = |below: &str| fs::read_to_string(memory.path().join(below)).expect(below);
    assert_eq!(
        (read("x/a"), read("x/link")),
        ("new".to_owned(), "new".to_owned())
    );
}
