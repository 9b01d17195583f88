//! pump is killed, and disks are full.

use crate::pump::{engines, limits, numbered_lines, open, owner};
use crate::support::{Scene, key, log_files, wait_until};
use noded_keeper::io::{OutputStream, create_streams, retire_streams};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

/// One read buffer, as the engines promise.
const LOSS_BYTES_MAX: usize = 64 * 1024;

/// The bytes of `input` that `output` lacks, if `output` is `input` with at most one piece cut out.
fn missing(input: &[u8], output: &[u8]) -> Option<usize> {
    let alike = input.iter().zip(output).take_while(|(a, b)| a == b).count();
    let rest = &output[alike..];
    input[alike..]
        .ends_with(rest)
        .then(|| input.len() - output.len())
}

/// Writes as a task does that is never read fast enough; answers what keeper would hold. On a
/// thread that nobody waits for: a test that fails must not wait for its pipe to be read.
fn write_meanwhile(mut fifo: File, input: &[u8]) -> (File, JoinHandle<()>) {
    let held = fifo.try_clone().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || fifo.write_all(&input).unwrap());
    (held, writer)
}

#[test]
fn after_kill_9_of_pump_at_most_one_read_buffer_is_missing_and_the_rest_goes_on() {
    for engine in engines() {
        for round in 0..5 {
            let scene = Scene::new();
            let pump = scene.pump(engine);
            let owner = owner("web");
            scene.streams(&owner, limits(1000, 200_000));
            let input = numbered_lines(20_000);
            let (held, writer) =
                write_meanwhile(open(&scene, &owner, OutputStream::Stdout), &input);
            wait_until("some output is written", || {
                scene.log("web.stdout").len() > 100_000 * (round + 1)
            });
            pump.kill();
            let _next = scene.pump(engine);
            writer.join().unwrap();
            retire_streams(&scene.paths, &owner).unwrap();
            scene.wait_drained(&owner);
            drop(held);
            let output = scene.log("web.stdout");
            let missing = missing(&input, &output);
            let missing = missing.unwrap_or_else(|| panic!("{engine}: more than one gap"));
            assert!(
                missing <= LOSS_BYTES_MAX,
                "{engine}: {missing} bytes are missing"
            );
        }
    }
}

#[test]
fn a_pump_that_is_asked_to_end_loses_nothing() {
    for engine in engines() {
        let scene = Scene::new();
        let owner = owner("web");
        scene.streams(&owner, limits(1000, 200_000));
        let input = numbered_lines(20_000);
        let (_held, writer) = write_meanwhile(open(&scene, &owner, OutputStream::Stdout), &input);
        for round in 1..4 {
            let pump = scene.pump(engine);
            wait_until("some more output is written", || {
                scene.log("web.stdout").len() > 300_000 * round
            });
            pump.terminate();
        }
        let _last = scene.pump(engine);
        writer.join().unwrap();
        retire_streams(&scene.paths, &owner).unwrap();
        scene.wait_drained(&owner);
        assert!(scene.log("web.stdout") == input, "{engine}");
    }
}

/// A small file system that is unmounted with its test.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn new(path: PathBuf, options: &str) -> Option<Self> {
        use nix::mount::{MsFlags, mount};
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root");
            return None;
        }
        mount(
            Some("none"),
            &path,
            Some("tmpfs"),
            MsFlags::empty(),
            Some(options),
        )
        .unwrap();
        Some(Self(path))
    }

    fn enlarge(&self, options: &str) {
        use nix::mount::{MsFlags, mount};
        mount(
            None::<&str>,
            &self.0,
            None::<&str>,
            MsFlags::MS_REMOUNT,
            Some(options),
        )
        .unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(&self.0, nix::mount::MntFlags::MNT_DETACH);
    }
}

/// Cuts the notes out; answers what is left and how many bytes the notes count.
fn without_notes(output: &[u8]) -> (Vec<u8>, usize) {
    let (mut rest, mut dropped) = (Vec::new(), 0);
    for line in output.split_inclusive(|byte| *byte == b'\n') {
        let text = String::from_utf8_lossy(line);
        match text
            .strip_prefix("[drover: ")
            .and_then(|note| note.split_once(' '))
        {
            Some((count, words)) => {
                assert_eq!(words, "bytes of output dropped: No space left on device]\n");
                dropped += count.parse::<usize>().unwrap();
            }
            None => rest.extend_from_slice(line),
        }
    }
    (rest, dropped)
}

#[test]
fn a_full_disk_holds_no_task_up_and_the_log_counts_what_it_lacks() {
    for engine in engines() {
        let scene = Scene::new();
        let Some(disk) = SmallDisk::new(scene.logs(), "size=128k") else {
            return;
        };
        let _pump = scene.pump(engine);
        let owner = owner("web");
        scene.streams(&owner, limits(1000, 50_000));
        let input = numbered_lines(10_000);
        let mut fifo = open(&scene, &owner, OutputStream::Stdout);
        // Returns only because pump goes on reading.
        fifo.write_all(&input).unwrap();
        disk.enlarge("size=64m");
        wait_until("the log counts the dropped bytes by itself", || {
            without_notes(&scene.log("web.stdout")).1 > 0
        });
        fifo.write_all(b"afterwards\n").unwrap();
        retire_streams(&scene.paths, &owner).unwrap();
        scene.wait_drained(&owner);
        let output = scene.log("web.stdout");
        assert!(output.ends_with(b"afterwards\n"), "{engine}");
        let (kept, dropped) = without_notes(&output);
        assert!(dropped > 1_000_000, "{engine}: {dropped} dropped");
        // A note in the middle of a line begins a line of its own: one byte more.
        let sum = kept.len() + dropped;
        let written = input.len() + b"afterwards\n".len();
        assert!(
            (written..=written + 2).contains(&sum),
            "{engine}: {sum} of {written}"
        );
        assert!(input.starts_with(&kept[..100_000]), "{engine}");
    }
}

#[test]
fn what_was_dropped_is_counted_also_where_pump_is_killed_on_the_full_disk() {
    for engine in engines() {
        let scene = Scene::new();
        let Some(disk) = SmallDisk::new(scene.logs(), "size=128k") else {
            return;
        };
        let pump = scene.pump(engine);
        let owner = owner("web");
        scene.streams(&owner, limits(1000, 50_000));
        let input = numbered_lines(10_000);
        let mut fifo = open(&scene, &owner, OutputStream::Stdout);
        fifo.write_all(&input).unwrap();
        pump.kill();
        let pump = scene.pump(engine);
        fifo.write_all(b"second\n").unwrap();
        pump.kill();
        let _next = scene.pump(engine);
        disk.enlarge("size=64m");
        wait_until("the log counts what it lacks", || {
            without_notes(&scene.log("web.stdout")).1 > 0
        });
        fifo.write_all(b"afterwards\n").unwrap();
        retire_streams(&scene.paths, &owner).unwrap();
        scene.wait_drained(&owner);
        let output = scene.log("web.stdout");
        assert!(output.ends_with(b"afterwards\n"), "{engine}");
        let (kept, dropped) = without_notes(&output);
        let written = input.len() + b"second\nafterwards\n".len();
        let sum = kept.len() + dropped;
        // Two deaths, and a note in the middle of a line: one byte more.
        assert!(
            sum <= written + 2 && sum + 2 * LOSS_BYTES_MAX >= written,
            "{engine}: {sum} of {written}"
        );
    }
}

#[test]
fn a_stream_that_ends_on_a_full_disk_is_kept_until_its_log_counts_what_it_lacks() {
    for engine in engines() {
        let scene = Scene::new();
        let Some(disk) = SmallDisk::new(scene.logs(), "size=128k") else {
            return;
        };
        let pump = scene.pump(engine);
        let owner = owner("web");
        scene.streams(&owner, limits(1000, 50_000));
        let input = numbered_lines(10_000);
        let mut fifo = open(&scene, &owner, OutputStream::Stdout);
        fifo.write_all(&input).unwrap();
        retire_streams(&scene.paths, &owner).unwrap();
        let stderr = OutputStream::Stderr.fifo_name(&owner);
        wait_until("pump has let the other stream go", || {
            let retired = scene.paths.io_directory().join(format!("{stderr}.retired"));
            !retired.exists()
        });
        // Whatever pump read before it dies is counted; the rest is in the pipe, which is held.
        pump.kill();
        let _next = scene.pump(engine);
        disk.enlarge("size=64m");
        scene.wait_drained(&owner);
        let (kept, dropped) = without_notes(&scene.log("web.stdout"));
        let sum = kept.len() + dropped;
        let written = input.len();
        assert!(
            sum <= written + 2 && sum + LOSS_BYTES_MAX >= written,
            "{engine}: {sum} of {written}"
        );
        let left = fs::read_dir(scene.paths.io_directory()).unwrap().count();
        assert_eq!(left, 0, "{engine}: the io directory is empty again");
    }
}

#[test]
fn a_log_directory_that_vanished_holds_no_task_up() {
    let scene = Scene::new();
    let _pump = scene.pump("auto");
    let owner = owner("web");
    let logs = scene.directory.path().join("gone");
    fs::create_dir(&logs).unwrap();
    let base = scene.directory.path();
    create_streams(
        &scene.paths,
        &key(owner.alloc(), owner.task(), 1),
        base,
        Path::new("gone"),
        limits(2, 1000),
    )
    .unwrap();
    let mut fifo = open(&scene, &owner, OutputStream::Stdout);
    fifo.write_all(b"first\n").unwrap();
    wait_until("the first line is written", || {
        !log_files(&logs, "web.stdout").is_empty()
    });
    fs::remove_dir_all(&logs).unwrap();
    fifo.write_all(&numbered_lines(10_000)).unwrap();
    retire_streams(&scene.paths, &owner).unwrap();
    scene.wait_drained(&owner);
}
