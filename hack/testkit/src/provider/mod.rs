//! An OpenID provider on loopback: honest, or with one misdeed at a time.
//!
//! ```text
//!   GET  /.well-known/openid-configuration    discovery
//!   GET  /keys                                key set
//!   GET  /auth?..                             302 to the redirect, with code and state
//!   POST /token                               id token: code once, redirect, client, PKCE
//!   GET  /me                                  user info
//! ```
//!
//! A thread per connection, one request per connection. Everything ends with the process or with
//! the value.

mod answer;
mod http;
mod key;
mod private;

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use protocol_access::jwt::sign;
use serde_json::{Map, Value, json};

use self::http::Request;
use self::key::{Key, Kind};
use self::private::PrivateTls;

/// The client that the provider knows.
pub const CLIENT_ID: &str = "drover";
/// The secret of that client. Tests search all outputs for it.
pub const CLIENT_SECRET: &str = "planted client secret";

/// How long a connection without a request, or a stalled one, is kept.
const STALL_MAX: Duration = Duration::from_secs(60);

/// How a provider fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misdeed {
    /// It answers nothing and keeps the connection.
    Stalls,
    /// It sends one byte of its answer, and no more.
    Trickles,
    /// It points to another address, which would answer.
    Redirects,
    /// It ends before the length that it claimed.
    EndsEarly,
    /// It claims more than any client reads.
    ClaimsMuch,
    /// It sends more than any client reads, without a length.
    SendsMuch,
    /// It answers with status 500.
    Fails,
    /// It answers with something other than JSON.
    Babbles,
    /// Its document or token names another issuer.
    OtherIssuer,
    /// Its token is for another client.
    OtherAudience,
    /// Its token repeats another nonce.
    OtherNonce,
    /// Its token has no nonce.
    NoNonce,
    /// Its token is signed with a key that it does not publish.
    OtherKey,
    /// Its token is signed with the public key as an HMAC secret, or not at all.
    Unsigned,
    /// Its token is expired.
    Expired,
    /// Its user info is about another user.
    OtherSubject,
    /// Its document names an address of the link-local network.
    PointsInside,
}

/// See the top of this file.
#[derive(Debug)]
pub struct Provider {
    shared: Arc<Mutex<Shared>>,
    /// The certificate of its authority, PEM; empty over http.
    authority: String,
}

/// A user's way back from the provider.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SentBack {
    /// The code.
    pub code: String,
    /// The state, as it was sent.
    pub state: String,
    /// The issuer (RFC 9207).
    pub iss: String,
}

#[derive(Debug)]
struct Shared {
    scheme: &'static str,
    address: SocketAddr,
    key_kind: Kind,
    keys: Vec<Key>,
    /// Misdeeds by path.
    misdeeds: BTreeMap<&'static str, Misdeed>,
    /// Claims of the user beside those of the protocol.
    claims: Map<String, Value>,
    /// Codes that were given out.
    codes: BTreeMap<String, Granted>,
    /// Requests by path.
    requests: BTreeMap<String, usize>,
    numbers: u64,
}

#[derive(Clone, Debug)]
struct Granted {
    redirect_uri: String,
    nonce: String,
    challenge: Option<String>,
}

impl Provider {
    /// Starts one that behaves, over http, with an elliptic curve. Its user is `sub = "user-1"`,
    /// with `claims` beside.
    pub fn start(claims: Value) -> Self {
        Self::start_with(claims, Kind::P256, None)
    }

    /// The same over https, with a certificate of an authority that no other host knows, and with
    /// an RSA key.
    pub fn start_private(claims: Value) -> Self {
        Self::start_with(claims, Kind::Rsa2048, Some(PrivateTls::new()))
    }

    fn start_with(claims: Value, key_kind: Kind, tls: Option<PrivateTls>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let Value::Object(claims) = claims else {
            panic!("claims are an object");
        };
        let authority = tls.as_ref().map(|tls| tls.authority().to_owned());
        let shared = Arc::new(Mutex::new(Shared {
            scheme: tls.as_ref().map_or("http", |_| "https"),
            address,
            key_kind,
            keys: vec![Key::new("key-1".to_owned(), key_kind)],
            misdeeds: BTreeMap::new(),
            claims,
            codes: BTreeMap::new(),
            requests: BTreeMap::new(),
            numbers: 1,
        }));
        let served = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (shared, tls) = (Arc::clone(&served), tls.clone());
                let _ = stream.set_read_timeout(Some(STALL_MAX));
                let answer = move |ask: &Request| answer::to(&shared, ask);
                std::thread::spawn(move || match tls {
                    None => http::serve(stream, answer),
                    Some(tls) => http::serve(tls.over(stream), answer),
                });
            }
        });
        Self {
            shared,
            authority: authority.unwrap_or_default(),
        }
    }

    /// The certificate of its authority, PEM; empty over http.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The issuer, which is also the discovery address.
    pub fn issuer(&self) -> String {
        self.shared.lock().issuer()
    }

    /// The address of the key set.
    pub fn jwks_url(&self) -> String {
        format!("{}/keys", self.issuer())
    }

    /// From now on, `path` (such as `/token`) fails so.
    pub fn misbehave(&self, path: &'static str, misdeed: Misdeed) {
        self.shared.lock().misdeeds.insert(path, misdeed);
    }

    /// From now on, it is honest again.
    pub fn behave(&self) {
        self.shared.lock().misdeeds.clear();
    }

    /// Replaces the signing key by a new one with another name.
    pub fn change_keys(&self) {
        let mut shared = self.shared.lock();
        shared.numbers += 1;
        let id = format!("key-{}", shared.numbers);
        shared.keys = vec![Key::new(id, shared.key_kind)];
    }

    /// How many requests came for `path`.
    pub fn requests(&self, path: &str) -> usize {
        self.shared.lock().requests.get(path).copied().unwrap_or(0)
    }

    /// A token with these claims, signed with the current key.
    pub fn token(&self, claims: Value) -> String {
        let Value::Object(claims) = claims else {
            panic!("claims are an object");
        };
        let key = self.shared.lock().keys[0].signing();
        sign(&claims, &key).expect("a token")
    }

    /// Does what a browser and a user do at `auth_url`: log in, and be sent back.
    pub fn log_in(&self, auth_url: &str) -> SentBack {
        let ask = Request::get(
            auth_url
                .strip_prefix(&self.issuer())
                .expect("an address of it"),
        );
        let location = answer::log_in(&self.shared, &ask).expect("the user is sent back");
        let (_, query) = location.split_once('?').expect("parameters");
        let fields = http::fields(query);
        let field = |name: &str| fields.get(name).cloned().unwrap_or_default();
        SentBack {
            code: field("code"),
            state: field("state"),
            iss: field("iss"),
        }
    }
}

/// Seconds since the Unix epoch.
pub fn now_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

impl Shared {
    fn issuer(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    fn misdeed(&self, path: &str) -> Option<Misdeed> {
        self.misdeeds.get(path).copied()
    }

    fn key_set(&self) -> Value {
        let keys: Vec<Value> = self.keys.iter().map(Key::published).collect();
        json!({"keys": keys})
    }
}
