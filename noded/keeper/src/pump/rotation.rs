//! Decides which file each byte of a stream belongs to. Pure: it sees bytes and sizes, never a
//! file.
//!
//! A file ends at the end of a line. Bytes are never held back to wait for that (they would be lost
//! with the process), so the rule is:
//!
//! ```text
//!   the bytes fit                                  -> this file
//!   a line ends where they still fit               -> up to there, then the next file
//!   a line begins here, and this file has others   -> the next file
//!   this file has the beginning of the line        -> to the end of the line, then the next file
//! ```
//!
//! The end of a line is looked for at most [`SCAN_BYTES_MAX`] beyond the limit. So a line of up to
//! that length is never torn, and only its end can make a file larger than its limit.

use std::num::{NonZeroU32, NonZeroU64};
use std::ops::RangeInclusive;

/// How far beyond the limit the end of a line is looked for, as Nomad's log rotator does.
pub const SCAN_BYTES_MAX: u64 = 32 * 1024;

/// Whether the newest file ends with a complete line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineState {
    AtStart,
    Within,
}

/// Where the next bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// So many bytes of the input go to the current file. 0 only together with [`Next::Rotate`].
    pub bytes: usize,
    pub next: Next,
}

/// What follows a placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The file stays.
    Stay,
    /// What follows goes to the next file.
    Rotate,
}

/// The state of one stream's newest file, and its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotation {
    max_files: NonZeroU32,
    max_file_size_bytes: NonZeroU64,
    index: u64,
    size_bytes: u64,
    line: LineState,
}

impl Rotation {
    /// Continues the file `index`, which has `size_bytes` bytes.
    #[must_use]
    pub fn new(
        max_files: NonZeroU32,
        max_file_size_bytes: NonZeroU64,
        index: u64,
        size_bytes: u64,
        line: LineState,
    ) -> Self {
        Self {
            max_files,
            max_file_size_bytes,
            index,
            size_bytes,
            line,
        }
    }

    /// Other limits, from the next decision on.
    pub fn set_limits(&mut self, max_files: NonZeroU32, max_file_size_bytes: NonZeroU64) {
        self.max_files = max_files;
        self.max_file_size_bytes = max_file_size_bytes;
    }

    /// The current file was found with this size and end (it was opened again).
    pub fn resume(&mut self, size_bytes: u64, line: LineState) {
        self.size_bytes = size_bytes;
        self.line = line;
    }

    /// Records that `bytes` were appended to the current file.
    pub fn on_written(&mut self, bytes: &[u8]) {
        if let Some(last) = bytes.last() {
            self.size_bytes += bytes.len() as u64;
            self.line = if *last == b'\n' {
                LineState::AtStart
            } else {
                LineState::Within
            };
        }
    }

    /// Moves to the next file; the answer is the numbers of the files that are now too many.
    pub fn on_rotated(&mut self) -> Option<RangeInclusive<u64>> {
        self.index += 1;
        self.size_bytes = 0;
        self.line = LineState::AtStart;
        self.surplus()
    }

    /// The numbers of files beyond `max_files`, whether they exist or not.
    #[must_use]
    pub fn surplus(&self) -> Option<RangeInclusive<u64>> {
        self.index
            .checked_sub(u64::from(self.max_files.get()))
            .map(|last| 0..=last)
    }

    /// Decides about a prefix of `input`; changes nothing, because a write may fail.
    #[must_use]
    pub fn place(&self, input: &[u8]) -> Placement {
        let limit = self.max_file_size_bytes.get();
        let room = to_length(limit.saturating_sub(self.size_bytes));
        if input.len() <= room {
            return Placement {
                bytes: input.len(),
                next: Next::Stay,
            };
        }
        if let Some(last_end) = input[..room].iter().rposition(|byte| *byte == b'\n') {
            return Placement {
                bytes: last_end + 1,
                next: Next::Rotate,
            };
        }
        if self.line == LineState::AtStart && self.size_bytes > 0 {
            return Placement {
                bytes: 0,
                next: Next::Rotate,
            };
        }
        let furthest = limit.saturating_add(SCAN_BYTES_MAX);
        let hard = to_length(furthest.saturating_sub(self.size_bytes));
        let scanned = &input[..input.len().min(hard)];
        match scanned[room..].iter().position(|byte| *byte == b'\n') {
            Some(end) => Placement {
                bytes: room + end + 1,
                next: Next::Rotate,
            },
            None if input.len() >= hard => Placement {
                bytes: hard,
                next: Next::Rotate,
            },
            None => Placement {
                bytes: input.len(),
                next: Next::Stay,
            },
        }
    }

    #[must_use]
    pub fn index(&self) -> u64 {
        self.index
    }

    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    #[must_use]
    pub fn line(&self) -> LineState {
        self.line
    }
}

/// Inputs are far smaller than `usize`; a larger room is as good as `usize::MAX`.
fn to_length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rotation(max_file_size_bytes: u64, max_files: u32) -> Rotation {
        Rotation::new(
            NonZeroU32::new(max_files).unwrap(),
            NonZeroU64::new(max_file_size_bytes).unwrap(),
            0,
            0,
            LineState::AtStart,
        )
    }

    /// The thin shell, with vectors for files.
    fn write(rotation: &mut Rotation, files: &mut Vec<Vec<u8>>, mut input: &[u8]) {
        while !input.is_empty() {
            let placement = rotation.place(input);
            let (now, later) = input.split_at(placement.bytes);
            files.last_mut().unwrap().extend_from_slice(now);
            rotation.on_written(now);
            assert_eq!(files.last().unwrap().len() as u64, rotation.size_bytes());
            if placement.next == Next::Rotate {
                rotation.on_rotated();
                files.push(Vec::new());
            } else {
                assert!(later.is_empty(), "what stays in the file was taken whole");
            }
            input = later;
        }
    }

    fn files_of(max_file_size_bytes: u64, chunks: &[&[u8]]) -> Vec<String> {
        let mut rotation = rotation(max_file_size_bytes, 100);
        let mut files = vec![Vec::new()];
        for chunk in chunks {
            write(&mut rotation, &mut files, chunk);
        }
        files
            .into_iter()
            .map(|file| String::from_utf8(file).unwrap())
            .collect()
    }

    #[test]
    fn a_file_ends_at_the_last_line_that_fits() {
        assert_eq!(files_of(8, &[b"aaa\nbbb\nccc\n"]), ["aaa\nbbb\n", "ccc\n"]);
        assert_eq!(files_of(9, &[b"aaa\nbbb\nccc\n"]), ["aaa\nbbb\n", "ccc\n"]);
    }

    #[test]
    fn a_line_that_begins_at_a_full_file_goes_to_the_next_one() {
        assert_eq!(files_of(8, &[b"aaa\n", b"bbbbb\n"]), ["aaa\n", "bbbbb\n"]);
        assert_eq!(files_of(4, &[b"aaa\n", b"b\n"]), ["aaa\n", "b\n"]);
    }

    #[test]
    fn a_line_that_has_begun_is_completed_beyond_the_limit() {
        assert_eq!(
            files_of(8, &[b"aaa\nbb", b"bbbb\ncc\n"]),
            ["aaa\nbbbbbb\n", "cc\n"]
        );
    }

    #[test]
    fn a_line_longer_than_a_file_is_kept_whole_up_to_the_scan_limit() {
        assert_eq!(files_of(4, &[b"aaaaaaaa\nb\n"]), ["aaaaaaaa\n", "b\n"]);
        let endless = vec![b'x'; 100 * 1024];
        let files = files_of(1024, &[&endless]);
        assert_eq!(files[0].len(), 1024 + 32 * 1024);
    }

    #[test]
    fn files_beyond_the_number_allowed_are_surplus() {
        let mut rotation = rotation(4, 3);
        assert_eq!(rotation.surplus(), None);
        assert_eq!(rotation.on_rotated(), None);
        assert_eq!(rotation.on_rotated(), None);
        assert_eq!(rotation.on_rotated(), Some(0..=0));
        assert_eq!(rotation.on_rotated(), Some(0..=1));
    }

    fn lines() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let line = (0_usize..200, any::<bool>()).prop_map(|(length, long)| {
            let length = if long { length * 40 } else { length };
            let mut line = vec![b'x'; length];
            line.push(b'\n');
            line
        });
        proptest::collection::vec(line, 0..60)
    }

    proptest! {
        #[test]
        fn files_together_are_the_input_and_no_line_is_torn(
            lines in lines(),
            cuts in proptest::collection::vec(1_usize..5000, 1..50),
            limit in 1_u64..20_000,
        ) {
            let input = lines.concat();
            let mut rotation = rotation(limit, 1000);
            let mut files = vec![Vec::new()];
            let mut rest = &input[..];
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break; }
                let (chunk, later) = rest.split_at((*cut).min(rest.len()));
                write(&mut rotation, &mut files, chunk);
                rest = later;
            }
            prop_assert_eq!(files.concat(), input);
            for file in &files {
                prop_assert!(file.is_empty() || file.ends_with(b"\n"));
                prop_assert!(file.len() as u64 <= limit + SCAN_BYTES_MAX);
                // Larger than the limit only by the end of its last line.
                let from_end = file.iter().rev().skip(1);
                let last_line = from_end.take_while(|b| **b != b'\n').count() as u64;
                prop_assert!(file.len() as u64 <= limit.max(last_line + 1) + last_line);
            }
        }

        #[test]
        fn a_rotation_made_anew_from_the_newest_file_goes_on_alike(
            lines in lines(),
            split in 0_usize..100_000,
            limit in 1_u64..5_000,
        ) {
            let input = lines.concat();
            let (before, after) = input.split_at(split.min(input.len()));
            let (mut one, mut one_files) = (rotation(limit, 1000), vec![Vec::new()]);
            write(&mut one, &mut one_files, before);
            let newest = one_files.last().unwrap();
            let at_start = newest.last().is_none_or(|b| *b == b'\n');
            let line = if at_start { LineState::AtStart } else { LineState::Within };
            let size = newest.len() as u64;
            let limits = (one.max_files, one.max_file_size_bytes);
            let mut two = Rotation::new(limits.0, limits.1, one.index(), size, line);
            prop_assert_eq!(&one, &two);
            let mut two_files = one_files.clone();
            write(&mut one, &mut one_files, after);
            write(&mut two, &mut two_files, after);
            prop_assert_eq!(one_files, two_files);
        }
    }
}
