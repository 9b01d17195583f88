//! Network namespaces of allocations, one of each, shared by its tasks and pinned in the runtime
//! directory: a restarted noded finds them there.
//!
//! ```text
//!   mode none:    namespace with a loopback, made by the first task that starts
//!   mode bridge:  namespace with an address of the node's subnet, made before the first task is
//!                 prepared; ports of the host are mapped to it
//! ```
//!
//! The pins are the truth. Links and routes of a bridge network end with its namespace; elements of
//! the node's table are compared with the pins when noded starts.

mod bridge;
mod heal;
pub(crate) mod names;
mod open;
mod ports;

use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use netns::{ForwardingError, NamespaceError, NetlinkError, PinError, RoutedError, TableError};
use noded_core::AllocSpec;
use parking_lot::Mutex;
use protocol_model::{AllocId, NetworkStatus};

pub(crate) use bridge::Bridge;
pub(crate) use heal::look_after;
pub use open::Availability;
pub(crate) use open::{layout, open};

/// Why an allocation has no network namespace.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The directory for pins could not be made or read.
    #[error("the directory of networks {}", .path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// None could be made, or looked into.
    #[error("making a network namespace")]
    Create(#[source] NamespaceError),
    /// It could not be kept, or found.
    #[error("keeping a network namespace")]
    Pin(#[source] PinError),
    /// The node has no bridge networks.
    #[error("this node has no network mode bridge: {reason}")]
    NoBridge {
        /// Why not, and what to do.
        reason: String,
    },
    /// Every address of the subnet is in use.
    #[error(
        "no address of {subnet} is free; give the node a larger ipv4_subnet in its network block"
    )]
    NoAddress {
        /// The subnet.
        subnet: String,
    },
    /// A port is on an address that networks of mode bridge do not map.
    #[error(
        "port {label:?} is on {host_ip} of its host network, and networks of mode bridge have IPv4 \
         alone; use another host_network, or mode host"
    )]
    Family {
        /// The port's label.
        label: String,
        /// The address.
        host_ip: String,
    },
    /// Another allocation of this node still has the port.
    #[error("port {port} is still mapped to allocation {owner}")]
    PortTaken {
        /// The port of the host.
        port: u16,
        /// Whose it is.
        owner: AllocId,
    },
    /// A namespace with an address could not be made.
    #[error("making a network with an address")]
    Routed(#[source] RoutedError),
    /// The node's links could not be looked at.
    #[error("looking at the links of allocations")]
    Links(#[source] NetlinkError),
    /// The node's table.
    #[error("the table of mapped ports")]
    Table(#[source] TableError),
    /// The host does not forward.
    #[error("IP forwarding")]
    Forwarding(#[source] ForwardingError),
    /// The network of an allocation is gone.
    #[error("the network of the allocation is gone")]
    Gone,
}

/// The pinned namespaces below a runtime directory.
#[derive(Debug)]
pub struct Networks {
    directory: PathBuf,
    /// Two tasks of an allocation may start at once, and must not make two.
    making: Mutex<()>,
    bridge: Option<Bridge>,
}

impl Networks {
    /// The namespaces below `run_dir`. Without `bridge` no allocation gets an address of its own.
    pub(crate) fn below(run_dir: &Path, bridge: Option<Bridge>) -> Self {
        Self {
            directory: run_dir.join("networks"),
            making: Mutex::new(()),
            bridge,
        }
    }

    /// The namespace of an allocation without a network, made by its first task. Blocks.
    ///
    /// # Errors
    /// Where none can be made or kept.
    pub fn without_network(&self, alloc: AllocId) -> Result<OwnedFd, NetworkError> {
        let _making = self.making.lock();
        let path = self.path(alloc);
        if let Some(pinned) = netns::open_pinned(&path).map_err(NetworkError::Pin)? {
            return Ok(pinned);
        }
        self.make_directory()?;
        let network = netns::create_loopback_only().map_err(NetworkError::Create)?;
        netns::pin(&path, &network).map_err(NetworkError::Pin)?;
        Ok(network)
    }

    /// Makes the bridge network of an allocation, or finds the one that it has. Blocks.
    ///
    /// # Errors
    /// The node has no such mode, no address or port is free, or the kernel refused. Nothing of it
    /// is left then.
    pub(crate) fn prepare(&self, spec: &AllocSpec) -> Result<NetworkStatus, NetworkError> {
        let Some(bridge) = &self.bridge else {
            let reason = "it is off".to_owned();
            return Err(NetworkError::NoBridge { reason });
        };
        self.make_directory()?;
        bridge.prepare(spec, &self.path(spec.id()))
    }

    /// The bridge network that an allocation's preparation made.
    ///
    /// # Errors
    /// It is not there, or cannot be opened.
    pub(crate) fn prepared(&self, alloc: AllocId) -> Result<OwnedFd, NetworkError> {
        let pinned = netns::open_pinned(&self.path(alloc)).map_err(NetworkError::Pin)?;
        pinned.ok_or(NetworkError::Gone)
    }

    /// Lets the namespace of an allocation go; the kernel ends it with the last process in it. One
    /// that is not there is gone already. Blocks.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn release(&self, alloc: AllocId) -> Result<(), NetworkError> {
        if let Some(bridge) = &self.bridge {
            bridge.release(alloc)?;
        }
        netns::unpin(&self.path(alloc)).map_err(NetworkError::Pin)
    }

    /// Takes up the networks of an earlier noded: those of `allocs` stay, with exactly their
    /// ports where their specifications are known; all others go. Blocks.
    pub(crate) fn take_up<'a>(
        &self,
        allocs: impl Iterator<Item = (AllocId, Option<&'a AllocSpec>)>,
    ) {
        if let Some(bridge) = &self.bridge {
            bridge.take_up(allocs, &self.directory);
        }
    }

    /// Makes the table of mapped ports again where another program removed or changed it. Blocks.
    ///
    /// # Errors
    /// nft is missing or refused.
    pub(crate) fn heal(&self) -> Result<(), NetworkError> {
        self.bridge.as_ref().map_or(Ok(()), Bridge::heal)
    }

    /// Whether allocations can have an address of their own.
    pub(crate) fn availability(&self) -> Availability {
        match &self.bridge {
            Some(bridge) => bridge.availability().clone(),
            None => Availability::Missing("it is off".to_owned()),
        }
    }

    /// Lets all of them go, with the tables of ports that name them; returns what did not. No task
    /// is left in any. Blocks.
    pub fn release_all(&self) -> Vec<NetworkError> {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten();
        let mut failed = Vec::new();
        for entry in entries.flatten() {
            if let Err(error) = netns::unpin(&entry.path()) {
                failed.push(NetworkError::Pin(error));
            }
        }
        // Not empty where something failed, and not there where there was none.
        let _ = std::fs::remove_dir(&self.directory);
        failed
    }

    fn make_directory(&self) -> Result<(), NetworkError> {
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory);
        made.map_err(|source| NetworkError::Directory {
            path: self.directory.clone(),
            source,
        })
    }

    fn path(&self, alloc: AllocId) -> PathBuf {
        self.directory.join(alloc.to_string())
    }
}
