//! Network namespaces, links, addresses and routes, over synchronous netlink.
//!
//! # Entry points
//!
//! - [`list_links`], [`list_addresses`], [`list_routes`]: what the namespace of the calling thread
//!   has. [`default_route`] and [`default_interface`] are what a node reports about its network.
//! - [`create_loopback_only`]: a new namespace with nothing but a loopback that is up, for tasks
//!   of network mode `none`. Dropping the descriptor gives it back to the kernel; nothing in it is
//!   ever taken apart.
//! - [`pin`], [`open_pinned`] and [`unpin`] keep a namespace alive by a name in the file system,
//!   beyond the end of the process that made it.
//! - [`create_routed`]: a new namespace with an address of its own, routed by this host;
//!   [`Table`] maps ports of the host to it. [`Layout`] has the subnet and the names of both,
//!   [`obstacles`] the reasons why a host cannot have them.
//! - [`within`] runs a closure in a namespace, on a thread of its own; [`enter`] moves the calling
//!   thread for good.
//!
//! # Shape
//!
//! `request` is the only part that talks to the kernel. What came is collected by
//! `reply::Reply` and turned into [`Link`], [`Address`] and [`Route`] by pure functions, which
//! are tested with frozen bytes.
//!
//! # Limits
//!
//! A dump that the kernel marks as inconsistent is repeated, five times at most. Everything is
//! synchronous: replies come from the kernel, not from the network.

#[expect(unsafe_code, reason = "unshare(2) and ioctl(2) have no safe interface")]
mod sys;

mod addresses;
mod batch;
mod conntrack;
pub mod formats;
mod links;
mod namespace;
mod pin;
mod reply;
mod request;
mod routed;
mod routes;

pub use addresses::{Address, Scope, list_addresses};
pub use links::{Link, LinkState, list_links};
pub use namespace::{NamespaceError, create_loopback_only, current, enter, within};
pub use pin::{PinError, open_pinned, pin, unpin};
pub use request::NetlinkError;
pub use routed::{
    AddressPool, Chain, Forwarding, ForwardingError, Layout, LayoutError, Mapping, NftError,
    Obstacle, ObstaclesError, RoutedError, Table, TableError, create_routed, enable_forwarding,
    forget_flows, list_routed, obstacles,
};
pub use routes::{DefaultInterface, Family, Route, default_interface, default_route, list_routes};
