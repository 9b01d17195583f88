//! Layout, and every way out of it that is refused.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

const ALLOC: AllocId = AllocId::from_u128(7);
const ATTRIBUTES: FileAttributes = FileAttributes {
    mode: 0o640,
    owner: None,
};

fn built() -> (tempfile::TempDir, AllocRoot) {
    let directory = tempfile::tempdir().unwrap();
    let root = AllocRoot::open(&directory.path().join("alloc")).unwrap();
    root.build(ALLOC).unwrap();
    root.build(ALLOC).unwrap();
    root.build_task(ALLOC, "web", &Identity::Keeper).unwrap();
    root.build_task(ALLOC, "web", &Identity::Keeper).unwrap();
    (directory, root)
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
        ("alloc", 0o777),
        ("alloc/logs", 0o777),
        ("alloc/tmp", 0o1777),
        ("web/local", 0o755),
        ("web/secrets", 0o700),
        ("web/private", 0o700),
    ] {
        assert_eq!(mode(&path.join(name)), expected, "{name}");
    }
    root.let_pass(ALLOC).unwrap();
    root.build(ALLOC).unwrap();
    assert_eq!(mode(&path), 0o711, "it stays so");
    assert_eq!(root.tasks_of(ALLOC), ["web"]);
    std::fs::create_dir_all(path.join("web/local/a/b/c")).unwrap();
    std::fs::write(path.join("web/local/a/b/file"), "x").unwrap();
    symlink("/", path.join("web/local/root")).unwrap();
    root.destroy(ALLOC).unwrap();
    root.destroy(ALLOC).unwrap();
    assert!(!path.exists());
    assert!(Path::new("/etc").exists());
}

#[test]
fn a_task_cannot_take_the_shared_directory_or_leave() {
    let (_directory, root) = built();
    for name in ["alloc", "", "..", "a/b", ".hidden"] {
        let error = root.build_task(ALLOC, name, &Identity::Keeper).unwrap_err();
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
    root.build_task(ALLOC, "web", &Identity::Keeper).unwrap();
    std::fs::write(secrets.join("token"), "y").unwrap();
    root.destroy(ALLOC).unwrap();
    root.drop_secrets(ALLOC).unwrap();
    assert!(!base.exists());
}
