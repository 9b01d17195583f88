//! What servers and nodes share about QUIC: who a peer is, how a connection is made, and how
//! messages are cut out of streams.
//!
//! Every connection is mutually authenticated. A certificate names exactly one [`Role`] and
//! region in its DNS name (`server.<region>.drover`, `node.<region>.drover`,
//! `cli.<region>.drover`); the role decides which streams its holder may open.
//!
//! Entry points, from the outside in:
//!
//! - [`ca::CertificateAuthority`] makes a CA and issues certificates; [`files`] writes them
//!   (keys 0600, nothing overwritten).
//! - [`Identity`] is what one process presents: its chain, its key, the CA it trusts.
//! - [`tls`] turns an identity into configurations for QUIC and for HTTPS.
//! - [`Endpoint`] is the process's one UDP socket: [`Endpoint::listen`] yields authenticated
//!   [`Peer`]s, [`Endpoint::connect`] reaches a server, [`Endpoint::connect_early`] without a round
//!   trip where it has seen us before.
//! - [`door`] decides who is served next where more connect than can be served; a node tells its
//!   [`door::Wish`] with its first packet.
//! - [`Pool`] keeps one connection per server and opens streams on it.
//! - [`StreamKind`] is the first byte of every stream.
//! - [`Secret`] is a token that is not printed with the configuration that holds it.
//! - [`LineLimit`] bounds the log lines that peers and clients cause.
//! - [`take_short_turns`] is for the threads that packets wait for.
//! - [`frame`] is the pure codec (`u32 length | u8 kind | body`); [`FrameReader`] and
//!   [`FrameWriter`] put it on streams, with a size cap per use.
//!
//! ```text
//!   Endpoint --listen--> Listener --accept--> Peer { connection, identity }
//!      |                                         | accept_bi, StreamKind::read
//!      +----connect---- Pool --open(kind)-->  FrameWriter / FrameReader
//! ```
//!
//! Errors say whose fault they are: see [`Fault`].

pub mod ca;
pub mod door;
mod doorway;
mod endpoint;
mod fault;
pub mod files;
pub mod frame;
mod identity;
mod line_limit;
mod listener;
mod own_certificate;
mod pool;
mod role;
mod secret;
mod stream;
mod stream_kind;
#[expect(unsafe_code, reason = "sched_setattr(2) has no safe interface")]
mod sys;
pub mod tls;
mod turns;

pub use doorway::{Doorway, Place};
pub use endpoint::{
    AddressError, BindError, ConnectError, Dialed, Early, EarlyWords, Endpoint, EndpointConfig,
    Limits, RenewError, close_code, is_refusal,
};
pub use fault::Fault;
pub use identity::{Identity, IdentityError, PeerIdentity, PeerIdentityError};
pub use line_limit::LineLimit;
pub use listener::{Handshake, Listener, Peer};
pub use own_certificate::UnfitError;
pub use pool::{OpenError, Pool};
pub use role::{Region, RegionError, Role};
pub use secret::Secret;
pub use stream::{FrameReader, FrameWriter, ReadError, WriteError};
pub use stream_kind::{DETAIL_PRIORITY, StreamKind, StreamKindError, URGENT_PRIORITY};
pub use turns::take_short_turns;
