//! Reading the output of `nft -j list` (libnftables-json(5)). Pure. Objects and members that are
//! not asked for are passed over, so that a later nft may write more.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde_json::Value;

use super::mapping::{Element, Protocol};
use super::{Chain, Layout, Mapping};

/// The elements of the table's four maps, sorted.
///
/// # Errors
/// The text is no JSON of nft, or a map has an element that is no mapping; the string names it.
pub(crate) fn elements(layout: &Layout, text: &str) -> Result<Vec<Element>, String> {
    let table = layout.table();
    let mut found = Vec::new();
    for map in &objects(text, "map")? {
        if word(map, "family") != Some("inet") || word(map, "table") != Some(&table) {
            continue;
        }
        let (protocol, key) = match word(map, "name") {
            Some("any_tcp4") => (Protocol::Tcp, Key::Port),
            Some("any_udp4") => (Protocol::Udp, Key::Port),
            Some("tcp4") => (Protocol::Tcp, Key::AddressAndPort),
            Some("udp4") => (Protocol::Udp, Key::AddressAndPort),
            // A later release may have more maps.
            _ => continue,
        };
        // A map without elements has no `elem`.
        let elements = map.get("elem").and_then(Value::as_array);
        for element in elements.into_iter().flatten() {
            let mapping = mapping(element, key)
                .ok_or_else(|| format!("element {element} is no mapping of a port"))?;
            found.push(Element { protocol, mapping });
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The chains of all tables, as far as they matter here.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    inet_tables: BTreeSet<String>,
    /// With policy drop, in families that see IPv4.
    dropping: Vec<Chain>,
}

/// Reads `list chains`.
pub(crate) fn chains(text: &str) -> Result<Chains, String> {
    let mut chains = Chains::default();
    for chain in &objects(text, "chain")? {
        let named = |key| word(chain, key).map(str::to_owned);
        let (Some(family), Some(table), Some(name)) =
            (named("family"), named("table"), named("name"))
        else {
            return Err(format!("chain {chain} has no family, table or name"));
        };
        if family == "inet" {
            chains.inet_tables.insert(table.clone());
        }
        let is_ipv4 = matches!(family.as_str(), "ip" | "inet");
        let drops = word(chain, "hook") == Some("forward") && word(chain, "policy") == Some("drop");
        if is_ipv4 && drops {
            chains.dropping.push(Chain {
                family,
                table,
                name,
            });
        }
    }
    chains.dropping.sort_unstable();
    Ok(chains)
}

impl Chains {
    /// Names of tables of other nodes.
    pub(crate) fn other_tables(&self, layout: &Layout) -> Vec<String> {
        let others = self.inet_tables.iter().filter(|table| {
            **table != layout.table() && table.strip_prefix("drover_").is_some_and(is_tag)
        });
        others.cloned().collect()
    }

    /// Chains of other tables that drop what no rule accepts.
    pub(crate) fn dropping(&self, layout: &Layout) -> Vec<Chain> {
        let others = self
            .dropping
            .iter()
            .filter(|chain| chain.family != "inet" || chain.table != layout.table());
        others.cloned().collect()
    }
}

fn is_tag(text: &str) -> bool {
    text.len() == 4 && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// Reads `list set inet drover_1a2b subnet`. `None` where the set is empty.
pub(crate) fn subnet(text: &str) -> Result<Option<Ipv4Net>, String> {
    for set in &objects(text, "set")? {
        let elements = set.get("elem").and_then(Value::as_array);
        let Some(element) = elements.and_then(|elements| elements.first()) else {
            continue;
        };
        return match prefix(element) {
            Some(prefix) => Ok(Some(prefix)),
            None => Err(format!("element {element} is no network")),
        };
    }
    Ok(None)
}

/// `{"prefix": {"addr": "172.26.64.0", "len": 20}}`
fn prefix(value: &Value) -> Option<Ipv4Net> {
    let prefix = value.get("prefix")?;
    let length = u8::try_from(prefix.get("len")?.as_u64()?).ok()?;
    Ipv4Net::new(prefix.get("addr")?.as_str()?.parse().ok()?, length).ok()
}

/// Reads `list table`: whether a rule that accepts names links with this prefix.
pub(crate) fn has_rule_for(link_prefix: &str, text: &str) -> Result<bool, String> {
    let quoted = format!("\"{link_prefix}");
    let rules = objects(text, "rule")?;
    let texts = rules.iter().map(Value::to_string);
    Ok(texts
        .into_iter()
        .any(|rule| rule.contains(&quoted) && rule.contains("\"accept\"")))
}

/// The objects of one kind.
fn objects(text: &str, kind: &str) -> Result<Vec<Value>, String> {
    let mut document: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let Some(Value::Array(objects)) = document.get_mut("nftables").map(Value::take) else {
        return Err("no array `nftables`".to_owned());
    };
    let of_kind = |mut object: Value| object.get_mut(kind).map(Value::take);
    Ok(objects.into_iter().filter_map(of_kind).collect())
}

fn word<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get(key)?.as_str()
}

/// The key of a map.
#[derive(Clone, Copy)]
enum Key {
    Port,
    AddressAndPort,
}

/// `[key, target]`. Either may be wrapped as `{"elem": {"val": ...}}` where it has a comment.
fn mapping(element: &Value, key: Key) -> Option<Mapping> {
    let [from, target] = element.as_array()?.as_slice() else {
        return None;
    };
    let from = unwrapped(from);
    let (host, port) = match key {
        Key::Port => (None, port(from)?),
        Key::AddressAndPort => {
            let (host, port) = pair(from)?;
            (Some(host), port)
        }
    };
    let (address, to) = pair(unwrapped(target))?;
    Some(Mapping {
        host,
        port,
        address,
        to,
    })
}

fn unwrapped(value: &Value) -> &Value {
    value
        .get("elem")
        .and_then(|elem| elem.get("val"))
        .unwrap_or(value)
}

/// `{"concat": ["172.26.64.5", 80]}`
fn pair(value: &Value) -> Option<(Ipv4Addr, u16)> {
    let [address, port_inside] = value.get("concat")?.as_array()?.as_slice() else {
        return None;
    };
    Some((address.as_str()?.parse().ok()?, port(port_inside)?))
}

fn port(value: &Value) -> Option<u16> {
    u16::try_from(value.as_u64()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        let subnet = "172.26.64.0/20".parse().expect("a network");
        Layout::new(subnet, 0x1a2b).expect("a layout")
    }

    fn of_table(maps: &str) -> String {
        format!(r#"{{"nftables": [{{"metainfo": {{"version": "1.0.6"}}}}, {maps}]}}"#)
    }

    fn map(table: &str, name: &str, elements: &str) -> String {
        format!(
            r#"{{"map": {{"family": "inet", "name": "{name}", "table": "{table}", "elem": {elements}}}}}"#
        )
    }

    #[test]
    fn elements_of_all_maps_are_read_as_nft_1_0_6_writes_them() {
        let text = of_table(concat!(
            r#"{"table": {"family": "inet", "name": "drover_1a2b", "handle": 1}}, "#,
            r#"{"map": {"family": "inet", "name": "any_tcp4", "table": "drover_1a2b", "type": "inet_service", "handle": 1, "map": "ipv4_addr . inet_service", "elem": [[8080, {"concat": ["172.26.64.5", 80]}]]}}, "#,
            r#"{"map": {"family": "inet", "name": "any_udp4", "table": "drover_1a2b", "type": "inet_service", "handle": 2, "map": "ipv4_addr . inet_service"}}, "#,
            r#"{"map": {"family": "inet", "name": "tcp4", "table": "drover_1a2b", "type": ["ipv4_addr", "inet_service"], "handle": 3, "map": "ipv4_addr . inet_service", "elem": [[{"concat": ["192.0.2.1", 8080]}, {"concat": ["172.26.64.6", 81]}]]}}, "#,
            r#"{"chain": {"family": "inet", "table": "drover_1a2b", "name": "ports", "handle": 6}}"#,
        ));
        let mapping = |host: Option<[u8; 4]>, last, to| Mapping {
            host: host.map(Ipv4Addr::from),
            port: 8080,
            address: Ipv4Addr::new(172, 26, 64, last),
            to,
        };
        let expected =
            [mapping(None, 5, 80), mapping(Some([192, 0, 2, 1]), 6, 81)].map(|mapping| Element {
                protocol: Protocol::Tcp,
                mapping,
            });
        assert_eq!(elements(&layout(), &text), Ok(expected.to_vec()));
    }

    #[test]
    fn other_tables_and_unknown_maps_are_passed_over() {
        let elements_text = r#"[["anything"]]"#;
        let text = of_table(
            &[
                map("drover_3c4d", "any_tcp4", elements_text),
                map("drover_1a2b", "any_sctp4", elements_text),
            ]
            .join(", "),
        );
        assert_eq!(elements(&layout(), &text), Ok(vec![]));
    }

    #[test]
    fn an_element_with_a_comment_is_read() {
        let commented =
            r#"[[{"elem": {"val": 80, "comment": "mine"}}, {"concat": ["172.26.64.5", 80]}]]"#;
        let text = of_table(&map("drover_1a2b", "any_udp4", commented));
        assert_eq!(elements(&layout(), &text).map(|found| found.len()), Ok(1));
    }

    #[test]
    fn elements_that_are_no_mapping_are_named() {
        for element in [
            "8080",
            "[]",
            "[8080]",
            r#"[8080, "172.26.64.5"]"#,
            r#"[80800, {"concat": ["172.26.64.5", 80]}]"#,
            r#"[-1, {"concat": ["172.26.64.5", 80]}]"#,
            r#"[8080, {"concat": ["172.26.64.5", 80, 81]}]"#,
            r#"[8080, {"concat": ["fd00::1", 80]}]"#,
            r#"[{"range": [1, 2]}, {"concat": ["172.26.64.5", 80]}]"#,
        ] {
            let text = of_table(&map("drover_1a2b", "any_tcp4", &format!("[{element}]")));
            let error = elements(&layout(), &text).expect_err(element);
            assert!(error.ends_with("is no mapping of a port"), "{error}");
        }
    }

    #[test]
    fn texts_that_are_not_nfts_are_refused() {
        for text in ["", "{", "[]", "{}", r#"{"nftables": {}}"#] {
            assert!(elements(&layout(), text).is_err(), "{text}");
            assert!(chains(text).is_err(), "{text}");
            assert!(subnet(text).is_err(), "{text}");
            assert!(has_rule_for("dv1a2b", text).is_err(), "{text}");
        }
    }

    #[test]
    fn forward_chains_that_drop_are_found_in_other_tables() {
        let chain = |family: &str, table: &str, rest: &str| {
            format!(
                r#"{{"chain": {{"family": "{family}", "table": "{table}", "name": "F"{rest}}}}}"#
            )
        };
        let forward = |policy: &str| {
            format!(r#", "type": "filter", "hook": "forward", "prio": 0, "policy": "{policy}""#)
        };
        let text = of_table(
            &[
                chain("ip", "filter", &forward("drop")),
                chain("ip", "accepting", &forward("accept")),
                chain("ip", "input", r#", "hook": "input", "policy": "drop""#),
                chain("ip6", "filter", &forward("drop")),
                chain("bridge", "filter", &forward("drop")),
                chain("inet", "drover_1a2b", &forward("drop")),
                chain("inet", "drover_3c4d", &forward("accept")),
                chain("inet", "drover_old", ""),
                chain("inet", "firewalld", &forward("drop")),
            ]
            .join(", "),
        );
        let chains = chains(&text).expect("chains");
        let names: Vec<String> = chains
            .dropping(&layout())
            .iter()
            .map(Chain::to_string)
            .collect();
        assert_eq!(names, ["inet firewalld F", "ip filter F"]);
        assert_eq!(chains.other_tables(&layout()), ["drover_3c4d"]);
    }

    #[test]
    fn a_rule_that_accepts_our_links_is_recognized() {
        let rule = |links: &str, verdict: &str| {
            let text = format!(
                r#"{{"rule": {{"family": "ip", "chain": "F", "expr": [{{"match": {{"op": "==", "left": {{"meta": {{"key": "iifname"}}}}, "right": "{links}"}}}}, {{"{verdict}": null}}]}}}}"#
            );
            has_rule_for("dv1a2b", &of_table(&text))
        };
        assert_eq!(rule("dv1a2b*", "accept"), Ok(true));
        assert_eq!(rule("dv3c4d*", "accept"), Ok(false));
        assert_eq!(rule("dv1a2b*", "drop"), Ok(false));
    }

    #[test]
    fn subnet_of_a_table_is_read_back() {
        let set =
            |elements: &str| of_table(&format!(r#"{{"set": {{"name": "subnet"{elements}}}}}"#));
        let found = subnet(&set(
            r#", "elem": [{"prefix": {"addr": "172.26.64.0", "len": 20}}]"#,
        ));
        assert_eq!(found, Ok(Some(layout().subnet())));
        assert_eq!(subnet(&set("")), Ok(None));
        for elements in [
            r#", "elem": ["172.26.64.1"]"#,
            r#", "elem": [{"prefix": {"addr": "172.26.64.0", "len": 33}}]"#,
        ] {
            let refused = subnet(&set(elements));
            assert!(refused.is_err(), "{refused:?}");
        }
    }
}
