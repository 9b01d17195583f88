//! Output from FIFOs to files, with both engines.

use crate::support::{Scene, key};
use noded_keeper::io::{
    LogLimits, OutputStream, StreamSpec, retire_streams, retire_streams_of, streams_are_gone,
};
use noded_keeper::protocol::AllocAndTask;
use noded_keeper::pump::EngineChoice;
use std::fs::{self, File, OpenOptions};
use std::io::Write;

/// Both engines, or the one that this host has, with a line that says so.
pub(crate) fn engines() -> Vec<&'static str> {
    if EngineChoice::Ring.is_possible() {
        vec!["io_uring", "epoll"]
    } else {
        eprintln!("skipped: needs io_uring of Linux 6.12");
        vec!["epoll"]
    }
}

pub(crate) fn owner(task: &str) -> AllocAndTask {
    AllocAndTask::new("0b7d6a80-1f0e-4c55-9d3c-5d1a52a0c001", task).unwrap()
}

pub(crate) fn limits(max_files: u32, max_file_size_bytes: u64) -> LogLimits {
    LogLimits {
        max_files,
        max_file_size_bytes,
    }
}

/// As keeper opens it for a task.
pub(crate) fn open(scene: &Scene, owner: &AllocAndTask, stream: OutputStream) -> File {
    let path = scene.paths.io_directory().join(stream.fifo_name(owner));
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap()
}

/// Writes as a task would; keeper holds the FIFO until the run is acknowledged, and so must the
/// caller until pump is done.
fn write(scene: &Scene, owner: &AllocAndTask, stream: OutputStream, bytes: &[u8]) -> File {
    let mut fifo = open(scene, owner, stream);
    fifo.write_all(bytes).unwrap();
    fifo
}

/// Numbered lines of various lengths.
pub(crate) fn numbered_lines(count: usize) -> Vec<u8> {
    let mut lines = Vec::new();
    for number in 0..count {
        writeln!(lines, "{number:08} {}", "x".repeat(number * 37 % 300)).unwrap();
    }
    lines
}

#[test]
fn output_of_many_tasks_reaches_rotated_files_whole_and_in_order() {
    for engine in engines() {
        let scene = Scene::new();
        let _pump = scene.pump(engine);
        let input = numbered_lines(4000);
        std::thread::scope(|scope| {
            for number in 0..20 {
                let (scene, input) = (&scene, &input);
                scope.spawn(move || {
                    let owner = owner(&format!("task{number}"));
                    scene.streams(&owner, limits(1000, 50_000));
                    let _held =
                        OutputStream::BOTH.map(|stream| write(scene, &owner, stream, input));
                    retire_streams(&scene.paths, &owner).unwrap();
                    scene.wait_drained(&owner);
                });
            }
        });
        for number in 0..20 {
            for stream in OutputStream::BOTH {
                let prefix = stream.file_prefix(&owner(&format!("task{number}")));
                let files = scene.log_files(&prefix);
                assert!(files.len() > 10, "{engine}: {} files", files.len());
                for (index, (number, bytes)) in files.iter().enumerate() {
                    assert_eq!(*number, index as u64);
                    assert!(
                        bytes.is_empty() || bytes.ends_with(b"\n"),
                        "{engine}: a torn line"
                    );
                    assert!(bytes.len() <= 50_400, "{engine}: {} bytes", bytes.len());
                }
                assert!(scene.log(&prefix) == input, "{engine}: {prefix} differs");
            }
        }
        let left = fs::read_dir(scene.paths.io_directory()).unwrap().count();
        assert_eq!(left, 0, "{engine}: the io directory is empty again");
    }
}

#[test]
fn only_the_newest_files_are_kept() {
    for engine in engines() {
        let scene = Scene::new();
        let _pump = scene.pump(engine);
        let owner = owner("chatty");
        scene.streams(&owner, limits(3, 10_000));
        let input = numbered_lines(1000);
        let _held = write(&scene, &owner, OutputStream::Stdout, &input);
        retire_streams(&scene.paths, &owner).unwrap();
        scene.wait_drained(&owner);
        let files = scene.log_files("chatty.stdout");
        assert_eq!(files.len(), 3, "{engine}");
        let kept = scene.log("chatty.stdout");
        assert!(
            input.ends_with(&kept),
            "{engine}: the newest output is what is kept"
        );
        assert!(kept.len() > 15_000, "{engine}: {} bytes", kept.len());
    }
}

#[test]
fn other_limits_take_effect_without_a_restart() {
    let scene = Scene::new();
    let _pump = scene.pump("auto");
    let owner = owner("web");
    scene.streams(&owner, limits(10, 1_000_000));
    let mut fifo = open(&scene, &owner, OutputStream::Stdout);
    fifo.write_all(&numbered_lines(100)).unwrap();
    crate::support::wait_until("the first part is written", || {
        scene.log("web.stdout") == numbered_lines(100)
    });
    scene.streams(&owner, limits(2, 1_000));
    crate::support::wait_until("the files are small", || {
        fifo.write_all(&numbered_lines(100)).unwrap();
        let files = scene.log_files("web.stdout");
        files.len() == 2 && files.iter().all(|(_, bytes)| bytes.len() <= 1_400)
    });
}

#[test]
fn a_stream_that_was_retired_while_no_pump_was_there_is_drained_by_the_next() {
    for engine in engines() {
        let scene = Scene::new();
        let owner = owner("web");
        scene.streams(&owner, limits(10, 1_000_000));
        let input = numbered_lines(100);
        let mut fifo = open(&scene, &owner, OutputStream::Stdout);
        fifo.write_all(&input).unwrap();
        retire_streams(&scene.paths, &owner).unwrap();
        let _pump = scene.pump(engine);
        scene.wait_drained(&owner);
        assert!(scene.log("web.stdout") == input, "{engine}");
    }
}

#[test]
fn pump_removes_no_fifo_while_streams_are_being_made() {
    let scene = Scene::new();
    let _pump = scene.pump("auto");
    let owner = owner("web");
    scene.streams(&owner, limits(10, 1_000_000));
    let _held = write(&scene, &owner, OutputStream::Stdout, b"words\n");
    // As noded holds it while it makes a stream.
    let lock = File::open(scene.paths.io_directory()).unwrap();
    lock.lock_shared().unwrap();
    retire_streams(&scene.paths, &owner).unwrap();
    let _held = write(&scene, &owner, OutputStream::Stdout, b"last words\n");
    crate::support::wait_until("the rest is read", || {
        scene.log("web.stdout") == b"words\nlast words\n"
    });
    // The next start of the task, which finds the FIFO of the one before.
    scene.streams(&owner, limits(10, 1_000_000));
    drop(lock);
    let _held = write(&scene, &owner, OutputStream::Stdout, b"again\n");
    crate::support::wait_until("the FIFO of the next start is read", || {
        scene.log("web.stdout").ends_with(b"again\n")
    });
    retire_streams(&scene.paths, &owner).unwrap();
    scene.wait_drained(&owner);
}

#[test]
fn a_stream_that_is_wanted_again_goes_on_in_the_same_file() {
    for engine in engines() {
        let scene = Scene::new();
        let _pump = scene.pump(engine);
        let owner = owner("web");
        for round in ["one\n", "two\n", "three\n"] {
            scene.streams(&owner, limits(10, 1_000_000));
            let _held = write(&scene, &owner, OutputStream::Stderr, round.as_bytes());
            retire_streams(&scene.paths, &owner).unwrap();
            scene.wait_drained(&owner);
        }
        let files = scene.log_files("web.stderr");
        assert_eq!(files, [(0, b"one\ntwo\nthree\n".to_vec())], "{engine}");
    }
}

#[test]
fn a_specification_that_is_deleted_outright_counts_as_retired() {
    let scene = Scene::new();
    let _pump = scene.pump("epoll");
    let owner = owner("web");
    scene.streams(&owner, limits(10, 1_000_000));
    let mut fifo = write(&scene, &owner, OutputStream::Stdout, b"first words\n");
    crate::support::wait_until("pump knows the stream", || {
        !scene.log("web.stdout").is_empty()
    });
    fifo.write_all(b"last words\n").unwrap();
    for stream in OutputStream::BOTH {
        let name = format!("{}.spec", stream.fifo_name(&owner));
        fs::remove_file(scene.paths.io_directory().join(name)).unwrap();
    }
    crate::support::wait_until("the FIFOs are removed", || {
        fs::read_dir(scene.paths.io_directory()).unwrap().count() == 0
    });
    assert_eq!(scene.log("web.stdout"), b"first words\nlast words\n");
}

#[test]
fn a_link_that_a_task_left_in_its_log_directory_is_not_followed() {
    for engine in engines() {
        let scene = Scene::new();
        let victim = scene.directory.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, scene.logs().join("web.stdout.0")).unwrap();
        fs::hard_link(&victim, scene.logs().join("web.stdout.1")).unwrap();
        let _pump = scene.pump(engine);
        let owner = owner("web");
        scene.streams(&owner, limits(10, 1_000_000));
        let _held = write(&scene, &owner, OutputStream::Stdout, b"poison\n");
        retire_streams(&scene.paths, &owner).unwrap();
        scene.wait_drained(&owner);
        assert_eq!(fs::read(&victim).unwrap(), b"precious", "{engine}");
        assert_eq!(
            fs::read(scene.logs().join("web.stdout.2")).unwrap(),
            b"poison\n",
            "{engine}"
        );
    }
}

#[test]
fn a_log_directory_that_appears_later_gets_the_output_then() {
    let scene = Scene::new();
    let _pump = scene.pump("auto");
    let owner = owner("web");
    let spec_base = scene.directory.path();
    noded_keeper::io::create_streams(
        &scene.paths,
        &key(owner.alloc(), owner.task(), 1),
        spec_base,
        std::path::Path::new("later/logs"),
        limits(10, 1_000_000),
    )
    .unwrap();
    let _held = write(&scene, &owner, OutputStream::Stdout, b"patience\n");
    let logs = spec_base.join("later/logs");
    fs::create_dir_all(&logs).unwrap();
    crate::support::wait_until("the output arrives", || {
        fs::read(logs.join("web.stdout.0")).is_ok_and(|bytes| bytes == b"patience\n")
    });
}

#[test]
fn a_log_directory_behind_a_link_is_refused() {
    let scene = Scene::new();
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), scene.directory.path().join("link")).unwrap();
    let _pump = scene.pump("epoll");
    let (bad, good) = (owner("bad"), owner("good"));
    let base = scene.directory.path();
    let through_link = std::path::Path::new("link");
    let run = key(bad.alloc(), bad.task(), 1);
    noded_keeper::io::create_streams(&scene.paths, &run, base, through_link, limits(1, 100))
        .unwrap();
    let _held = write(&scene, &bad, OutputStream::Stdout, b"escape\n");
    scene.streams(&good, limits(10, 100));
    let _held = write(&scene, &good, OutputStream::Stdout, b"fine\n");
    retire_streams(&scene.paths, &good).unwrap();
    scene.wait_drained(&good);
    assert_eq!(scene.log("good.stdout"), b"fine\n");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn a_run_that_is_let_go_late_does_not_take_the_streams_of_the_next_one_along() {
    let scene = Scene::new();
    let _pump = scene.pump("auto");
    let owner = owner("web");
    let run = |epoch| key(owner.alloc(), owner.task(), epoch);
    scene.streams_of(&run(1), limits(10, 1_000_000));
    let _held = write(&scene, &owner, OutputStream::Stdout, b"first\n");
    scene.streams_of(&run(2), limits(10, 1_000_000));
    retire_streams_of(&scene.paths, &run(1)).unwrap();
    let retired = scene
        .paths
        .io_directory()
        .join(OutputStream::Stdout.fifo_name(&owner) + ".retired");
    assert!(!retired.exists() && !streams_are_gone(&scene.paths, &owner).unwrap());
    let _held = write(&scene, &owner, OutputStream::Stdout, b"second\n");
    retire_streams_of(&scene.paths, &run(2)).unwrap();
    scene.wait_drained(&owner);
    assert_eq!(scene.log("web.stdout"), b"first\nsecond\n");
}

#[test]
fn a_second_pump_does_not_start() {
    let scene = Scene::new();
    let _first = scene.pump("epoll");
    let owner = owner("web");
    scene.streams(&owner, limits(1, 100));
    let _held = write(&scene, &owner, OutputStream::Stdout, b"x\n");
    crate::support::wait_until("the first pump works", || {
        !scene.log("web.stdout").is_empty()
    });
    assert!(!scene.pump("epoll").wait().success());
}

#[test]
fn a_damaged_specification_does_not_disturb_the_others() {
    let scene = Scene::new();
    fs::write(
        scene.paths.io_directory().join("a.bad.stdout.spec"),
        "rubbish",
    )
    .unwrap();
    let _pump = scene.pump("auto");
    let owner = owner("web");
    scene.streams(&owner, limits(1, 100));
    let _held = write(&scene, &owner, OutputStream::Stdout, b"fine\n");
    retire_streams(&scene.paths, &owner).unwrap();
    scene.wait_drained(&owner);
    assert_eq!(scene.log("web.stdout"), b"fine\n");
    StreamSpec::decode(b"rubbish").unwrap_err();
}
