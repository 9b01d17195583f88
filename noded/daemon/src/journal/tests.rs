//! Records that survive, whatever becomes of the file and its disk.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use noded_core::{RunEpoch, RunKey, SessionEpoch};
use protocol_model::AllocId;

use super::*;

/// Far more than a disk takes on a loaded host.
const PATIENCE: Duration = Duration::from_secs(30);

fn record(epoch: u64) -> JournalRecord {
    JournalRecord::SessionEpoch {
        epoch: SessionEpoch(epoch),
    }
}

fn reopen(directory: &Path) -> (Journal, RestoredNode) {
    Journal::open(directory, || {}).unwrap()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Appends records and sees them written.
fn append(journal: &mut Journal, epochs: impl IntoIterator<Item = u64>) {
    for epoch in epochs {
        journal.append(&record(epoch)).unwrap();
    }
    journal.hand_over().unwrap();
    until("written", || journal.progress().written == journal.issued());
}

#[test]
fn records_survive_and_the_newest_wins() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, restored) = reopen(directory.path());
    assert_eq!(restored.epoch, SessionEpoch(0));
    append(&mut journal, 1..=3);
    assert_eq!(journal.progress().written, 3);
    drop(journal);
    assert_eq!(reopen(directory.path()).1.epoch, SessionEpoch(3));
}

#[test]
fn a_torn_tail_is_cut_wherever_it_is_torn() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(file::NAME);
    let (mut journal, _) = reopen(directory.path());
    append(&mut journal, [1]);
    let whole = std::fs::read(&path).unwrap().len();
    append(&mut journal, [2]);
    drop(journal);
    let bytes = std::fs::read(&path).unwrap();
    for cut in whole..bytes.len() {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        assert_eq!(
            reopen(directory.path()).1.epoch,
            SessionEpoch(1),
            "cut at {cut}"
        );
    }
}

#[test]
fn a_flipped_bit_costs_the_record_that_it_is_in_and_a_copy_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(file::NAME);
    let (mut journal, _) = reopen(directory.path());
    let start = std::fs::read(&path).unwrap().len();
    append(&mut journal, [1]);
    let first = std::fs::read(&path).unwrap().len();
    append(&mut journal, [2]);
    drop(journal);
    let whole = std::fs::read(&path).unwrap();
    for bit in start * 8..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &bytes).unwrap();
        let left = if bit / 8 < first { 2 } else { 1 };
        let copy = path.with_extension("damaged");
        assert_eq!(
            reopen(directory.path()).1.epoch,
            SessionEpoch(left),
            "bit {bit}"
        );
        // Damage at the end cannot be told from a torn tail.
        let kept = std::fs::read(&copy).ok();
        assert_eq!(kept, (left == 2).then_some(bytes), "bit {bit}");
        if left == 2 {
            std::fs::remove_file(&copy).unwrap();
        }
    }
}

#[test]
fn a_file_that_stays_large_is_not_compacted_again_and_again() {
    let directory = tempfile::tempdir().unwrap();
    let (journal, _) = reopen(directory.path());
    let sized = |end, compacted| {
        let mut state = journal.shared.lock();
        (state.end, state.compacted) = (end, compacted);
        drop(state);
        journal.wants_compaction()
    };
    assert!(sized(COMPACT_BYTES + 1, 0));
    assert!(!sized(COMPACT_BYTES + 1, COMPACT_BYTES));
    assert!(sized(2 * COMPACT_BYTES + 1, COMPACT_BYTES));
}

#[test]
fn another_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join(file::NAME), "hello world").unwrap();
    let error = Journal::open(directory.path(), || {}).unwrap_err();
    assert!(matches!(error, JournalError::NotAJournal { .. }));
}

#[test]
fn a_sync_covers_everything_appended_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let (told, progressed) = sync_channel(64);
    let opened = Journal::open(directory.path(), move || {
        // Where one waits to be read there is nothing new to tell.
        let _ = told.try_send(());
    });
    let (mut journal, _) = opened.unwrap();
    let run = RunKey::new(AllocId::from_u128(1), "t", RunEpoch(1));
    for _ in 0..5 {
        let record = JournalRecord::Intent { run: run.clone() };
        journal.append(&record).unwrap();
    }
    journal.hand_over().unwrap();
    journal.request_sync();
    while journal.progress().synced < 5 {
        progressed.recv_timeout(PATIENCE).expect("a sync is told");
    }
    assert_eq!(journal.progress().written, 5);
}

#[test]
fn a_compacted_journal_says_the_same_and_what_comes_meanwhile_follows() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = reopen(directory.path());
    append(&mut journal, 1..=100);
    journal.compact(vec![record(100)]);
    journal.append(&record(101)).unwrap();
    journal.hand_over().unwrap();
    until("the new file is on the disk", || {
        journal.progress().synced >= 100
    });
    until("the last one is in it", || {
        journal.progress().written == 101
    });
    drop(journal);
    assert_eq!(reopen(directory.path()).1.epoch, SessionEpoch(101));
}

/// A disk that answers nothing until it is told to.
struct Gate(Mutex<Option<Receiver<()>>>);

impl Gate {
    const fn new() -> Self {
        Self(Mutex::new(None))
    }

    fn close(&self) -> SyncSender<()> {
        let (open, closed) = sync_channel(64);
        *self.0.lock().unwrap() = Some(closed);
        open
    }

    /// Passes once the gate's key is dropped.
    fn pass(&self) {
        if let Some(closed) = self.0.lock().unwrap().take() {
            let _ = closed.recv_timeout(PATIENCE);
        }
    }
}

#[test]
fn a_disk_that_hangs_holds_nobody_but_what_waits_for_it() {
    static GATE: Gate = Gate::new();
    fn write(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
        GATE.pass();
        file.write_all_at(bytes, at)
    }
    let directory = tempfile::tempdir().unwrap();
    let (told, progressed) = sync_channel(64);
    let disk = Disk { write, ..DISK };
    let opened = Journal::open_with(directory.path(), disk, move || {
        // Where one waits to be read there is nothing new to tell.
        let _ = told.try_send(());
    });
    let (mut journal, _) = opened.unwrap();
    let key = GATE.close();
    for epoch in 1..=3 {
        journal.append(&record(epoch)).unwrap();
        journal.hand_over().unwrap();
        journal.wait_written();
    }
    assert_eq!(journal.progress(), Progress::default());
    assert!(!journal.wants_compaction());
    drop(key);
    while journal.progress().written < 3 {
        progressed.recv_timeout(PATIENCE).expect("the rest is told");
    }
    drop(journal);
    assert_eq!(reopen(directory.path()).1.epoch, SessionEpoch(3));
}

#[test]
fn appends_do_not_wait_for_a_sync_that_hangs() {
    static GATE: Gate = Gate::new();
    fn sync(file: &File) -> io::Result<()> {
        GATE.pass();
        file.sync_data()
    }
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk { sync, ..DISK };
    let (mut journal, _) = Journal::open_with(directory.path(), disk, || {}).unwrap();
    let key = GATE.close();
    append(&mut journal, [1]);
    journal.request_sync();
    append(&mut journal, [2]);
    assert_eq!(journal.progress().synced, 0);
    drop(key);
    journal.request_sync();
    until("synced", || journal.progress().synced == 2);
}

fn remount(disk: &Path, size: &std::ffi::CStr) {
    rustix::mount::mount_remount(disk, rustix::mount::MountFlags::empty(), size).unwrap();
}

fn small_disk(directory: &Path) -> Option<PathBuf> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return None;
    }
    let disk = directory.join("disk");
    std::fs::create_dir(&disk).unwrap();
    isolation::scratch::mount(&disk, 16 * 1024 * 1024, 0o700).unwrap();
    Some(disk)
}

/// Takes whatever room there is.
fn fill(disk: &Path) {
    let mut file = File::create(disk.join("ballast")).unwrap();
    let block = [1; 4096];
    while io::Write::write_all(&mut file, &block).is_ok() {}
}

#[test]
fn a_full_disk_loses_nothing_and_what_is_left_follows_when_there_is_room() {
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = small_disk(directory.path()) else {
        return;
    };
    let (mut journal, _) = reopen(&disk);
    let mut epoch = 1;
    append(&mut journal, [epoch]);
    fill(&disk);
    let stuck = |journal: &Journal| journal.shared.lock().is_stuck();
    while !stuck(&journal) {
        for _ in 0..1000 {
            epoch += 1;
            journal.append(&record(epoch)).unwrap();
        }
        journal.hand_over().unwrap();
        until("written, or not", || {
            stuck(&journal) || journal.progress().written == epoch
        });
        assert!(epoch < 1_000_000, "the disk never filled");
    }
    let bytes = std::fs::metadata(disk.join(file::NAME)).unwrap().len();
    assert!(bytes >= RESERVE_BYTES, "the reserve was not used: {bytes}");
    let written = journal.progress().written;
    assert!(written < epoch);
    remount(&disk, c"size=33554432");
    until("it is written again", || {
        journal.progress().written == epoch
    });
    drop(journal);
    assert_eq!(reopen(&disk).1.epoch, SessionEpoch(epoch));
    isolation::scratch::unmount_all(&[disk]).unwrap();
}

#[test]
fn on_a_full_disk_the_old_file_goes_on_in_its_reserve() {
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = small_disk(directory.path()) else {
        return;
    };
    let (mut journal, _) = reopen(&disk);
    append(&mut journal, 1..=100);
    drop(journal);
    fill(&disk);
    for life in 1..=3 {
        let (mut journal, restored) = reopen(&disk);
        assert_eq!(restored.epoch, SessionEpoch(100 * life));
        append(&mut journal, 100 * life + 1..=100 * (life + 1));
        journal.request_sync();
        until("synced", || journal.progress().synced == 100);
    }
    std::fs::remove_file(disk.join("ballast")).unwrap();
    assert_eq!(reopen(&disk).1.epoch, SessionEpoch(400));
    isolation::scratch::unmount_all(&[disk]).unwrap();
}

#[test]
fn after_a_failed_sync_only_a_new_file_is_trusted() {
    static BROKEN: AtomicBool = AtomicBool::new(true);
    fn sync(file: &File) -> io::Result<()> {
        if BROKEN.swap(false, Ordering::SeqCst) {
            return Err(io::Error::other("broken"));
        }
        file.sync_data()
    }
    let directory = tempfile::tempdir().unwrap();
    let (told, progressed) = sync_channel(64);
    let disk = Disk { sync, ..DISK };
    let opened = Journal::open_with(directory.path(), disk, move || {
        // Where one waits to be read there is nothing new to tell.
        let _ = told.try_send(());
    });
    let (mut journal, _) = opened.unwrap();
    append(&mut journal, [1]);
    journal.request_sync();
    while !journal.wants_compaction() {
        progressed.recv_timeout(PATIENCE).expect("it is told");
    }
    assert_eq!(journal.progress().synced, 0);
    journal.compact(vec![record(1)]);
    until("the new file is trusted", || journal.progress().synced == 1);
    assert!(!journal.wants_compaction());
    append(&mut journal, [2]);
    journal.request_sync();
    until("it is synced", || journal.progress().synced == 2);
}
