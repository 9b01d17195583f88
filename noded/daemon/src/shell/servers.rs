//! Which servers there are. The core counts them and chooses by offset; the list is ours.

use noded_core::event::SessionEvent;

/// The servers of this moment. The configuration's stay reachable whatever a server says.
#[derive(Debug)]
pub(super) struct Servers {
    configured: Vec<String>,
    all: Vec<String>,
    /// Where the connection that ended last led.
    last: Option<String>,
}

impl Servers {
    pub(super) fn new(configured: Vec<String>) -> Self {
        Self {
            all: configured.clone(),
            configured,
            last: None,
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// The configuration was read again: what it does not name any more stays until a server says
    /// who the servers are.
    pub(super) fn reconfigure(&mut self, configured: &[String]) {
        self.configured = configured.to_vec();
        self.add_configured();
    }

    /// Takes in whom a message names, and tells the core how many there are now.
    pub(super) fn heard(&mut self, event: SessionEvent, named: Vec<String>) -> SessionEvent {
        if !named.is_empty() {
            self.all = named;
            self.add_configured();
        }
        let count = self.count();
        match event {
            SessionEvent::Welcome(mut welcome) => {
                welcome.servers = count;
                SessionEvent::Welcome(welcome)
            }
            SessionEvent::Refused(mut refused) => {
                refused.servers = count;
                SessionEvent::Refused(refused)
            }
            other => other,
        }
    }

    /// A connection to this server ended, or never came about.
    pub(super) fn left(&mut self, address: String) {
        self.last = Some(address);
    }

    /// The server at `offset`, or the one after it where that is the one that was left last. Where
    /// one is to be another than `apart_from`, that alone counts.
    ///
    /// The core counts offsets in a list that a welcome may have replaced by one in another order,
    /// so the next offset may be the server that has just fallen silent. Trying it again would cost
    /// the time of a handshake that nobody answers, and with it the node its tasks.
    pub(super) fn choose(&self, offset: usize, apart_from: Option<&str>) -> Option<String> {
        let mut chosen = self.all.get(offset)?;
        let avoided = apart_from.or(self.last.as_deref());
        if avoided == Some(chosen) {
            chosen = self.all.get((offset + 1) % self.all.len())?;
        }
        if apart_from == Some(chosen) {
            return None;
        }
        Some(chosen.clone())
    }

    fn add_configured(&mut self) {
        for server in &self.configured {
            if !self.all.contains(server) {
                self.all.push(server.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_that_was_left_last_is_not_the_next() {
        let next = |offset, last: Option<&str>| {
            let mut servers = Servers::new(["a", "b", "c"].map(str::to_owned).to_vec());
            last.into_iter()
                .for_each(|last| servers.left(last.to_owned()));
            servers.choose(offset, None)
        };
        assert_eq!(next(1, Some("a")).as_deref(), Some("b"));
        assert_eq!(next(1, Some("b")).as_deref(), Some("c"));
        assert_eq!(next(2, Some("c")).as_deref(), Some("a"));
        assert_eq!(next(3, None), None);
        // The only one there is.
        let mut only = Servers::new(vec!["a".to_owned()]);
        for _ in 0..2 {
            assert_eq!(only.choose(0, None).as_deref(), Some("a"));
            only.left("a".to_owned());
        }
    }

    #[test]
    fn the_server_to_stand_by_is_another_one_whichever_was_left_last() {
        let mut servers = Servers::new(["a", "b"].map(str::to_owned).to_vec());
        for _ in 0..2 {
            assert_eq!(servers.choose(1, Some("a")).as_deref(), Some("b"));
            assert_eq!(servers.choose(0, Some("a")).as_deref(), Some("b"));
            servers.left("b".to_owned());
        }
        let only = Servers::new(vec!["a".to_owned()]);
        assert_eq!(only.choose(0, Some("a")), None);
    }

    #[test]
    fn those_of_the_configuration_stay_whatever_a_server_says() {
        let mut servers = Servers::new(vec!["a".to_owned()]);
        let named = vec!["b".to_owned(), "c".to_owned()];
        servers.heard(SessionEvent::Connected, named);
        assert_eq!(servers.all, ["b", "c", "a"]);
        servers.reconfigure(&["d".to_owned()]);
        assert_eq!(servers.all, ["b", "c", "a", "d"]);
        servers.heard(SessionEvent::Connected, Vec::new());
        assert_eq!(servers.count(), 4);
    }
}
