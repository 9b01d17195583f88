//! The declaration of an operation.

use protocol_access::need::Need;
use protocol_model::json;
use serde::de::DeserializeOwned;

/// An HTTP method of the API. A request by `POST` counts as `PUT`, one by `HEAD` as `GET`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Method {
    /// Reads.
    Get,
    /// Writes.
    Put,
    /// Deletes.
    Delete,
}

impl Method {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Get, Self::Put, Self::Delete];

    /// The name in a request line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// The place that has the answer. It decides which of the common parameters have an effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The replicated state: `?stale`, `?index` and `?wait` count.
    State,
    /// The leader, which writes it into the log.
    Log,
    /// The server that is asked, or each server for itself.
    Server,
    /// A node.
    Node,
}

/// The type of a query parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Any text.
    Text,
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Number,
    /// A Go duration: `1m30s`.
    Duration,
}

/// A query parameter of one operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Its effect, without a full stop.
    pub about: &'static str,
}

impl Parameter {
    /// A parameter that is any text.
    pub const fn text(name: &'static str, about: &'static str) -> Self {
        let kind = Kind::Text;
        Self { name, kind, about }
    }

    /// A flag: true or false.
    pub const fn flag(name: &'static str, about: &'static str) -> Self {
        let kind = Kind::Flag;
        Self { name, kind, about }
    }

    /// A number.
    pub const fn number(name: &'static str, about: &'static str) -> Self {
        let kind = Kind::Number;
        Self { name, kind, about }
    }
}

/// Reads the body of a request and drops it; the error says what is wrong with it.
pub type ReadBody = fn(&[u8]) -> Result<(), String>;

/// The content of a request.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    /// Nothing that is read.
    None,
    /// One JSON document.
    Json {
        /// The name of its type.
        name: &'static str,
        /// Whether a request without a body is one, too.
        optional: bool,
        /// The largest size in bytes, where it is below that of the server (`limits.body_bytes`).
        bytes_max: Option<usize>,
        /// Reads one as a server does.
        read: ReadBody,
    },
    /// Bytes of up to this number.
    Bytes {
        /// The largest size.
        bytes_max: usize,
    },
    /// Bytes of any number, which are not held in memory.
    Stream,
}

/// Whether this release does it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Support {
    /// It does.
    Built,
    /// It does not: 501, with this text.
    Absent(&'static str),
}

/// One operation of the API.
///
/// Made by [`Endpoint::get`] and its like, and by what narrows them; the name and the description
/// are those of the operation's type ([`crate::Operation`]).
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// The operation's name, unique.
    pub name: &'static str,
    about: &'static str,
    /// The methods; the first is the one that this project's clients use.
    pub methods: &'static [Method],
    /// The path: `/v1/job/{id...}/plan`. `{name}` is one segment, `{name...}` one or more,
    /// `{name*}` any number.
    pub path: &'static str,
    /// Its own query parameters.
    pub parameters: &'static [Parameter],
    /// The content of a request.
    pub body: Body,
    /// The name of the answer's type; empty where it is no JSON.
    pub answer: &'static str,
    /// The rights that a caller needs where access control is on.
    pub need: Need,
    /// Whether `?ws_handshake=true` brings the credential as the first message of the WebSocket.
    pub credential_in_handshake: bool,
    /// The place that has the answer.
    pub source: Source,
    /// Whether `?filter=` chooses from the list that is answered.
    pub filterable: bool,
    /// Whether it is refused where access control is off.
    pub needs_access_control: bool,
    /// Whether this release does it.
    pub support: Support,
    /// Reads the body where it is `null` or one.
    read_optional: ReadBody,
}

impl Endpoint {
    const fn new(
        methods: &'static [Method],
        path: &'static str,
        need: Need,
        source: Source,
    ) -> Self {
        Self {
            name: "",
            about: "",
            methods,
            path,
            parameters: &[],
            body: Body::None,
            answer: "",
            need,
            credential_in_handshake: false,
            source,
            filterable: false,
            needs_access_control: false,
            support: Support::Built,
            read_optional: read::<Option<()>>,
        }
    }

    /// A read of the replicated state.
    pub(crate) const fn get(path: &'static str, need: Need) -> Self {
        Self::new(&[Method::Get], path, need, Source::State)
    }

    /// A write.
    pub(crate) const fn put(path: &'static str, need: Need) -> Self {
        Self::new(&[Method::Put], path, need, Source::Log)
    }

    /// A removal.
    pub(crate) const fn delete(path: &'static str, need: Need) -> Self {
        Self::new(&[Method::Delete], path, need, Source::Log)
    }

    pub(crate) const fn named(mut self, name: &'static str, about: &'static str) -> Self {
        self.name = name;
        self.about = about;
        self
    }

    pub(crate) const fn answers(mut self, answer: &'static str) -> Self {
        self.answer = answer;
        self
    }

    /// A body of JSON.
    pub(crate) const fn json<T: DeserializeOwned>(mut self, name: &'static str) -> Self {
        self.body = Body::Json {
            name,
            optional: false,
            bytes_max: None,
            read: read::<T>,
        };
        self.read_optional = read::<Option<T>>;
        self
    }

    /// An operation of Nomad that this release lacks, by any method: `text` is the answer.
    pub(crate) const fn absent(name: &'static str, path: &'static str, text: &'static str) -> Self {
        let mut endpoint =
            Self::new(Method::ALL, path, Need::Token, Source::Server).named(name, text);
        endpoint.support = Support::Absent(text);
        endpoint
    }

    pub(crate) const fn methods(mut self, methods: &'static [Method]) -> Self {
        self.methods = methods;
        self
    }

    pub(crate) const fn parameters(mut self, parameters: &'static [Parameter]) -> Self {
        self.parameters = parameters;
        self
    }

    /// A question with a body: it is answered from the state.
    pub(crate) const fn of_state(mut self) -> Self {
        self.source = Source::State;
        self
    }

    pub(crate) const fn of_server(mut self) -> Self {
        self.source = Source::Server;
        self
    }

    pub(crate) const fn of_node(mut self) -> Self {
        self.source = Source::Node;
        self
    }

    pub(crate) const fn filterable(mut self) -> Self {
        self.filterable = true;
        self
    }

    pub(crate) const fn token_in_handshake(mut self) -> Self {
        self.credential_in_handshake = true;
        self
    }

    pub(crate) const fn needs_access_control(mut self) -> Self {
        self.needs_access_control = true;
        self
    }

    /// A body that is taken as it is.
    pub(crate) const fn bytes(mut self, bytes_max: usize) -> Self {
        self.body = Body::Bytes { bytes_max };
        self
    }

    pub(crate) const fn streamed(mut self) -> Self {
        self.body = Body::Stream;
        self
    }

    /// A request without a body, or with `null`, is one, too.
    pub(crate) const fn optional_body(mut self) -> Self {
        if let Body::Json {
            name, bytes_max, ..
        } = self.body
        {
            self.body = Body::Json {
                name,
                optional: true,
                bytes_max,
                read: self.read_optional,
            };
        }
        self
    }

    /// A body of at most so many bytes.
    pub(crate) const fn body_bytes_max(mut self, limit: usize) -> Self {
        if let Body::Json {
            name,
            optional,
            read,
            ..
        } = self.body
        {
            let bytes_max = Some(limit);
            self.body = Body::Json {
                name,
                optional,
                bytes_max,
                read,
            };
        }
        self
    }

    /// Its effect, without a full stop.
    pub fn about(&self) -> &'static str {
        self.about.trim()
    }

    /// Whether a request by `method` is one of this operation.
    pub fn takes(&self, method: Method) -> bool {
        self.methods.contains(&method)
    }
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<(), String> {
    json::from_slice::<T>(bytes)
        .map(drop)
        .map_err(|error| error.to_string())
}
