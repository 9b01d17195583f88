//! Files of KEKs: only those of this user alone are read, and a bad one hinders no other.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use controlplane_keyring::{FileKeks, Kek, KekFileError, KekId, KekStore as _};
use tempfile::TempDir;

use crate::material::kek;

/// A directory of KEKs that does not exist yet.
fn keks() -> (TempDir, FileKeks) {
    let root = tempfile::tempdir().expect("a directory");
    let keks = FileKeks::new(root.path().join("keyring"));
    (root, keks)
}

fn mode(path: &Path) -> u32 {
    path.metadata().expect("metadata").permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("the mode is set");
}

/// The KEKs that are read, and the one error beside them.
fn loaded(keks: &FileKeks) -> (Vec<KekId>, KekFileError) {
    let mut loaded = keks.load().expect("the directory is listed");
    let error = loaded.unusable.pop().expect("a file is refused");
    assert!(loaded.unusable.is_empty(), "one file is refused");
    (loaded.keks.iter().map(Kek::id).collect(), error)
}

#[test]
fn a_stored_kek_is_read_again_and_private() {
    let (_root, keks) = keks();
    assert!(keks.load().expect("no directory is no KEK").keks.is_empty());
    keks.store(&kek(1)).expect("it is stored");
    keks.store(&kek(1)).expect("it is stored already");
    keks.store(&kek(2)).expect("another one");
    let path = keks.path_of(kek(1).id());
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().expect("a directory")), 0o700);
    let read = keks.load().expect("they are read");
    assert!(read.unusable.is_empty());
    let mut ids: Vec<KekId> = read.keks.iter().map(Kek::id).collect();
    ids.sort();
    let mut expected = [kek(1).id(), kek(2).id()];
    expected.sort();
    assert_eq!(ids, expected);
}

#[test]
fn a_file_that_others_may_read_is_refused_with_what_to_do() {
    let (_root, keks) = keks();
    keks.store(&kek(1)).expect("it is stored");
    keks.store(&kek(2)).expect("it is stored");
    set_mode(&keks.path_of(kek(1).id()), 0o640);
    let (read, error) = loaded(&keks);
    assert_eq!(read, [kek(2).id()]);
    let words = error.to_string();
    assert!(
        words.contains("mode 0640") && words.contains("`chmod 0600`"),
        "{words}"
    );
    let refused = keks.store(&kek(1)).expect_err("it is not taken for stored");
    assert!(matches!(refused, KekFileError::Open { .. }), "{refused}");
}

#[test]
fn a_directory_that_others_may_enter_takes_no_kek() {
    let (root, keks) = keks();
    let directory = root.path().join("keyring");
    fs::create_dir(&directory).expect("is made");
    set_mode(&directory, 0o755);
    let refused = keks.store(&kek(1)).expect_err("it is refused");
    assert!(refused.to_string().contains("`chmod 0700`"), "{refused}");
}

#[test]
fn a_file_under_another_name_is_refused() {
    let (root, keks) = keks();
    keks.store(&kek(1)).expect("it is stored");
    let other = root.path().join("keyring/0011223344556677.kek");
    fs::rename(keks.path_of(kek(1).id()), &other).expect("renamed");
    let (read, error) = loaded(&keks);
    assert!(read.is_empty());
    assert!(matches!(error, KekFileError::Name { found, .. } if found == kek(1).id()));
}

#[test]
fn a_damaged_file_is_refused_without_showing_the_key() {
    let (_root, keks) = keks();
    keks.store(&kek(1)).expect("it is stored");
    let path = keks.path_of(kek(1).id());
    let text = fs::read_to_string(&path)
        .expect("is read")
        .replace("01\n", "02\n");
    fs::write(&path, text).expect("is written");
    let (_, error) = loaded(&keks);
    let words = format!("{error:?} {error}");
    assert!(matches!(error, KekFileError::Text { .. }), "{words}");
    assert!(!words.contains("010101"), "{words}");
}

#[test]
fn links_pipes_and_long_files_are_not_read() {
    let (root, keks) = keks();
    let directory = root.path().join("keyring");
    fs::create_dir(&directory).expect("is made");
    let path = directory.join("0011223344556677.kek");
    let elsewhere = root.path().join("elsewhere");
    fs::write(&elsewhere, kek(1).to_text().as_bytes()).expect("is written");
    set_mode(&elsewhere, 0o600);
    symlink(&elsewhere, &path).expect("is linked");
    assert!(matches!(loaded(&keks).1, KekFileError::Io { .. }));
    fs::remove_file(&path).expect("is removed");
    let pipe = rustix::fs::FileType::Fifo;
    let private = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &path, pipe, private, 0).expect("a pipe");
    assert!(matches!(loaded(&keks).1, KekFileError::NotFile { .. }));
    fs::remove_file(&path).expect("is removed");
    fs::write(&path, vec![b'0'; 1 << 20]).expect("is written");
    set_mode(&path, 0o600);
    assert!(matches!(loaded(&keks).1, KekFileError::Text { .. }));
}

#[test]
fn unfinished_kek_file_of_a_crash_is_ignored_and_replaced() {
    let (_root, keks) = keks();
    keks.store(&kek(2)).expect("it is stored");
    let unfinished = keks.path_of(kek(1).id()).with_extension("new");
    fs::write(&unfinished, "drover-kek 1\n").expect("half a file");
    let read = keks.load().expect("they are read");
    assert_eq!((read.keks.len(), read.unusable.len()), (1, 0));
    keks.store(&kek(1)).expect("it is stored");
    assert!(!unfinished.exists());
    assert_eq!(keks.load().expect("they are read").keks.len(), 2);
}
