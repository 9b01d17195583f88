//! A namespace that plays the host, and what runs in it and in its allocations.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::thread;
use std::time::Duration;

use netns::{Layout, Mapping, Table, create_routed, within};

/// An address of the host beside its loopback (TEST-NET-1).
pub(super) const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
/// How long an answer may take. Everything is on this machine.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait for an answer that must not come.
const SHORT: Duration = Duration::from_millis(700);

pub(super) struct Host {
    pub(super) namespace: OwnedFd,
    pub(super) layout: Layout,
}

impl Host {
    /// A host that forwards, with the address [`OWN`] and the table of its layout. `None`, with a
    /// line that says so, where this cannot be tried.
    pub(super) fn new() -> Option<Self> {
        let host = Self::bare()?;
        host.write("/proc/sys/net/ipv4/ip_forward", "1");
        host.run(&["ip", "address", "add", &format!("{OWN}/32"), "dev", "lo"]);
        host.inside(|table| table.ensure()).expect("rules");
        Some(host)
    }

    /// A host as the kernel makes it.
    pub(super) fn bare() -> Option<Self> {
        let namespace = crate::fresh()?;
        if Command::new("nft").arg("--version").output().is_err() {
            eprintln!("skipped: needs nft");
            return None;
        }
        let subnet = "172.26.64.0/20".parse().expect("a network");
        let layout = Layout::new(subnet, 0x1a2b).expect("a layout");
        Some(Self { namespace, layout })
    }

    /// Does something with the table, as the host.
    pub(super) fn inside<T: Send>(&self, work: impl FnOnce(Table) -> T + Send) -> T {
        let table = Table::new(self.layout);
        within(&self.namespace, || work(table)).expect("entered")
    }

    /// Runs a command as the host. It must succeed.
    pub(super) fn run(&self, command: &[&str]) -> String {
        run_in(&self.namespace, command)
    }

    /// Writes a setting of the host's network.
    pub(super) fn write(&self, path: &str, value: &str) {
        write_in(&self.namespace, path, value);
    }

    /// An allocation with the address whose last byte this is.
    pub(super) fn allocation(&self, last: u8) -> Allocation {
        let address = Ipv4Addr::new(172, 26, 64, last);
        let made = within(&self.namespace, || create_routed(&self.layout, address));
        Allocation {
            namespace: made.expect("entered").expect("made"),
            address,
        }
    }

    /// Maps a port of every local address.
    pub(super) fn map(&self, port: u16, allocation: &Allocation, to: u16) -> Mapping {
        let mapping = Mapping {
            host: None,
            port,
            address: allocation.address,
            to,
        };
        self.inside(|table| table.add(&[mapping])).expect("mapped");
        mapping
    }
}

pub(super) struct Allocation {
    pub(super) namespace: OwnedFd,
    pub(super) address: Ipv4Addr,
}

/// Runs a command in a namespace. It must succeed.
pub(super) fn run_in(namespace: &OwnedFd, command: &[&str]) -> String {
    let [program, arguments @ ..] = command else {
        panic!("no command")
    };
    let output = within(namespace, || Command::new(program).args(arguments).output());
    let output = output.expect("entered").expect("started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// Writes a file of /proc/sys/net, which is the namespace's own.
pub(super) fn write_in(namespace: &OwnedFd, path: &str, value: &str) {
    within(namespace, || std::fs::write(path, value))
        .expect("entered")
        .expect("written");
}

/// Reads such a file.
pub(super) fn read_in(namespace: &OwnedFd, path: &str) -> String {
    let text = within(namespace, || std::fs::read_to_string(path));
    text.expect("entered").expect("read").trim().to_owned()
}

/// Serves TCP and UDP on every address of a namespace, for the rest of the test's process: each
/// client is told the name of the server and the address that it came from.
pub(super) fn serve(namespace: &OwnedFd, at: (Ipv4Addr, u16), name: &'static str) {
    let bound = within(namespace, || {
        Ok::<_, io::Error>((TcpListener::bind(at)?, UdpSocket::bind(at)?))
    });
    let (tcp, udp) = bound.expect("entered").expect("bound");
    let answer = move |peer: SocketAddr| format!("{name} {}", peer.ip());
    thread::spawn(move || {
        for stream in tcp.incoming() {
            let mut stream = stream.expect("accepted");
            let text = stream.peer_addr().map(answer).unwrap_or_default();
            // A client that is gone is the client's matter.
            let _gone = stream.write_all(text.as_bytes());
        }
    });
    thread::spawn(move || {
        let mut byte = [0];
        while let Ok((_, peer)) = udp.recv_from(&mut byte) {
            let _gone = udp.send_to(answer(peer).as_bytes(), peer);
        }
    });
}

/// The answer of a TCP server, asked from a namespace.
pub(super) fn ask(from: &OwnedFd, at: (Ipv4Addr, u16)) -> io::Result<String> {
    ask_within(from, at, PATIENCE)
}

/// As [`ask`], where no answer is expected.
pub(super) fn ask_in_vain(from: &OwnedFd, at: (Ipv4Addr, u16)) -> io::Error {
    let answer = ask_within(from, at, SHORT);
    answer.expect_err("no answer was expected")
}

fn ask_within(from: &OwnedFd, at: (Ipv4Addr, u16), limit: Duration) -> io::Result<String> {
    within(from, || {
        let mut stream = TcpStream::connect_timeout(&SocketAddr::from(at), limit)?;
        stream.set_read_timeout(Some(limit))?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    })
    .expect("entered")
}

/// The answer of a UDP server, asked from a namespace.
pub(super) fn ask_udp(from: &OwnedFd, at: (Ipv4Addr, u16)) -> io::Result<String> {
    within(from, || {
        let socket = UdpSocket::bind((IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.connect(SocketAddr::from(at))?;
        socket.send(&[0])?;
        let mut bytes = [0; 64];
        let length = socket.recv(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
    })
    .expect("entered")
}
