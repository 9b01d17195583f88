//! Bridge networks without a bridge: each allocation has a namespace with one address, the host
//! routes that address over a pair of links, and one nftables table maps ports to it.
//!
//! - [`Layout`] has the subnet and every name, [`AddressPool`] the addresses in use.
//! - [`create_routed`] makes a namespace; `plan` has its netlink requests as data. Dropping the
//!   last descriptor (and pin) of a namespace removes its links, routes and neighbours.
//! - [`Table`] is the nftables table; `rules` has its text, `listing` reads it back.
//! - [`forget_flows`] ends UDP flows that a changed mapping does not reach.
//! - [`obstacles`] says why a host cannot have all this, or why it may not work.
//!
//! Other tables, links and routes of the host are never changed. IPv4 only.

mod create;
mod flows;
mod forwarding;
mod layout;
pub(crate) mod listing;
mod mapping;
mod nft;
mod obstacles;
mod plan;
mod pool;
mod rules;
mod survey;
mod table;

pub use create::{RoutedError, create_routed, list_routed};
pub use flows::forget_flows;
pub use forwarding::{Forwarding, ForwardingError, enable_forwarding};
pub use layout::{Layout, LayoutError};
pub use mapping::Mapping;
pub use nft::NftError;
pub use obstacles::{Chain, Obstacle};
pub use pool::AddressPool;
pub use survey::{ObstaclesError, obstacles};
pub use table::{Table, TableError};
