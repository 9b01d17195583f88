//! Messages that carry keys, tokens or values: their `Debug` shows none, so that no log line and no
//! panic does.

use std::fmt;

use crate::v1;

impl fmt::Debug for v1::KekReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { keks, refused } = self;
        f.debug_struct("KekReply")
            .field("keks", &keks.len())
            .field("refused", refused)
            .finish()
    }
}

impl fmt::Debug for v1::KekStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            server_id,
            term,
            kek: _,
            proof: _,
        } = self;
        f.debug_struct("KekStore")
            .field("server_id", server_id)
            .field("term", term)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for v1::LockRenewRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            namespace,
            path,
            lock_id: _,
        } = self;
        f.debug_struct("LockRenewRequest")
            .field("namespace", namespace)
            .field("path", path)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for v1::IdentityToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            jwt: _,
            issued_at,
            expires_at,
            root_key,
        } = self;
        f.debug_struct("IdentityToken")
            .field("issued_at", issued_at)
            .field("expires_at", expires_at)
            .field("root_key", root_key)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for v1::TemplateVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            namespace,
            path,
            json: _,
        } = self;
        f.debug_struct("TemplateVariable")
            .field("namespace", namespace)
            .field("path", path)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for v1::ApiHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value: _ } = self;
        f.debug_struct("ApiHeader")
            .field("name", name)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for v1::ApiBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { data, last } = self;
        f.debug_struct("ApiBody")
            .field("bytes", &data.len())
            .field("last", last)
            .finish()
    }
}

impl fmt::Debug for v1::ApiRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            alloc_id,
            task,
            peer_uid,
            method,
            target,
            headers,
            body,
            more,
        } = self;
        f.debug_struct("ApiRequest")
            .field("alloc_id", alloc_id)
            .field("task", task)
            .field("peer_uid", peer_uid)
            .field("method", method)
            .field("target", target)
            .field("headers", headers)
            .field("body_bytes", &body.len())
            .field("more", more)
            .finish()
    }
}

impl fmt::Debug for v1::AttachBulk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            node_id,
            secret: _,
            epoch,
        } = self;
        f.debug_struct("AttachBulk")
            .field("node_id", node_id)
            .field("epoch", epoch)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for v1::Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            node_id,
            secret: _,
            nonce,
            last_epoch,
            watermark,
            protocol_min,
            protocol_max,
            daemon_restarted,
            join_token: _,
            facts,
            boot_id,
        } = self;
        f.debug_struct("Hello")
            .field("node_id", node_id)
            .field("nonce", nonce)
            .field("last_epoch", last_epoch)
            .field("watermark", watermark)
            .field("protocol_min", protocol_min)
            .field("protocol_max", protocol_max)
            .field("daemon_restarted", daemon_restarted)
            .field("facts", facts)
            .field("boot_id", boot_id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_and_values_are_not_shown() {
        let secret = "planted-secret";
        let token = v1::IdentityToken {
            jwt: secret.to_owned(),
            ..Default::default()
        };
        let variable = v1::TemplateVariable {
            json: secret.into(),
            ..Default::default()
        };
        let header = v1::ApiHeader {
            name: "authorization".to_owned(),
            value: secret.into(),
        };
        let body = v1::ApiBody {
            data: secret.into(),
            last: true,
        };
        let request = v1::ApiRequest {
            headers: vec![header],
            body: secret.into(),
            ..Default::default()
        };
        let shown = format!("{token:?} {variable:?} {request:?} {body:?}");
        let bytes = format!("{:?}", bytes::Bytes::from(secret));
        assert!(!shown.contains(secret), "{shown}");
        assert!(!shown.contains(bytes.trim_matches('"')), "{shown}");
    }

    #[test]
    fn secrets_of_nodes_and_holders_are_not_shown() {
        let secret = "planted-secret";
        let hello = v1::Hello {
            secret: secret.into(),
            join_token: secret.to_owned(),
            ..Default::default()
        };
        let attach = v1::AttachBulk {
            secret: secret.into(),
            ..Default::default()
        };
        let renew = v1::LockRenewRequest {
            path: "app/leader".to_owned(),
            lock_id: secret.into(),
            ..Default::default()
        };
        let shown = format!("{hello:?} {attach:?} {renew:?}");
        assert!(shown.contains("app/leader"), "{shown}");
        assert!(!shown.contains(secret), "{shown}");
    }

    #[test]
    fn keys_are_not_shown() {
        let kek = bytes::Bytes::from(vec![b'k'; 32]);
        let reply = v1::KekReply {
            keks: vec![kek.clone()],
            refused: String::new(),
        };
        let store = v1::KekStore {
            server_id: 1,
            term: 2,
            kek,
            proof: bytes::Bytes::new(),
        };
        let shown = format!("{reply:?} {store:?}");
        assert!(!shown.contains("kkk") && !shown.contains("107"), "{shown}");
    }
}
