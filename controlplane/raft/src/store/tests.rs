//! The log on disk against a log in memory: whatever is asked of it, and however it ends, what was
//! acknowledged is there afterwards, or the server refuses to start.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use openraft::entry::RaftEntry;
use openraft::storage::{RaftLogStorage, RaftLogStorageExt};
use openraft::{EntryPayload, RaftLogReader};
use tempfile::TempDir;

use super::directory::DirectoryError;
use super::disk::Disk;
use super::host_disk::HostDisk;
use super::log::LogStore;
use super::segment::{Group, HEADER_BYTES, Sort};
use super::segments::{SEGMENT_BYTES_MIN, path_of};
use super::{recovery, segment};
use crate::engine::{Command, Entry, LogId, Vote};

const LOG_END: &str = "log-end";

/// What a log must say, in memory.
#[derive(Debug, Clone, Default, PartialEq)]
struct Model {
    entries: BTreeMap<u64, Entry>,
    vote: Option<Vote>,
    purged: Option<LogId>,
}

impl Model {
    fn last(&self) -> Option<LogId> {
        let last = self.entries.last_key_value().map(|(_, entry)| entry.log_id);
        last.max(self.purged)
    }

    async fn of(log: &mut LogStore) -> Self {
        let state = log.get_log_state().await.expect("a state");
        let entries = log.try_get_log_entries(..).await.expect("entries");
        let model = Self {
            entries: entries
                .into_iter()
                .map(|entry| (entry.log_id.index, entry))
                .collect(),
            vote: log.read_vote().await.expect("a vote"),
            purged: state.last_purged_log_id,
        };
        assert_eq!(model.last(), state.last_log_id);
        model
    }
}

/// The same numbers for the same seed (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn size(&mut self, end: u64) -> usize {
        usize::try_from(self.below(end)).expect("a size")
    }

    fn byte(&mut self) -> u8 {
        self.0.to_le_bytes()[usize::from(self.below(2) == 0)]
    }
}

fn open(directory: &Path) -> Result<LogStore, DirectoryError> {
    let disk: Arc<dyn Disk> = Arc::new(HostDisk);
    Ok(LogStore::start(recovery::open(&disk, directory)?).expect("starts"))
}

async fn close(log: LogStore) {
    let mut closed = log.closed();
    drop(log);
    while closed.changed().await.is_ok() {}
}

/// The directory as a killed process, or a host without power, leaves it.
fn copy(from: &Path) -> TempDir {
    let copy = tempfile::tempdir().expect("a directory");
    fs::create_dir(copy.path().join("log")).expect("is made");
    for name in ["server-id", LOG_END] {
        fs::copy(from.join(name), copy.path().join(name)).expect("copies");
    }
    for file in fs::read_dir(from.join("log")).expect("lists") {
        let file = file.expect("a file");
        fs::copy(file.path(), copy.path().join("log").join(file.file_name())).expect("copies");
    }
    copy
}

async fn step(log: &mut LogStore, model: &mut Model, numbers: &mut Numbers, term: u64) {
    let next = model.last().map_or(0, |last| last.index + 1);
    match numbers.below(10) {
        0 => {
            let vote = Vote::new_committed(term, numbers.below(5));
            log.save_vote(&vote).await.expect("saves");
            model.vote = Some(vote);
        }
        1 => {
            let first = model.purged.map_or(0, |purged| purged.index + 1);
            let first = first + numbers.below(next - first + 1);
            let kept = model.entries.range(..first).next_back();
            let kept = kept.map(|(_, entry)| entry.log_id).or(model.purged);
            log.truncate_after(kept).await.expect("truncates");
            model.entries.split_off(&first);
        }
        2 => {
            // Up to somewhere in it, or beyond its end as when a snapshot was received.
            let upto = model.purged.map_or(0, |purged| purged.index + 1) + numbers.below(12);
            let known = model.entries.get(&upto).map(|entry| entry.log_id);
            let upto = known.unwrap_or_else(|| LogId::new_term_index(term, upto.max(next)));
            log.purge(upto).await.expect("purges");
            model.purged = Some(upto);
            model.entries = model.entries.split_off(&(upto.index + 1));
        }
        _ => {
            let entries: Vec<Entry> = (0..=numbers.below(4))
                .map(|number| {
                    let length = match numbers.below(8) {
                        0 => numbers.size(2 * SEGMENT_BYTES_MIN),
                        1..4 => numbers.size(200_000),
                        _ => numbers.size(100),
                    };
                    let command = Command(vec![numbers.byte(); length].into());
                    Entry::new(
                        LogId::new_term_index(term, next + number),
                        EntryPayload::Normal(command),
                    )
                })
                .collect();
            log.blocking_append(entries.clone()).await.expect("appends");
            let indexed = entries.into_iter().map(|entry| (entry.log_id.index, entry));
            model.entries.extend(indexed);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_says_what_was_acknowledged_however_it_ended() {
    for seed in 1..=6 {
        let mut numbers = Numbers(seed);
        let directory = tempfile::tempdir().expect("a directory");
        let mut log = open(directory.path()).expect("opens");
        let mut model = Model::default();
        for round in 0..60 {
            step(&mut log, &mut model, &mut numbers, round).await;
            if numbers.below(8) == 0 {
                let killed = copy(directory.path());
                tear(&killed.path().join("log"), &mut numbers);
                let mut again = open(killed.path()).expect("opens");
                assert_eq!(Model::of(&mut again).await, model, "seed {seed}, {round}");
            }
            if numbers.below(8) == 0 {
                close(log).await;
                log = open(directory.path()).expect("opens");
                assert_eq!(Model::of(&mut log).await, model, "seed {seed}, {round}");
            }
        }
    }
}

/// The newest segment's number and content, and where each of its groups begins; the last is where
/// they end.
fn newest(log: &Path) -> (u64, Vec<u8>, Vec<usize>) {
    let mut number = 1;
    for file in fs::read_dir(log).expect("lists") {
        let found = super::segments::number_of(&file.expect("a file").path());
        number = number.max(found.expect("a segment"));
    }
    let mut starts = vec![segment::HEADER_BYTES];
    let mut bytes = fs::read(path_of(log, number)).expect("reads");
    if bytes.iter().all(|byte| *byte == 0) {
        number -= 1;
        bytes = fs::read(path_of(log, number)).expect("reads");
    }
    let mut end = segment::HEADER_BYTES;
    while let Some(body) = segment::group_at(&bytes, number, end) {
        end = segment::group_end(end, body);
        starts.push(end);
    }
    (number, bytes, starts)
}

/// What a write that was under way may leave: anything behind the end but something whole.
fn tear(log: &Path, numbers: &mut Numbers) {
    let (number, mut bytes, starts) = newest(log);
    let end = starts[starts.len() - 1];
    let length = numbers.size(5000);
    for byte in bytes.iter_mut().skip(end).take(length) {
        *byte = numbers.byte();
    }
    fs::write(path_of(log, number), bytes).expect("writes");
}

/// A closed log of a few entries: its directory, what it says, and what it said before the last.
async fn small_log() -> (TempDir, Model, Model) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut log = open(directory.path()).expect("opens");
    let mut before = Model::default();
    for index in 0..6 {
        before = Model::of(&mut log).await;
        let entry = Entry::new(LogId::new_term_index(1, index), EntryPayload::Blank);
        log.blocking_append([entry]).await.expect("appends");
    }
    let model = Model::of(&mut log).await;
    close(log).await;
    (directory, model, before)
}

/// Opens a copy of a log whose newest segment holds these bytes instead.
fn open_with(directory: &Path, number: u64, bytes: &[u8]) -> (TempDir, Result<LogStore, String>) {
    let copy = copy(directory);
    fs::write(path_of(&copy.path().join("log"), number), bytes).expect("writes");
    let opened = match open(copy.path()) {
        Err(DirectoryError::Damaged { reason, .. }) => Err(reason),
        // Nothing of it is whole, and the copy of the id says that there was a log.
        Err(error @ DirectoryError::LogRemoved { .. }) => Err(error.to_string()),
        opened => Ok(opened.expect("opens")),
    };
    (copy, opened)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_before_the_recorded_end_is_refused() {
    let (directory, ..) = small_log().await;
    let (number, bytes, starts) = newest(&directory.path().join("log"));
    for at in 0..starts[starts.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let (_copy, opened) = open_with(directory.path(), number, &damaged);
        opened.expect_err("it was acknowledged");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_recorded_end_damage_in_the_last_group_is_a_torn_end() {
    let (directory, _, before) = small_log().await;
    fs::write(directory.path().join(LOG_END), "").expect("empties");
    let (number, bytes, starts) = newest(&directory.path().join("log"));
    let last = starts[starts.len() - 2];
    for at in 0..starts[starts.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        match open_with(directory.path(), number, &damaged) {
            (_copy, Ok(mut log)) => {
                assert!(at >= last, "byte {at} was acknowledged");
                assert_eq!(Model::of(&mut log).await, before, "byte {at}");
            }
            (_, Err(_)) => assert!(at < last, "byte {at}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_cut_anywhere_is_refused() {
    let (directory, model, _) = small_log().await;
    let (number, bytes, starts) = newest(&directory.path().join("log"));
    let end = starts[starts.len() - 1];
    for at in 0..end {
        let zeros = vec![0; bytes.len() - at];
        let (_copy, zeroed) = open_with(directory.path(), number, &[&bytes[..at], &zeros].concat());
        let last_was_zero = bytes[at..end].iter().all(|byte| *byte == 0);
        assert!(last_was_zero || zeroed.is_err(), "zeros from byte {at}");
    }
    for length in (HEADER_BYTES + 8..end).chain([end, end + 1, bytes.len() - 1]) {
        let (_copy, cut) = open_with(directory.path(), number, &bytes[..length]);
        cut.expect_err("it is shorter than it was prepared");
    }
    let (_copy, whole) = open_with(directory.path(), number, &bytes);
    assert_eq!(Model::of(&mut whole.expect("opens")).await, model);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_segment_is_refused_without_a_recorded_end_too() {
    let (directory, ..) = small_log().await;
    fs::write(directory.path().join(LOG_END), "").expect("empties");
    let (number, bytes, starts) = newest(&directory.path().join("log"));
    for length in [starts[2], starts[2] + 3, bytes.len() - 1] {
        let (_copy, cut) = open_with(directory.path(), number, &bytes[..length]);
        let reason = cut.expect_err("it is shorter than it was prepared");
        assert!(reason.contains("it was cut"), "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newest_segment_that_lost_its_content_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut log = open(directory.path()).expect("opens");
    write_segments(&mut log).await;
    close(log).await;
    let (number, bytes, _) = newest(&directory.path().join("log"));
    for content in [Vec::new(), vec![0; bytes.len()]] {
        let (_copy, opened) = open_with(directory.path(), number, &content);
        let reason = opened.expect_err("entries of it were acknowledged");
        assert!(
            reason.contains(&format!("segment {number:016x}")),
            "{reason}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_segment_whose_preparation_was_cut_short_does_not_matter() {
    let (directory, model, _) = small_log().await;
    for content in [Vec::new(), vec![0; 1000], vec![0; 600_000]] {
        let (copy, opened) = open_with(directory.path(), 2, &content);
        assert_eq!(Model::of(&mut opened.expect("opens")).await, model);
        assert!(!path_of(&copy.path().join("log"), 2).exists());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flushed_end_is_on_record_whatever_the_host_loses() {
    let (directory, ..) = small_log().await;
    let log = open(directory.path()).expect("opens");
    log.flusher().flush().await.expect("flushes");
    close(log).await;
    let path = directory.path().join(LOG_END);
    let mut slots = fs::read(&path).expect("reads");
    // What was not synced.
    slots[512..].fill(0);
    fs::write(path, slots).expect("writes");
    let (number, mut bytes, starts) = newest(&directory.path().join("log"));
    bytes[starts[starts.len() - 2]..].fill(0);
    let (_copy, opened) = open_with(directory.path(), number, &bytes);
    let reason = opened.expect_err("it was on record");
    assert!(reason.contains("it was cut"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_without_a_recorded_end_must_reach_its_newest_snapshot() {
    let (directory, ..) = small_log().await;
    let disk: Arc<dyn Disk> = Arc::new(HostDisk);
    let reaches = |directory: &Path, index| {
        let recovered = recovery::open(&disk, directory).expect("opens");
        let covered = Some(LogId::new_term_index(1, index));
        recovered
            .check_covers(covered)
            .map_err(|error| error.to_string())
    };
    // It may have been received, and the log purged only after that.
    reaches(directory.path(), 6).expect("its end is on record");
    fs::remove_file(directory.path().join(LOG_END)).expect("removes");
    reaches(directory.path(), 5).expect("it reaches the snapshot");
    let error = reaches(directory.path(), 6).expect_err("it ends before");
    assert!(error.contains("it ends with entry 5"), "{error}");
    assert!(error.contains("replace the server"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_segment_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut log = open(directory.path()).expect("opens");
    write_segments(&mut log).await;
    close(log).await;
    let log = directory.path().join("log");
    for (number, wanted) in [(2, "is missing"), (1, "are missing")] {
        let copy = copy(directory.path());
        fs::remove_file(path_of(&copy.path().join("log"), number)).expect("removes");
        let error = open(copy.path()).expect_err("must refuse").to_string();
        assert!(error.contains(wanted), "{error}");
    }
    assert!(path_of(&log, 3).exists(), "three segments are written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn segments_that_are_missing_are_missed_although_no_entry_is_left() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut log = open(directory.path()).expect("opens");
    write_segments(&mut log).await;
    log.truncate_after(None).await.expect("truncates");
    close(log).await;
    close(open(directory.path()).expect("opens with all of them")).await;
    let log = directory.path().join("log");
    let (newest, _, _) = newest(&log);
    for number in 1..newest {
        fs::remove_file(path_of(&log, number)).expect("removes");
    }
    let error = open(directory.path()).expect_err("must refuse").to_string();
    assert!(error.contains("are missing"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_segment_of_before_that_does_not_say_what_comes_next_is_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut log = open(directory.path()).expect("opens");
    write_segments(&mut log).await;
    let before = Model::of(&mut log).await;
    close(log).await;
    let first = path_of(&directory.path().join("log"), 1);
    let mut bytes = fs::read(&first).expect("reads");
    let mut padding = Group::default();
    padding.clear();
    padding.push(Sort::End, &[0; 8]);
    let old = padding.finish(1, HEADER_BYTES as u64);
    bytes[HEADER_BYTES..HEADER_BYTES + old.len()].copy_from_slice(old);
    fs::write(&first, bytes).expect("writes");
    let mut log = open(directory.path()).expect("opens");
    assert_eq!(Model::of(&mut log).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_leaves_a_gap_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut log = open(directory.path()).expect("opens");
    let entry = |index| {
        let payload = EntryPayload::Normal(Command(vec![7].into()));
        Entry::new(LogId::new_term_index(1, index), payload)
    };
    log.blocking_append([entry(0)]).await.expect("appends");
    let error = log.blocking_append([entry(2)]).await;
    let error = error.expect_err("must refuse").to_string();
    assert!(error.contains("entry 2 was appended where 1"), "{error}");
}

async fn write_segments(log: &mut LogStore) {
    for index in 0..40 {
        let payload = EntryPayload::Normal(Command(vec![7; 400_000].into()));
        let entry = Entry::new(LogId::new_term_index(1, index), payload);
        log.blocking_append([entry]).await.expect("appends");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_segment_that_lost_its_content_is_not_taken_for_a_prepared_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut log = open(directory.path()).expect("opens");
    write_segments(&mut log).await;
    close(log).await;
    let log = directory.path().join("log");
    let (number, bytes, _) = newest(&log);
    fs::write(path_of(&log, number), vec![0; bytes.len()]).expect("writes");
    fs::write(path_of(&log, number + 1), vec![0; 1024]).expect("writes");
    let error = open(directory.path()).expect_err("must refuse");
    let DirectoryError::Damaged { path, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(path, path_of(&log, number));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_segment_that_cannot_be_removed_keeps_those_behind_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut log = open(directory.path()).expect("opens");
    write_segments(&mut log).await;
    let first = path_of(&directory.path().join("log"), 1);
    let second = path_of(&directory.path().join("log"), 2);
    let aside = directory.path().join("aside");
    fs::rename(&first, &aside).expect("is moved");
    // A directory is not removed as a file is.
    fs::create_dir(&first).expect("is made");
    for upto in [20, 30] {
        let upto = LogId::new_term_index(1, upto);
        log.purge(upto).await.expect("purges");
    }
    assert!(second.exists(), "without it there would be a gap");
    fs::remove_dir(&first).expect("is removed");
    fs::rename(&aside, &first).expect("is moved back");
    log.purge(LogId::new_term_index(1, 31))
        .await
        .expect("purges");
    assert!(!first.exists() && !second.exists(), "it is tried again");
    close(log).await;
    open(directory.path()).expect("opens");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_committed_before_it_was_written_here_is_not_asked_for_after_a_crash() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut log = open(directory.path()).expect("opens");
    let position = |index| LogId::new_term_index(1, index);
    let entries = (0..3).map(|index| Entry::new(position(index), EntryPayload::Blank));
    log.blocking_append(entries).await.expect("appends");
    // As when the others were faster, and the entries up to 5 still wait to be written.
    log.save_committed(Some(position(5))).await.expect("saves");
    log.flush().await.expect("flushes");
    close(log).await;
    let mut log = open(directory.path()).expect("opens");
    let committed = log.read_committed().await.expect("reads");
    assert_eq!(committed, Some(position(2)));
}
