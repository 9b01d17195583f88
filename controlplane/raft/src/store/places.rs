//! Where the entries of the log are on disk: a run of indexes, and the segments that hold them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::disk::{DiskFile, read_exact_at};

/// Where one encoded entry is. Its checksum stays in memory, so that what is read much later is
/// known to be what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) segment: u64,
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) crc: u32,
}

/// A file of the log.
#[derive(Debug)]
struct Segment {
    file: Arc<dyn DiskFile>,
    /// The highest index that was ever written to it.
    index_max: Option<u64>,
}

/// The entries on disk. They are a run without gaps: what is between the ends is there.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// The index of the first of `places`.
    first: u64,
    places: VecDeque<Place>,
    segments: BTreeMap<u64, Segment>,
}

impl Places {
    pub(super) fn add_segment(&mut self, number: u64, file: Arc<dyn DiskFile>) {
        let segment = Segment {
            file,
            index_max: None,
        };
        self.segments.insert(number, segment);
    }

    /// The index after the last; `None` = there is no entry.
    pub(super) fn next(&self) -> Option<u64> {
        let length = self.places.len() as u64;
        // A damaged file may have an entry with the last index that there is.
        (length > 0).then(|| self.first.saturating_add(length))
    }

    /// The index of the first entry; `None` = there is none.
    pub(super) fn first(&self) -> Option<u64> {
        (!self.places.is_empty()).then_some(self.first)
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Adds the entry after the last, as the writer and the reader made sure; the first may have
    /// any index.
    pub(super) fn push(&mut self, index: u64, place: Place) {
        debug_assert!(self.next().is_none_or(|next| next == index));
        if self.places.is_empty() {
            self.first = index;
        }
        self.places.push_back(place);
        if let Some(segment) = self.segments.get_mut(&place.segment) {
            segment.index_max = segment.index_max.max(Some(index));
        }
    }

    /// Forgets the entries from `first` on.
    pub(super) fn truncate(&mut self, first: u64) {
        let kept = first.saturating_sub(self.first);
        self.places
            .truncate(usize::try_from(kept).unwrap_or(usize::MAX));
    }

    /// Forgets the entries up to `upto`.
    pub(super) fn purge(&mut self, upto: u64) {
        let gone = (upto + 1).saturating_sub(self.first);
        let gone = usize::try_from(gone).unwrap_or(usize::MAX);
        self.places.drain(..gone.min(self.places.len()));
        self.first = self.first.max(upto + 1);
    }

    /// The oldest segment, if it is not the newest and no entry of it is needed when those up to
    /// `upto` are not.
    pub(super) fn unneeded(&self, upto: u64) -> Option<u64> {
        let (number, oldest) = self.segments.first_key_value()?;
        (oldest.index_max <= Some(upto) && self.segments.len() > 1).then_some(*number)
    }

    /// Forgets a segment whose file is gone.
    pub(super) fn remove_segment(&mut self, number: u64) {
        self.segments.remove(&number);
    }

    /// Finds the entries of `[start, end)`, in order, up to `bytes_max` but at least one.
    /// Says how many bytes they are; `bytes_max` or more where the cap was reached, so that nothing
    /// is added behind the gap.
    pub(super) fn find(&self, start: u64, end: u64, bytes_max: usize) -> (Vec<Found>, usize) {
        let mut found = Vec::new();
        let mut bytes = 0;
        let end = end.min(self.next().unwrap_or(0));
        for index in start.max(self.first)..end {
            let at = usize::try_from(index - self.first).unwrap_or(usize::MAX);
            let Some(place) = self.places.get(at) else {
                break;
            };
            let length = place.length as usize;
            if !found.is_empty() && bytes + length > bytes_max {
                return (found, bytes_max);
            }
            bytes += length;
            let Some(segment) = self.segments.get(&place.segment) else {
                break;
            };
            found.push(Found {
                index,
                place: *place,
                file: Arc::clone(&segment.file),
            });
        }
        (found, bytes)
    }
}

/// An entry that can be read, even once its file has lost its name.
#[derive(Debug)]
pub(super) struct Found {
    index: u64,
    place: Place,
    file: Arc<dyn DiskFile>,
}

impl Found {
    pub(super) fn index(&self) -> u64 {
        self.index
    }

    /// Reads the encoded entry. Blocking.
    pub(super) fn read(&self) -> io::Result<Bytes> {
        let mut bytes = vec![0; self.place.length as usize];
        read_exact_at(&*self.file, &mut bytes, self.place.offset)?;
        if crc32fast::hash(&bytes) != self.place.crc {
            let text = format!(
                "entry {} at offset {} of log segment {:016x} is damaged: look at the disk",
                self.index, self.place.offset, self.place.segment
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(segment: u64) -> Place {
        Place {
            segment,
            offset: 0,
            length: 10,
            crc: 0,
        }
    }

    fn places(entries: &[(u64, u64)]) -> Places {
        let mut places = Places::default();
        for (index, segment) in entries {
            if !places.segments.contains_key(segment) {
                let file = tempfile::tempfile().expect("a file");
                places.add_segment(*segment, Arc::new(file));
            }
            places.push(*index, place(*segment));
        }
        places
    }

    fn indexes(places: &Places, start: u64, end: u64, bytes_max: usize) -> (Vec<u64>, usize) {
        let (found, bytes) = places.find(start, end, bytes_max);
        (found.iter().map(|found| found.index).collect(), bytes)
    }

    #[test]
    fn what_is_between_the_ends_is_found() {
        let mut places = places(&[(5, 1), (6, 1), (7, 2), (8, 2)]);
        assert_eq!(indexes(&places, 0, 100, 1000), (vec![5, 6, 7, 8], 40));
        assert_eq!(indexes(&places, 6, 8, 1000), (vec![6, 7], 20));
        places.truncate(8);
        places.purge(5);
        assert_eq!(indexes(&places, 0, 100, 1000), (vec![6, 7], 20));
        assert_eq!((places.first(), places.next()), (Some(6), Some(8)));
    }

    #[test]
    fn the_cap_leaves_at_least_one() {
        let places = places(&[(5, 1), (6, 1), (7, 2)]);
        assert_eq!(indexes(&places, 5, 8, 20), (vec![5, 6], 20));
        assert_eq!(indexes(&places, 5, 8, 1), (vec![5], 1));
    }

    #[test]
    fn a_log_that_was_purged_beyond_its_end_goes_on_anywhere() {
        let mut places = places(&[(5, 1)]);
        places.purge(100);
        assert_eq!((places.first(), places.next()), (None, None));
        places.push(101, place(1));
        assert_eq!(indexes(&places, 0, 200, 1000), (vec![101], 10));
        places.truncate(0);
        assert_eq!(indexes(&places, 0, 200, 1000), (vec![], 0));
    }

    #[test]
    fn a_segment_goes_once_nothing_of_it_is_needed_and_never_the_newest() {
        let mut places = places(&[(5, 1), (6, 2), (7, 3)]);
        assert_eq!(places.unneeded(4), None);
        assert_eq!(places.unneeded(6), Some(1));
        assert_eq!(places.unneeded(6), Some(1), "it is still there");
        places.remove_segment(1);
        assert_eq!(places.unneeded(6), Some(2));
        places.remove_segment(2);
        assert_eq!(places.unneeded(100), None, "it is being written");
    }
}
