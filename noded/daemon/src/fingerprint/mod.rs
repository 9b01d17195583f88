//! What this host is and has, as facts for the scheduler, under the names that Nomad's users know.

pub(crate) use host::{device_of, disk, meminfo};

mod class;
mod cpu;
mod host;
pub(crate) mod last;
mod networks;
pub(crate) mod refresh;
pub(crate) mod runtime;

use std::path::Path;

use isolation::cgroup::Controller;
use isolation::enforcement::{CgroupMode, Enforcement, enforcement};
use noded_core::driver::Ability;
use protocol_model::{
    DriverInfo, HostVolume, IDENTITY_ATTRIBUTE, Node, NodeCpuResources, NodeDiskResources,
    NodeMemoryResources, NodeReservedResources, NodeResources, ReservedCpuResources,
    ReservedNetworkResources,
};

use crate::clock;
use crate::config::{Config, Switch};
use crate::file_io::Engine;
use crate::identity::NodeIdentity;
use crate::metadata::MetadataStore;
use crate::networks::Availability;

/// The release of Nomad whose API and job files we follow: jobs constrain on it.
const NOMAD_VERSION: &str = "1.10.0";
const MIB: u64 = 1024 * 1024;

/// Why this host cannot be a node.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Without cgroup v2 tasks cannot be tracked or killed.
    #[error("this host cannot run tasks: {0}")]
    NoCgroup(String),
    /// Sandboxes, cgroups and other users' processes need root.
    #[error("noded must run as root")]
    NotRoot,
}

/// What is known of the host.
#[derive(Debug)]
pub struct Fingerprint {
    /// The node as it describes itself.
    pub node: Node,
    /// What can be enforced.
    pub enforcement: Enforcement,
}

/// Looks at the host. Reads files and asks netlink; changes nothing.
///
/// # Errors
/// Where the host cannot run tasks at all.
pub fn fingerprint(
    config: &Config,
    identity: &NodeIdentity,
    engine: Engine,
    bridge: &Availability,
    metadata: &MetadataStore,
) -> Result<Fingerprint, HostError> {
    let enforcement = enforcement(&config.cgroup_base);
    if !enforcement.root {
        return Err(HostError::NotRoot);
    }
    if let CgroupMode::None { reason } = &enforcement.cgroup {
        return Err(HostError::NoCgroup(reason.clone()));
    }
    let mut node = Node::new(identity.id, &config.name, &config.datacenter);
    node.node_pool.clone_from(&config.node_pool);
    node.node_class.clone_from(&config.node_class);
    node.meta = metadata.merged(&config.meta);
    node.host_volumes = config
        .host_volumes
        .iter()
        .map(|(name, volume)| {
            let volume = HostVolume {
                name: name.clone(),
                path: volume.path.display().to_string(),
                read_only: volume.read_only,
            };
            (name.clone(), volume)
        })
        .collect();
    add_versions(&mut node, engine);
    add_processors(&mut node, config);
    add_memory_and_disk(&mut node, &config.data_dir);
    host::add_attributes(&mut node);
    networks::add(&mut node, &config.host_networks);
    host::add_bridge(&mut node, bridge);
    add_enforcement(&mut node, &enforcement);
    set(&mut node, "drover.task_pids_max", config.task_pids_max);
    set(&mut node, "drover.task_open_files", config.task_open_files);
    let full = runtime::is_full(&config.run_dir);
    set(&mut node, runtime::FULL, full);
    add_drivers(&mut node, config, &enforcement);
    node.node_resources.min_dynamic_port = config.dynamic_port_min;
    node.node_resources.max_dynamic_port = config.dynamic_port_max;
    node.reserved_resources = reserved(config);
    node.computed_class = class::of(&node);
    Ok(Fingerprint { node, enforcement })
}

/// What one core of this host counts as.
pub(crate) fn core_mhz() -> u64 {
    cpu::look().mhz
}

fn set(node: &mut Node, name: &str, value: impl std::fmt::Display) {
    node.attributes.insert(name.to_owned(), format!("{value}"));
}

fn add_versions(node: &mut Node, engine: Engine) {
    set(node, "nomad.version", NOMAD_VERSION);
    set(node, "drover.version", env!("CARGO_PKG_VERSION"));
    set(node, IDENTITY_ATTRIBUTE, true);
    set(node, "io_uring", engine == Engine::Ring);
}

fn add_processors(node: &mut Node, config: &Config) {
    let cpu = cpu::look();
    let mut reservable = cpu.usable.clone();
    if let Some(allowed) = &config.reservable_cores {
        reservable.retain(|core| allowed.contains(u32::from(*core)));
    }
    set(node, "cpu.arch", cpu.architecture);
    set(node, "cpu.numcores", cpu.cores);
    set(node, "cpu.reservablecores", reservable.len());
    set(node, "cpu.frequency", cpu.mhz);
    set(node, "cpu.totalcompute", cpu.total_mhz());
    set(node, "cpu.usablecompute", cpu.total_mhz());
    if let Some(model) = &cpu.model {
        set(node, "cpu.modelname", model);
    }
    let cores = u16::try_from(cpu.cores).unwrap_or(u16::MAX);
    node.node_resources.cpu = NodeCpuResources {
        cpu_shares: i64::try_from(cpu.total_mhz()).unwrap_or(i64::MAX),
        total_cpu_cores: cores,
        reservable_cpu_cores: reservable,
    };
}

fn add_memory_and_disk(node: &mut Node, data_dir: &Path) {
    let memory = host::memory_bytes();
    set(node, "memory.totalbytes", memory);
    let disk = host::disk(data_dir);
    set(node, "unique.storage.volume", host::device_of(data_dir));
    set(node, "unique.storage.bytestotal", disk.total);
    set(node, "unique.storage.bytesfree", disk.free);
    let mib = |bytes: u64| i64::try_from(bytes / MIB).unwrap_or(i64::MAX);
    let NodeResources {
        memory: memory_resource,
        disk: disk_resource,
        ..
    } = &mut node.node_resources;
    *memory_resource = NodeMemoryResources {
        memory_mb: mib(memory),
    };
    // What is free now is what allocations may have, as Nomad counts.
    *disk_resource = NodeDiskResources {
        disk_mb: mib(disk.free),
    };
}

fn add_enforcement(node: &mut Node, enforcement: &Enforcement) {
    set(node, "unique.cgroup.version", "v2");
    set(node, "os.cgroups.version", "2");
    let (mount, controllers) = match &enforcement.cgroup {
        CgroupMode::Full { mount, controllers }
        | CgroupMode::Hybrid {
            mount, controllers, ..
        } => (mount, controllers),
        CgroupMode::None { .. } => return,
    };
    set(node, "unique.cgroup.mountpoint", mount.display());
    set(node, "cgroup.mode", enforcement.cgroup.name());
    set(node, "cgroup.controllers", controllers);
    let missing = match &enforcement.cgroup {
        CgroupMode::Hybrid { missing, .. } => missing.to_string(),
        CgroupMode::Full { .. } | CgroupMode::None { .. } => String::new(),
    };
    let cores = match controllers.contains(Controller::Cpuset) {
        true => "pinned",
        false => "affinity",
    };
    set(node, "drover.cores", cores);
    set(node, "drover.limits.enforced", missing.is_empty());
    set(node, "cgroup.unenforced", missing);
    set(node, "drover.seccomp", enforcement.seccomp);
    set(node, "drover.landlock.abi", enforcement.landlock_abi);
    set(node, "drover.userns.max", enforcement.user_namespaces_max);
}

fn add_drivers(node: &mut Node, config: &Config, enforcement: &Enforcement) {
    let healthy = |description: &str| DriverInfo {
        attributes: [("driver".to_owned(), "true".to_owned())].into(),
        detected: true,
        healthy: true,
        health_description: description.to_owned(),
        update_time: None,
    };
    for (name, settings) in config.drivers.iter() {
        if settings.enabled == Switch::Off && !settings.has(Ability::Processes) {
            continue;
        }
        let info = if settings.enabled == Switch::Off {
            DriverInfo {
                health_description: "disabled".to_owned(),
                ..DriverInfo::default()
            }
        } else if let Some(lacks) = settings.driver.lacks(enforcement) {
            DriverInfo {
                detected: true,
                health_description: lacks.to_owned(),
                ..DriverInfo::default()
            }
        } else {
            set(node, &format!("driver.{name}"), 1);
            healthy("Healthy")
        };
        node.drivers.insert(name.to_owned(), info);
    }
    let now = clock::wall();
    for driver in node.drivers.values_mut() {
        driver.update_time = Some(now);
    }
}

fn reserved(config: &Config) -> NodeReservedResources {
    let reserved = &config.reserved;
    NodeReservedResources {
        cpu: ReservedCpuResources {
            cpu_shares: i64::from(reserved.cpu),
        },
        memory: NodeMemoryResources {
            memory_mb: i64::from(reserved.memory),
        },
        disk: NodeDiskResources {
            disk_mb: i64::from(reserved.disk),
        },
        networks: ReservedNetworkResources {
            reserved_host_ports: reserved.reserved_ports.clone(),
        },
    }
}

#[cfg(test)]
mod tests;
