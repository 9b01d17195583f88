//! The connections of the session: the one that carries it, and the one that stands by.

use noded_core::key::Attempt;

use crate::session::Link;

/// Those that were begun and did not end; the core has two at most.
#[derive(Debug, Default)]
pub(super) struct Links {
    links: Vec<(Link, String)>,
}

impl Links {
    /// Keeps an attempt that was begun, and where it leads.
    pub(super) fn begin(&mut self, link: Link, address: String) {
        self.links.push((link, address));
    }

    /// Ends an attempt. Returns where it led, if it went on.
    pub(super) fn end(&mut self, attempt: Attempt) -> Option<String> {
        let mut links = self.links.iter();
        let place = links.position(|(link, _)| link.attempt() == attempt)?;
        Some(self.links.remove(place).1)
    }

    /// Ends all.
    pub(super) fn end_all(&mut self) {
        self.links.clear();
    }

    /// The connection of an attempt that goes on.
    pub(super) fn of(&self, attempt: Attempt) -> Option<&Link> {
        self.find(attempt).map(|(link, _)| link)
    }

    /// Where it leads.
    pub(super) fn address_of(&self, attempt: Attempt) -> Option<&str> {
        self.find(attempt).map(|(_, address)| address.as_str())
    }

    fn find(&self, attempt: Attempt) -> Option<&(Link, String)> {
        self.links
            .iter()
            .find(|(link, _)| link.attempt() == attempt)
    }
}
