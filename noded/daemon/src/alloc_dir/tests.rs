//! Layout, and every way out of it that is refused.

use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use noded_core::driver::TaskRoot;

use super::*;

const ALLOC: AllocId = AllocId::from_u128(7);
const ATTRIBUTES: FileAttributes = FileAttributes {
    mode: 0o640,
    owner: None,
};

fn built() -> (tempfile::TempDir, AllocRoot) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("alloc");
    std::fs::create_dir(&path).unwrap();
    let root = AllocRoot::open(&path).unwrap();
    root.build(ALLOC).unwrap();
    root.build(ALLOC).unwrap();
    root.build_task(ALLOC, "web", in_a_sandbox()).unwrap();
    root.build_task(ALLOC, "web", in_a_sandbox()).unwrap();
    (directory, root)
}

fn in_a_sandbox() -> TaskAccess<'static> {
    TaskAccess::new(&Identity::Keeper, TaskRoot::OwnRoot)
}

/// Owner, group and mode.
fn of(path: &Path) -> (u32, u32, u32) {
    let found = std::fs::metadata(path).unwrap();
    (found.uid(), found.gid(), found.mode() & 0o7777)
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn the_layout_is_made_with_its_modes_and_goes_without_a_trace() {
    let (_directory, root) = built();
    let path = root.path_of(ALLOC);
    for (name, expected) in [
        ("", 0o700),
        ("web", 0o700),
        ("web/local", 0o755),
        ("web/tmp", 0o1777),
        ("web/secrets", 0o700),
        ("web/private", 0o700),
    ] {
        assert_eq!(mode(&path.join(name)), expected, "{name}");
    }
    assert_eq!(root.tasks_of(ALLOC), ["web"]);
    std::fs::create_dir_all(path.join("web/local/a/b/c")).unwrap();
    std::fs::write(path.join("web/local/a/b/file"), "x").unwrap();
    symlink("/", path.join("web/local/root")).unwrap();
    root.destroy(ALLOC).unwrap();
    root.destroy(ALLOC).unwrap();
    assert!(!path.exists());
    assert!(Path::new("/etc").exists());
}

fn user(uid: u32) -> Identity {
    Identity::User {
        uid,
        gid: uid,
        groups: vec![uid],
    }
}

/// Kind, user and root of a task, then whose its directories are and the modes of the first three.
type Row<'a> = (&'a str, &'a Identity, TaskRoot, u32, [u32; 3]);

#[test]
fn directories_have_the_owners_and_modes_of_the_documented_table() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let (_directory, root) = built();
    let base = root.path_of(ALLOC);
    let group = group_of(ALLOC);
    for (name, mode) in [
        ("", 0o770),
        ("data", 0o770),
        ("logs", 0o770),
        ("tmp", 0o1770),
    ] {
        assert_eq!(
            of(&base.join("alloc").join(name)),
            (0, group, mode),
            "{name}"
        );
    }
    let (user, root_user) = (user(4321), user(0));
    root.build_task(ALLOC, "inside", TaskAccess::new(&user, TaskRoot::OwnRoot))
        .unwrap();
    assert_eq!(mode(&base), 0o700, "nobody comes by the host's paths");
    let tasks: [Row<'_>; 4] = [
        (
            "inside",
            &user,
            TaskRoot::OwnRoot,
            4321,
            [0o700, 0o755, 0o1777],
        ),
        ("user", &user, TaskRoot::Host, 4321, [0o700, 0o755, 0o1777]),
        (
            "keeper",
            &Identity::Keeper,
            TaskRoot::Host,
            0,
            [0o711, 0o1777, 0o1777],
        ),
        (
            "root",
            &root_user,
            TaskRoot::Host,
            0,
            [0o711, 0o1777, 0o1777],
        ),
    ];
    for (task, identity, kind, uid, [own, local, tmp]) in tasks {
        let path = base.join(task);
        root.build_task(ALLOC, task, TaskAccess::new(identity, kind))
            .unwrap();
        for (name, uid, mode) in [
            ("", uid, own),
            ("local", uid, local),
            ("tmp", uid, tmp),
            ("secrets", uid, 0o700),
            ("private", 0, 0o700),
        ] {
            let (owner, _, found) = of(&path.join(name));
            assert_eq!((owner, found), (uid, mode), "{task}/{name}");
        }
    }
    assert_eq!(mode(&base), 0o711);
    root.build(ALLOC).unwrap();
    assert_eq!(mode(&base), 0o711, "it stays so");
    root.destroy(ALLOC).unwrap();
}

#[test]
fn directories_of_a_user_that_templates_name_are_closed_until_it_starts() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let (_directory, root) = built();
    let path = root.path_of(ALLOC).join("late");
    let access = TaskAccess::new(&Identity::Keeper, TaskRoot::Host);
    for _ in 0..2 {
        root.build_task(ALLOC, "late", TaskAccess::unknown())
            .unwrap();
        assert_eq!(of(&path), (0, 0, 0o700));
        root.build_task(ALLOC, "late", access.anew()).unwrap();
        assert_eq!(mode(&path), 0o711);
        assert_eq!(mode(&path.join("local")), 0o1777);
    }
    root.destroy(ALLOC).unwrap();
}

#[test]
fn what_a_task_made_of_its_own_directory_stays_so() {
    let (_directory, root) = built();
    let local = root.path_of(ALLOC).join("web/local");
    std::fs::set_permissions(&local, std::fs::Permissions::from_mode(0o750)).unwrap();
    root.build_task(ALLOC, "web", in_a_sandbox()).unwrap();
    assert_eq!(mode(&local), 0o750);
    root.destroy(ALLOC).unwrap();
}

#[test]
fn an_open_directory_of_an_earlier_release_stays_open() {
    let (_directory, root) = built();
    let shared = root.path_of(ALLOC).join("alloc");
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o777)).unwrap();
    root.build(ALLOC).unwrap();
    assert_eq!(mode(&shared), 0o777);
    root.destroy(ALLOC).unwrap();
}

#[test]
fn no_written_file_has_set_id_bits() {
    let (_directory, root) = built();
    let path = root.path_of(ALLOC).join("web/local/file");
    for (given, expected) in [(0o4755, 0o755), (0o7777, 0o777), (0o2640, 0o640)] {
        let attributes = FileAttributes {
            mode: given,
            owner: None,
        };
        root.write_file(ALLOC, &path, b"x", attributes).unwrap();
        assert_eq!(mode(&path), expected);
    }
    root.destroy(ALLOC).unwrap();
}

#[test]
fn a_task_cannot_take_the_shared_directory_or_leave() {
    let (_directory, root) = built();
    for name in ["alloc", "", "..", "a/b", ".hidden"] {
        let error = root.build_task(ALLOC, name, in_a_sandbox()).unwrap_err();
        assert!(matches!(error, AllocDirError::TaskName { .. }), "{name}");
    }
    root.destroy(ALLOC).unwrap();
}

#[test]
fn no_path_leads_out() {
    let (directory, root) = built();
    let outside = directory.path().join("outside");
    std::fs::write(&outside, "secret").unwrap();
    let local = root.path_of(ALLOC).join("web/local");
    symlink(&outside, local.join("absolute")).unwrap();
    symlink("../../../../outside", local.join("relative")).unwrap();
    symlink("/", local.join("dir")).unwrap();
    std::fs::write(local.join("inside"), "x").unwrap();
    symlink("inside", local.join("fine")).unwrap();
    for path in [
        "web/local/absolute",
        "web/local/relative",
        "web/local/dir/etc/passwd",
        "../../outside",
        "/../../outside",
    ] {
        let error = root
            .open_beneath(ALLOC, Path::new(path), OFlags::RDONLY)
            .unwrap_err();
        assert!(
            matches!(error, AllocDirError::Escapes { .. }),
            "{path}: {error}"
        );
    }
    for path in ["web/local/fine", "/web/local/inside"] {
        root.open_beneath(ALLOC, Path::new(path), OFlags::RDONLY)
            .unwrap();
    }
    root.destroy(ALLOC).unwrap();
}

#[test]
fn a_written_file_is_whole_and_stays_beneath() {
    let (directory, root) = built();
    let base = root.path_of(ALLOC);
    let path = base.join("web/local/deep/er/file");
    root.write_file(ALLOC, &path, b"one", ATTRIBUTES).unwrap();
    root.write_file(ALLOC, &path, b"two", ATTRIBUTES).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"two");
    assert_eq!(mode(&path), 0o640);
    symlink(directory.path(), base.join("web/local/out")).unwrap();
    for path in [
        base.join("web/local/out/file"),
        base.join("web/../../file"),
        directory.path().join("file"),
    ] {
        let error = root.write_file(ALLOC, &path, b"x", ATTRIBUTES).unwrap_err();
        assert!(
            matches!(error, AllocDirError::Escapes { .. }),
            "{path:?}: {error}"
        );
    }
    assert!(!directory.path().join("file").exists());
    root.destroy(ALLOC).unwrap();
}

#[test]
fn secrets_go_alone_and_may_come_back() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let (_directory, root) = built();
    let base = root.path_of(ALLOC);
    let (secrets, log) = (
        base.join("web/secrets"),
        base.join("alloc/logs/web.stdout.0"),
    );
    std::fs::write(secrets.join("token"), "x").unwrap();
    std::fs::write(&log, "said").unwrap();
    for _ in 0..2 {
        root.drop_secrets(ALLOC).unwrap();
        assert!(!secrets.join("token").exists());
        assert_eq!(std::fs::read(&log).unwrap(), b"said");
    }
    root.build_task(ALLOC, "web", in_a_sandbox()).unwrap();
    std::fs::write(secrets.join("token"), "y").unwrap();
    root.destroy(ALLOC).unwrap();
    root.drop_secrets(ALLOC).unwrap();
    assert!(!base.exists());
}

/// Makes a chain of directories, each in the one before; returns the last.
fn nest(from: &Path, name: &str, depth: usize) -> OwnedFd {
    let mut here = fs::open(from, DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..depth {
        fs::mkdirat(&here, name, Mode::RWXU).unwrap();
        here = fs::openat(&here, name, DIRECTORY, Mode::empty()).unwrap();
    }
    here
}

#[test]
fn a_tree_of_any_depth_is_removed() {
    let (_directory, root) = built();
    let local = root.path_of(ALLOC).join("web/local");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
    for (name, depth) in [("d", 3000), ("beside", 300)] {
        let last = nest(&local, name, depth);
        fs::openat(&last, "file", flags, Mode::RUSR).unwrap();
    }
    std::fs::write(local.join("d/d/d/file"), "x").unwrap();
    root.destroy(ALLOC).unwrap();
    assert!(!root.path_of(ALLOC).exists());
}

#[test]
fn what_cannot_be_removed_is_told_in_a_bounded_message() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let (_directory, root) = built();
    let local = root.path_of(ALLOC).join("web/local");
    let names = "n".repeat(200);
    let last = nest(&local, &names, 15);
    let mount = std::fs::read_link(format!("/proc/self/fd/{}", last.as_raw_fd())).unwrap();
    isolation::scratch::mount(&mount, 4096, 0o700).unwrap();
    let error = root.destroy(ALLOC).unwrap_err();
    isolation::scratch::unmount_all(&[mount]).unwrap();
    // The mount, and the directories above it.
    let AllocDirError::Remove {
        failures, first, ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!(*failures, 15 + 3);
    assert!(
        first.contains("[...]") && first.ends_with("busy (os error 16)"),
        "{first}"
    );
    assert!(error.to_string().len() < 700, "{error}");
    root.destroy(ALLOC).unwrap();
}

#[test]
fn a_successor_takes_over_the_data_of_its_predecessor_once() {
    let (_directory, root) = built();
    let (old, next) = (root.path_of(ALLOC), AllocId::from_u128(8));
    root.build_task(ALLOC, "gone", in_a_sandbox()).unwrap();
    std::fs::write(old.join("alloc/data/rows"), "1").unwrap();
    std::fs::write(old.join("web/local/cache"), "2").unwrap();
    root.build(next).unwrap();
    let tasks = || ["web", "new"].into_iter();
    assert_eq!(root.take_over(next, ALLOC, tasks()).unwrap(), 2);
    root.build_task(next, "web", in_a_sandbox()).unwrap();
    root.build_task(next, "new", in_a_sandbox()).unwrap();
    let new = root.path_of(next);
    let read = |path: &str| std::fs::read_to_string(new.join(path)).unwrap();
    assert_eq!(
        (read("alloc/data/rows"), read("web/local/cache")),
        ("1".to_owned(), "2".to_owned())
    );
    if rustix::process::geteuid().is_root() {
        assert_eq!(of(&new.join("alloc/data")), (0, group_of(next), 0o770));
    }
    assert!(old.join("gone/local").is_dir() && old.join("alloc/logs").is_dir());
    // Again, as after a crash, and for one that was never here.
    assert_eq!(root.take_over(next, ALLOC, tasks()).unwrap(), 0);
    assert_eq!(read("alloc/data/rows"), "1");
    let unknown = AllocId::from_u128(9);
    assert_eq!(root.take_over(next, unknown, tasks()).unwrap(), 0);
}

#[test]
fn data_that_is_no_directory_is_not_taken_over() {
    let (_directory, root) = built();
    let next = AllocId::from_u128(8);
    let data = root.path_of(ALLOC).join("alloc/data");
    std::fs::remove_dir(&data).unwrap();
    symlink("/etc", &data).unwrap();
    root.build(next).unwrap();
    let error = root.take_over(next, ALLOC, [].into_iter()).unwrap_err();
    assert!(error.to_string().starts_with("moving "), "{error}");
    assert!(root.path_of(next).join("alloc/data").is_dir());
    assert!(!root.path_of(next).join("alloc/data").is_symlink());
}

#[test]
fn staging_directory_is_empty_closed_and_no_task() {
    let (_directory, root) = built();
    let (_open, path) = root.make_staging(ALLOC, "web.1.0").unwrap();
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    std::fs::create_dir(path.join("tree")).unwrap();
    std::fs::write(path.join("tree/x"), "x").unwrap();
    let (_open, again) = root.make_staging(ALLOC, "web.1.0").unwrap();
    assert_eq!(path, again);
    assert!(!path.join("tree").exists());
    assert_eq!(root.tasks_of(ALLOC), ["web"]);
    root.drop_staging(ALLOC, "web.1.0").unwrap();
    root.drop_staging(ALLOC, "web.1.0").unwrap();
    assert!(!path.exists());
}

#[test]
fn staging_directories_of_an_earlier_noded_are_removed() {
    let (_directory, root) = built();
    let (_open, path) = root.make_staging(ALLOC, "web.1.0").unwrap();
    std::fs::write(path.join("download"), "x").unwrap();
    root.drop_all_staging().unwrap();
    assert!(!root.path_of(ALLOC).join(STAGING).exists());
    assert!(root.path_of(ALLOC).join("web/local").exists());
}
