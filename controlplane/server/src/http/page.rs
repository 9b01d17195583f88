//! Lists in pages: `?per_page=N&next_token=T`, newest first with `?reverse=true`.

use std::cmp::Reverse;
use std::fmt;

use super::error::HttpError;
use super::query::Query;

/// What a list is ordered by, and what its tokens are.
pub(super) trait PageKey: Ord + fmt::Display {
    /// The key that a token names.
    fn parse(token: &str) -> Option<Self>
    where
        Self: Sized;
}

/// By the log index that made the object, then by its id.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct ByIndex(pub(super) u64, pub(super) uuid::Uuid);

impl fmt::Display for ByIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl PageKey for ByIndex {
    fn parse(token: &str) -> Option<Self> {
        let (index, id) = token.split_once('.')?;
        Some(Self(index.parse().ok()?, id.parse().ok()?))
    }
}

/// By a name that no other has: tokens are names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct ByPlainName(pub(super) String);

impl fmt::Display for ByPlainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl PageKey for ByPlainName {
    fn parse(token: &str) -> Option<Self> {
        Some(Self(token.to_owned()))
    }
}

/// By namespace, then by name. No namespace has a dot.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct ByName(pub(super) String, pub(super) String);

impl fmt::Display for ByName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl PageKey for ByName {
    fn parse(token: &str) -> Option<Self> {
        let (namespace, name) = token.split_once('.')?;
        Some(Self(namespace.to_owned(), name.to_owned()))
    }
}

/// By the index of the newest change, the newest first; `reverse` begins with the oldest.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct NewestFirst(
    pub(super) Reverse<u64>,
    pub(super) String,
    pub(super) String,
);

impl fmt::Display for NewestFirst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0.0, self.1, self.2)
    }
}

impl PageKey for NewestFirst {
    fn parse(token: &str) -> Option<Self> {
        let (index, name) = token.split_once('.')?;
        let (namespace, id) = name.split_once('.')?;
        let index = Reverse(index.parse().ok()?);
        Some(Self(index, namespace.to_owned(), id.to_owned()))
    }
}

/// One page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Page<T> {
    /// What is on it.
    pub(super) items: Vec<T>,
    /// Where the next one begins.
    pub(super) next_token: Option<String>,
}

/// Cuts the page out of `items` that `query` asks for; all of them where it asks for none. Only
/// items that `keep` accepts are counted; it is asked no more often than the page needs.
///
/// # Errors
/// Where a parameter makes no sense, or `keep` cannot answer.
pub(super) fn page_where<K: PageKey, T>(
    query: &Query,
    items: impl Iterator<Item = (K, T)>,
    keep: impl FnMut(&T) -> Result<bool, HttpError>,
) -> Result<Page<T>, HttpError> {
    let per_page: usize = query.number("per_page")?.unwrap_or(0);
    let newest_first = query.flag("reverse")?;
    let from: Option<K> = token(query)?;
    let mut items: Vec<(K, T)> = items
        .filter(|(key, _)| {
            from.as_ref().is_none_or(|from| {
                if newest_first {
                    key <= from
                } else {
                    key >= from
                }
            })
        })
        .collect();
    items.sort_by(|(left, _), (right, _)| left.cmp(right));
    if newest_first {
        items.reverse();
    }
    first_page(items, per_page, keep)
}

/// The same for items that are in order already: `items_from` answers them from the key on that the
/// token names, newest first where its second argument says so. No more are looked at than the page
/// needs.
///
/// # Errors
/// As [`page_where`].
pub(super) fn page_of_sorted<K: PageKey, T, I: Iterator<Item = (K, T)>>(
    query: &Query,
    items_from: impl FnOnce(Option<&K>, bool) -> I,
    keep: impl FnMut(&T) -> Result<bool, HttpError>,
) -> Result<Page<T>, HttpError> {
    let per_page: usize = query.number("per_page")?.unwrap_or(0);
    let newest_first = query.flag("reverse")?;
    let token = token(query)?;
    first_page(items_from(token.as_ref(), newest_first), per_page, keep)
}

/// The key that the request's token names.
fn token<K: PageKey>(query: &Query) -> Result<Option<K>, HttpError> {
    let Some(token) = query.text("next_token") else {
        return Ok(None);
    };
    let key = K::parse(token);
    key.map(Some)
        .ok_or_else(|| HttpError::bad_request(format!("invalid next_token {token:?}")))
}

fn first_page<K: PageKey, T>(
    items: impl IntoIterator<Item = (K, T)>,
    per_page: usize,
    mut keep: impl FnMut(&T) -> Result<bool, HttpError>,
) -> Result<Page<T>, HttpError> {
    let mut page = Page {
        items: Vec::new(),
        next_token: None,
    };
    for (key, item) in items {
        if !keep(&item)? {
            continue;
        }
        if per_page > 0 && page.items.len() == per_page {
            page.next_token = Some(key.to_string());
            break;
        }
        page.items.push(item);
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(query: &str) -> Result<Page<u8>, HttpError> {
        let items = [("b", 2), ("bb", 9), ("a", 1), ("c", 3), ("cc", 9), ("d", 4)];
        let items = items
            .into_iter()
            .map(|(name, item)| (ByName("ns".to_owned(), name.to_owned()), item));
        page_where(&Query::parse(query)?, items, |item| Ok(*item != 9))
    }

    #[test]
    fn pages_follow_each_other_by_token() -> Result<(), HttpError> {
        let first = names("per_page=3")?;
        assert_eq!(first.items, [1, 2, 3]);
        assert_eq!(first.next_token.as_deref(), Some("ns.d"));
        let second = names("per_page=3&next_token=ns.d")?;
        assert_eq!((second.items, second.next_token), (vec![4], None));
        assert_eq!(names("")?.items, [1, 2, 3, 4]);
        assert_eq!(
            names("reverse=true&next_token=ns.c&per_page=2")?.items,
            [3, 2]
        );
        Ok(())
    }

    #[test]
    fn a_token_that_is_none_is_refused() {
        names("next_token=x").expect_err("no key");
        assert!(ByIndex::parse("12.zz").is_none());
    }
}
