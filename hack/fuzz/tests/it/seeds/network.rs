//! Answers as a kernel (6.18) and nft (1.0.6) gave them.

/// `RTM_NEWLINK`, `RTM_NEWADDR` and `RTM_NEWROUTE` of a dump, its end, an acknowledgement and a
/// refusal; before each the sequence number.
pub(crate) fn netlink_answers() -> Vec<Vec<u8>> {
    let link = [
        64, 0, 0, 0, 16, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 67, 16, 1, 0, 0,
        0, 0, 0, 9, 0, 3, 0, b'e', b't', b'h', b'0', 0, 0, 0, 0, 8, 0, 4, 0, 220, 5, 0, 0, 10, 0,
        1, 0, 2, 66, 172, 17, 0, 2, 0, 0,
    ];
    let address = [
        40, 0, 0, 0, 20, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 24, 128, 0, 2, 0, 0, 0, 8, 0, 1, 0,
        10, 0, 0, 1, 8, 0, 2, 0, 10, 0, 0, 7,
    ];
    let route = [
        68, 0, 0, 0, 24, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0, 8,
        0, 15, 0, 254, 0, 0, 0, 8, 0, 6, 0, 100, 0, 0, 0, 8, 0, 7, 0, 10, 0, 0, 7, 8, 0, 5, 0, 10,
        0, 0, 1, 8, 0, 4, 0, 2, 0, 0, 0,
    ];
    let done = [20, 0, 0, 0, 3, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let acknowledgement = [
        36, 0, 0, 0, 2, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 16, 0, 5, 0, 1,
        0, 0, 0, 0, 0, 0, 0,
    ];
    let mut refusal = vec![
        52, 0, 0, 0, 2, 0, 0, 3, 1, 0, 0, 0, 0, 0, 0, 0, 237, 255, 255, 255, 32, 0, 0, 0, 16, 0, 5,
        0, 1, 0, 0, 0, 0, 0, 0, 0, 14, 0, 1, 0,
    ];
    refusal.extend(b"no device\0\0\0");
    let whole = [&link[..], &address, &route, &done].concat();
    let answers = [
        link.to_vec(),
        address.to_vec(),
        route.to_vec(),
        done.to_vec(),
        acknowledgement.to_vec(),
        refusal,
        whole,
    ];
    let numbered = |mut answer: Vec<u8>| {
        answer.insert(0, 1);
        answer
    };
    answers.map(numbered).into()
}

/// A table with mappings, a set, and chains of others.
pub(crate) fn nft_descriptions() -> Vec<Vec<u8>> {
    let table = r#"{"nftables": [{"metainfo": {"version": "1.0.6"}}, {"table": {"family": "inet", "name": "drover_1a2b", "handle": 1}}, {"map": {"family": "inet", "name": "any_tcp4", "table": "drover_1a2b", "type": "inet_service", "handle": 1, "map": "ipv4_addr . inet_service", "elem": [[8080, {"concat": ["172.26.64.5", 80]}]]}}, {"map": {"family": "inet", "name": "tcp4", "table": "drover_1a2b", "type": ["ipv4_addr", "inet_service"], "handle": 3, "map": "ipv4_addr . inet_service", "elem": [[{"concat": ["192.0.2.1", 8080]}, {"concat": ["172.26.64.5", 80]}]]}}]}"#;
    let set = r#"{"nftables": [{"set": {"family": "inet", "name": "subnet", "table": "drover_1a2b", "type": "ipv4_addr", "handle": 1, "flags": ["interval"], "elem": [{"prefix": {"addr": "172.26.64.0", "len": 20}}]}}]}"#;
    let chains = r#"{"nftables": [{"chain": {"family": "ip", "table": "filter", "name": "FORWARD", "handle": 1, "type": "filter", "hook": "forward", "prio": 0, "policy": "drop"}}, {"chain": {"family": "inet", "table": "drover_3c4d", "name": "ports", "handle": 6}}, {"rule": {"family": "ip", "table": "filter", "chain": "FORWARD", "handle": 2, "expr": [{"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "dv1a2b*"}}, {"accept": null}]}}]}"#;
    [table, set, chains].map(Vec::from).into()
}
