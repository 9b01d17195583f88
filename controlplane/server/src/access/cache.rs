//! A bounded cache that forgets values that were not used for long.

use std::collections::HashMap;
use std::hash::Hash;

/// At most `bound` values. It has two generations: the young one becomes the old one when it holds
/// half of the bound, and the old one is dropped then; a value that is used moves to the young one.
#[derive(Debug)]
pub(super) struct Cache<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    bound: usize,
}

impl<K: Eq + Hash + Clone, V: Clone> Cache<K, V> {
    pub(super) fn new(bound: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            bound,
        }
    }

    pub(super) fn find(&mut self, key: &K) -> Option<V> {
        if let Some(value) = self.young.get(key) {
            return Some(value.clone());
        }
        let value = self.old.remove(key)?;
        self.insert(key.clone(), value.clone());
        Some(value)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        self.young.insert(key, value);
        if self.young.len() * 2 > self.bound {
            self.old = std::mem::take(&mut self.young);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_is_bounded_and_keeps_the_values_in_use() {
        let mut cache = Cache::new(10);
        cache.insert(0, "used");
        for key in 1..1000 {
            cache.insert(key, "once");
            assert_eq!(cache.find(&0), Some("used"));
            assert!(cache.young.len() + cache.old.len() <= 11);
        }
        assert_eq!(cache.find(&1), None);
    }
}
