//! `/etc/hosts` and `/etc/resolv.conf` of tasks with a network or name servers of their own. Pure.

use std::fmt::Write as _;

use noded_core::effect::TaskNetwork;
use protocol_model::DnsConfig;

/// The most name servers that the C library asks (resolv.conf(5), MAXNS).
const SERVERS_MAX: usize = 3;

/// `/etc/hosts` of an allocation with an address of its own; `None` where it has none.
/// `host_name`: what the task takes for its host's name.
pub(crate) fn hosts(network: &TaskNetwork, host_name: &str) -> Option<String> {
    let status = network.status.as_ref()?;
    let mut text = String::from(
        "127.0.0.1 localhost\n\
         ::1 localhost ip6-localhost ip6-loopback\n\
         fe00::0 ip6-localnet\n\
         ff00::0 ip6-mcastprefix\n\
         ff02::1 ip6-allnodes\n\
         ff02::2 ip6-allrouters\n\
         # The allocation, whose tasks share this address.\n",
    );
    for address in [&status.address, &status.address_ipv6] {
        if !address.is_empty() {
            text.push_str(&format!("{address} {host_name}\n"));
        }
    }
    Some(text)
}

/// `/etc/resolv.conf` as the job's `dns` block has it; what it leaves out is the host's.
/// `host`: the host's own file.
pub(crate) fn resolv_conf(dns: &DnsConfig, host: &str) -> String {
    let of_host = |word: &str| -> Vec<String> {
        let lines = host.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some(word)).then(|| words.map(str::to_owned).collect::<Vec<_>>())
        });
        lines.flatten().collect()
    };
    let or = |own: &[String], word| match own {
        [] => of_host(word),
        own => own.to_vec(),
    };
    let mut text = String::new();
    for server in or(&dns.servers, "nameserver").iter().take(SERVERS_MAX) {
        let _infallible = writeln!(text, "nameserver {server}");
    }
    for (word, values) in [
        ("search", or(&dns.searches, "search")),
        ("options", or(&dns.options, "options")),
    ] {
        if !values.is_empty() {
            let _infallible = writeln!(text, "{word} {}", values.join(" "));
        }
    }
    text
}

/// The host's name servers as an allocation with an address of its own reaches them: of two files
/// the first whose servers are not all on the host's loopback.
pub(crate) fn reachable<'a>(files: &[&'a str]) -> Option<&'a str> {
    let leads_out = |text: &&&str| {
        let mut servers = text
            .lines()
            .filter_map(|line| line.strip_prefix("nameserver"));
        servers.any(|server| {
            let server = server.trim();
            !server.starts_with("127.") && server != "::1"
        })
    };
    files.iter().find(leads_out).copied()
}

#[cfg(test)]
mod tests {
    use protocol_model::NetworkStatus;

    use super::*;

    #[test]
    fn the_allocation_is_found_by_its_hosts_name() {
        let mut network = TaskNetwork::default();
        assert_eq!(hosts(&network, "web"), None);
        network.status = Some(NetworkStatus {
            interface_name: "eth0".to_owned(),
            address: "172.26.64.2".to_owned(),
            ..NetworkStatus::default()
        });
        let text = hosts(&network, "web").unwrap();
        assert!(text.starts_with("127.0.0.1 localhost\n"), "{text}");
        assert!(text.ends_with("\n172.26.64.2 web\n"), "{text}");
    }

    #[test]
    fn a_dns_block_replaces_only_what_it_names() {
        let host = "# c\nnameserver 192.0.2.1\nnameserver 192.0.2.2\nsearch a b\noptions edns0\n";
        let dns = DnsConfig {
            servers: vec!["192.0.2.53".to_owned()],
            searches: Vec::new(),
            options: vec!["ndots:2".to_owned()],
        };
        let expected = "nameserver 192.0.2.53\nsearch a b\noptions ndots:2\n";
        assert_eq!(resolv_conf(&dns, host), expected);
        let all_of_host = "nameserver 192.0.2.1\nnameserver 192.0.2.2\nsearch a b\noptions edns0\n";
        assert_eq!(resolv_conf(&DnsConfig::default(), host), all_of_host);
    }

    #[test]
    fn resolvers_on_the_hosts_loopback_are_none_for_a_network_of_its_own() {
        let (stub, real) = ("nameserver 127.0.0.53\n", "nameserver 192.0.2.1\n");
        assert_eq!(reachable(&[stub, real]), Some(real));
        assert_eq!(reachable(&[real, stub]), Some(real));
        assert_eq!(reachable(&[stub, "nameserver ::1\n"]), None);
    }
}
