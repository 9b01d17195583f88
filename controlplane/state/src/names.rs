//! Names as small numbers: classes, datacenters and pools of ten thousand nodes are a handful of
//! texts, and the scheduler compares numbers.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

/// A name in [`Names`]. It means the same text as long as anything refers to it; two snapshots, or
/// two servers, may number differently, so that it must never leave the process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NameId(pub u32);

/// A persistent table of names with counted references.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    ids: OrdMap<Arc<str>, Entry>,
    texts: OrdMap<NameId, Arc<str>>,
    vacant: OrdSet<NameId>,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: NameId,
    references: u32,
}

impl Names {
    /// Refers to `text` once more.
    pub(crate) fn acquire(&mut self, text: &str) -> NameId {
        if let Some(entry) = self.ids.get_mut(text) {
            entry.references += 1;
            return entry.id;
        }
        let id = self.vacant.get_min().copied().unwrap_or(NameId(self.next));
        if self.vacant.remove(&id).is_none() {
            self.next += 1;
        }
        let text: Arc<str> = text.into();
        self.ids.insert(text.clone(), Entry { id, references: 1 });
        self.texts.insert(id, text);
        id
    }

    /// Refers to `id` once less; the last reference frees the number.
    pub(crate) fn release(&mut self, id: NameId) {
        let Some(text) = self.texts.get(&id).cloned() else {
            return;
        };
        let Some(entry) = self.ids.get_mut(&text) else {
            return;
        };
        entry.references -= 1;
        if entry.references == 0 {
            self.ids.remove(&text);
            self.texts.remove(&id);
            self.vacant.insert(id);
        }
    }

    /// The text of `id`; empty where nothing refers to it.
    pub(crate) fn text(&self, id: NameId) -> Arc<str> {
        self.texts
            .get(&id)
            .cloned()
            .unwrap_or_else(|| Arc::from(""))
    }

    /// The number of `text`, where something refers to it.
    pub(crate) fn id(&self, text: &str) -> Option<NameId> {
        self.ids.get(text).map(|entry| entry.id)
    }

    /// All texts with their numbers, in the order of the texts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, NameId)> + '_ {
        self.ids
            .iter()
            .map(|(text, entry)| (text.as_ref(), entry.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_free_again_when_nothing_refers_to_its_name() {
        let mut names = Names::default();
        let first = names.acquire("a");
        assert_eq!(names.acquire("a"), first);
        let second = names.acquire("b");
        assert_ne!(first, second);
        names.release(first);
        assert_eq!(names.id("a"), Some(first));
        names.release(first);
        assert_eq!(names.id("a"), None);
        assert_eq!(names.acquire("c"), first);
        assert_eq!(&*names.text(first), "c");
    }
}
