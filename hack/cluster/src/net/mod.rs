//! A network of our own: a namespace for each member, all joined by a hub that forwards. What a
//! test cuts is dropped there without a word, as by a switch that lost its mind; the members' own
//! links stay up.
//!
//! ```text
//!   member 0 -- eth0 ---- m0 \
//!   member 1 -- eth0 ---- m1 -- hub: forwards, or drops by rule, or loses every n-th
//!   member 2 -- eth0 ---- m2 /
//! ```
//!
//! It is made with `ip` and `tc`, whose package (iproute2) every Debian has. Random loss is four
//! instructions for the kernel's packet filter, since netem is missing on many kernels of clouds.

mod own;
mod relay;

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

pub use own::OwnNet;
pub(crate) use relay::Relay;

/// Where `ip netns` keeps names.
const NAMES: &str = "/run/netns";
/// How names of ours begin; the process that made them follows.
const PREFIX: &str = "drover-e2e-";

/// The way between members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Whatever a member says or is told.
    All(usize),
    /// Between two of them, in both directions.
    Between(usize, usize),
}

/// Members that reach each other unless told otherwise. Dropping it removes the namespaces, and
/// with them whatever links were in them.
#[derive(Debug)]
pub struct Net {
    name: String,
    /// The namespaces of the members.
    members: Vec<OwnedFd>,
}

impl Net {
    /// Makes a network of `members`; `None` where this host cannot, which is said aloud.
    ///
    /// # Errors
    /// When it can and does not.
    pub fn make(members: usize) -> anyhow::Result<Option<Self>> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root: namespaces of a network");
            return Ok(None);
        }
        if Command::new("ip").arg("-V").output().is_err() {
            eprintln!("skipped: needs ip, of the package iproute2");
            return Ok(None);
        }
        remove_of_the_dead();
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let mut net = Self {
            name: format!("{PREFIX}{}-{number}", std::process::id()),
            members: Vec::new(),
        };
        net.add_namespace("hub")?;
        let hub = open(&net.namespace("hub"))?;
        inside(&hub, || {
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")
        })??;
        for member in 0..members {
            net.add_member(member)?;
        }
        Ok(Some(net))
    }

    /// A member's address.
    pub fn address(&self, member: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, u8::try_from(member).unwrap_or(u8::MAX), 2)
    }

    /// From now on nothing passes there.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn cut(&self, way: Way) -> anyhow::Result<()> {
        self.rules("add", way)
    }

    /// Everything passes again that [`Self::cut`] stopped.
    ///
    /// # Errors
    /// When it was not cut.
    pub fn heal(&self, way: Way) -> anyhow::Result<()> {
        self.rules("del", way)
    }

    /// From now on three of ten packets to or from a member are lost, each by chance, and what it
    /// says passes at a megabit a second. Answers whether this kernel can do that; where it cannot,
    /// that is said aloud.
    ///
    /// # Errors
    /// When what it can do fails.
    pub fn slow_down(&self, member: usize) -> anyhow::Result<bool> {
        let device = format!("m{member}");
        // ld rand; jge #0.3 * 2^32, over; ret TC_ACT_SHOT; over: ret TC_ACT_UNSPEC.
        let lose = "4,32 0 0 4294963256,53 1 0 1288490189,6 0 0 2,6 0 0 4294967295";
        let hub = self.namespace("hub");
        let tc = |arguments: &[&str]| {
            let mut all = vec!["-n", &hub, "qdisc", "add", "dev", &device];
            all.extend(arguments);
            run("tc", &all)
        };
        let able = tc(&["clsact"]).and_then(|()| {
            tc(&[
                "root", "tbf", "rate", "1mbit", "burst", "10kb", "latency", "100ms",
            ])
        });
        if let Err(error) = able {
            eprintln!("skipped: needs clsact and tbf in the kernel: {error:#}");
            return Ok(false);
        }
        for direction in ["ingress", "egress"] {
            let filter = ["-n", &hub, "filter", "add", "dev", &device, direction];
            let filter = [&filter[..], &["bpf", "da", "bytecode", lose]].concat();
            if let Err(error) = run("tc", &filter) {
                eprintln!("skipped: needs cls_bpf in the kernel: {error:#}");
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A member is as fast as ever again.
    ///
    /// # Errors
    /// When it was not slow.
    pub fn speed_up(&self, member: usize) -> anyhow::Result<()> {
        let (device, hub) = (format!("m{member}"), self.namespace("hub"));
        for what in ["root", "clsact"] {
            run("tc", &["-n", &hub, "qdisc", "del", "dev", &device, what])?;
        }
        Ok(())
    }

    /// Does something in a member's namespace; what it starts stays there.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
    pub fn inside<T: Send>(
        &self,
        member: usize,
        what: impl FnOnce() -> T + Send,
    ) -> anyhow::Result<T> {
        inside(&self.members[member], what)
    }

    /// A member's namespace.
    pub(crate) fn member(&self, member: usize) -> anyhow::Result<OwnedFd> {
        Ok(self.members[member].try_clone()?)
    }

    fn namespace(&self, of: &str) -> String {
        format!("{}-{of}", self.name)
    }

    fn add_namespace(&self, of: &str) -> anyhow::Result<()> {
        run("ip", &["netns", "add", &self.namespace(of)])
    }

    fn add_member(&mut self, member: usize) -> anyhow::Result<()> {
        let (device, of) = (format!("m{member}"), format!("m{member}"));
        self.add_namespace(&of)?;
        let (hub, own) = (self.namespace("hub"), self.namespace(&of));
        let (gateway, address) = (format!("10.77.{member}.1"), self.address(member));
        let hub_side = format!(
            "link add name {device} type veth peer name eth0 netns {own}\n\
             addr add {gateway}/24 dev {device}\nlink set dev {device} up\n"
        );
        batch(&hub, &hub_side)?;
        let own_side = format!(
            "link set dev lo up\naddr add {address}/24 dev eth0\nlink set dev eth0 up\n\
             route add default via {gateway}\n"
        );
        batch(&own, &own_side)?;
        self.members.push(open(&own)?);
        Ok(())
    }

    fn rules(&self, verb: &str, way: Way) -> anyhow::Result<()> {
        let rules = match way {
            Way::All(member) => {
                let address = self.address(member);
                [format!("from {address}"), format!("to {address}")]
            }
            Way::Between(one, other) => {
                let (one, other) = (self.address(one), self.address(other));
                [
                    format!("from {one} to {other}"),
                    format!("from {other} to {one}"),
                ]
            }
        };
        let lines = rules.map(|rule| format!("rule {verb} {rule} blackhole\n"));
        batch(&self.namespace("hub"), &lines.concat())
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        remove(|name| name.starts_with(&format!("{}-", self.name)));
    }
}

/// Runs `what` in a namespace, on a thread of its own: a thread that fails to come back from there
/// is none that anybody uses again.
pub(crate) fn inside<T: Send>(
    namespace: &OwnedFd,
    what: impl FnOnce() -> T + Send,
) -> anyhow::Result<T> {
    std::thread::scope(|scope| {
        let entered = scope.spawn(|| {
            move_into_link_name_space(
                std::os::fd::AsFd::as_fd(namespace),
                Some(LinkNameSpaceType::Network),
            )?;
            Ok(what())
        });
        entered
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn open(name: &str) -> anyhow::Result<OwnedFd> {
    let path = Path::new(NAMES).join(name);
    let file = File::open(&path).with_context(|| path.display().to_string())?;
    Ok(file.into())
}

/// Namespaces of test processes that were killed before they could remove them.
fn remove_of_the_dead() {
    remove(|name| {
        let process = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next());
        process.is_some_and(|process| !Path::new("/proc").join(process).exists())
    });
}

fn remove(ours: impl Fn(&str) -> bool) {
    for entry in std::fs::read_dir(NAMES).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if ours(&name)
            && let Err(error) = run("ip", &["netns", "del", &name])
        {
            // There is nobody to tell, and the next test goes on with names of its own.
            eprintln!("{error:#}");
        }
    }
}

/// Lines for `ip`, in a namespace.
fn batch(namespace: &str, lines: &str) -> anyhow::Result<()> {
    for line in lines.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        run("ip", &[&["-n", namespace], words.as_slice()].concat())?;
    }
    Ok(())
}

fn run(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let output = Command::new(program).args(arguments).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{program} {}: {}",
        arguments.join(" "),
        said.trim()
    );
    Ok(())
}
