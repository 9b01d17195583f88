//! A network namespace of our own for everything that is measured, whose loopback loses what it is
//! told to: links between servers are cut there, as by a switch that lost its mind.
//!
//! ```text
//!   bench --exec--> unshare --net --exec--> bench again --starts--> servers, nodes
//!                                             `- lo: from port A to port B? dropped without a word
//! ```
//!
//! What is started inherits the namespace, and it ends with its last process, however that
//! ends: nothing is left to clear away. A cut is eight instructions for the kernel's packet filter
//! (cls_bpf, with `tc` of iproute2), since nftables and netem are missing on many kernels of
//! clouds.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::Context;

use super::run;

/// Set for the process that runs in the namespace.
const VARIABLE: &str = "DROVER_BENCH_OWN_NET";

/// A network namespace that nobody else is in.
#[derive(Debug)]
pub struct OwnNet(());

impl OwnNet {
    /// Enters a new namespace: this program begins once more in it, as the same process, with the
    /// same arguments, so that it is to be called before anything else is done. `None` where this
    /// host cannot, which is said aloud.
    ///
    /// # Errors
    /// When it can and does not.
    pub fn enter() -> anyhow::Result<Option<Self>> {
        if std::env::var_os(VARIABLE).is_some() {
            return Self::prepare();
        }
        let works = |program: &str, arguments: &[&str]| {
            let mut probe = Command::new(program);
            let probe = probe.args(arguments).stdout(Stdio::null());
            let status = probe.stderr(Stdio::null()).status();
            status.is_ok_and(|status| status.success())
        };
        for (program, arguments, what) in [
            ("ip", &["-V"][..], "ip, of the package iproute2"),
            ("tc", &["-V"], "tc, of the package iproute2"),
            (
                "unshare",
                &["--net", "true"],
                "root, for a network namespace",
            ),
        ] {
            if !works(program, arguments) {
                eprintln!("skipped: needs {what}: links between servers are not cut");
                return Ok(None);
            }
        }
        let own = std::env::current_exe().context("find this program")?;
        let error = Command::new("unshare")
            .arg("--net")
            .arg(own)
            .args(std::env::args_os().skip(1))
            .env(VARIABLE, "1")
            .exec();
        Err(error).context("begin again in a network namespace")
    }

    fn prepare() -> anyhow::Result<Option<Self>> {
        run("ip", &["link", "set", "dev", "lo", "up"])?;
        let net = Self(());
        let able = run("tc", &["qdisc", "add", "dev", "lo", "clsact"])
            .and_then(|()| net.cut(&[]))
            .and_then(|()| net.cut(&[(1, 1)]))
            .and_then(|()| net.cut(&[]));
        if let Err(error) = able {
            eprintln!(
                "skipped: needs clsact and cls_bpf in the kernel: links between servers are not \
                 cut: {error:#}"
            );
            return Ok(None);
        }
        Ok(Some(net))
    }

    /// From now on UDP datagrams from the first port of a pair to the second one do not arrive;
    /// all others do, whatever was cut before.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn cut(&self, ways: &[(u16, u16)]) -> anyhow::Result<()> {
        run("tc", &["filter", "del", "dev", "lo", "ingress"])?;
        for (from, to) in ways {
            let rule = drop_rule(*from, *to);
            let filter = ["filter", "add", "dev", "lo", "ingress"];
            let program = ["bpf", "da", "bytecode", &rule];
            run("tc", &[&filter[..], &program].concat())?;
        }
        Ok(())
    }
}

/// A program of the packet filter that drops UDP over IPv4 from one port to another.
///
/// Operations are `code jump-if-true jump-if-false operand` (linux/bpf_common.h); fields are found
/// from the network header on (`SKF_NET_OFF`, linux/filter.h), which has no options here: RFC 791,
/// RFC 768.
fn drop_rule(from: u16, to: u16) -> String {
    const LOAD_BYTE: u32 = 0x30;
    const LOAD_HALF: u32 = 0x28;
    const JUMP_IF_EQUAL: u32 = 0x15;
    const RETURN: u32 = 0x06;
    const NETWORK_HEADER: u32 = 0xfff0_0000;
    const PROTOCOL_UDP: u32 = 17;
    /// TC_ACT_SHOT and TC_ACT_UNSPEC (linux/pkt_cls.h).
    const DROP: u32 = 2;
    const GO_ON: u32 = u32::MAX;
    let operations = [
        (LOAD_BYTE, 0, 0, NETWORK_HEADER + 9),
        (JUMP_IF_EQUAL, 0, 5, PROTOCOL_UDP),
        (LOAD_HALF, 0, 0, NETWORK_HEADER + 20),
        (JUMP_IF_EQUAL, 0, 3, u32::from(from)),
        (LOAD_HALF, 0, 0, NETWORK_HEADER + 22),
        (JUMP_IF_EQUAL, 0, 1, u32::from(to)),
        (RETURN, 0, 0, DROP),
        (RETURN, 0, 0, GO_ON),
    ];
    let words = operations.map(|(code, yes, no, operand)| format!("{code} {yes} {no} {operand}"));
    format!("{},{}", operations.len(), words.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel would answer for a packet: the filter's own machine, as far as it is used.
    fn answer(rule: &str, packet: &[u8]) -> u32 {
        let operations: Vec<Vec<u32>> = rule
            .split(',')
            .skip(1)
            .map(|words| words.split(' ').map(|it| it.parse().unwrap()).collect())
            .collect();
        let (mut at, mut loaded) = (0, 0);
        loop {
            let [code, yes, no, operand] = operations[at][..] else {
                panic!("{rule}");
            };
            let field = usize::try_from(operand & 0xfffff).unwrap();
            at += 1;
            match code {
                0x30 => loaded = u32::from(packet[field]),
                0x28 => loaded = u32::from(packet[field]) << 8 | u32::from(packet[field + 1]),
                0x15 if loaded == operand => at += usize::try_from(yes).unwrap(),
                0x15 => at += usize::try_from(no).unwrap(),
                0x06 => return operand,
                other => panic!("{other}"),
            }
        }
    }

    fn packet(protocol: u8, from: u16, to: u16) -> Vec<u8> {
        let mut packet = vec![0; 20];
        packet[9] = protocol;
        packet.extend(from.to_be_bytes());
        packet.extend(to.to_be_bytes());
        packet
    }

    #[test]
    fn only_what_goes_one_way_between_two_ports_is_dropped() {
        let rule = drop_rule(40_000, 50_000);
        assert!(rule.starts_with("8,48 0 0 "), "{rule}");
        let (dropped, passed) = (2, u32::MAX);
        for (protocol, from, to, expected) in [
            (17, 40_000, 50_000, dropped),
            (17, 50_000, 40_000, passed),
            (17, 40_000, 50_001, passed),
            (17, 40_001, 50_000, passed),
            (6, 40_000, 50_000, passed),
        ] {
            let answered = answer(&rule, &packet(protocol, from, to));
            assert_eq!(answered, expected, "{protocol} {from} {to}");
        }
    }
}
