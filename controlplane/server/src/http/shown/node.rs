//! A node as `/v1/node/:id` shows it.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol_model::{Node, ShownDrivers};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::older::Resources;
use super::{object, set};

/// A node with every key that Nomad's clients read.
#[derive(Debug)]
pub(in crate::http) struct NodeShown(Arc<Node>);

impl NodeShown {
    pub(in crate::http) fn new(node: Arc<Node>) -> Self {
        Self(node)
    }
}

impl Serialize for NodeShown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let node = &*self.0;
        let mut shown = object(node)?;
        set(&mut shown, "Resources", &Resources::of_node(node))?;
        set(&mut shown, "Reserved", &Resources::reserved(node))?;
        set(&mut shown, "Drivers", &ShownDrivers(&node.drivers))?;
        set(&mut shown, "Meta", &node.meta)?;
        // The secret is never shown. A node serves no HTTP, so that its address is empty and
        // clients ask a server.
        set(&mut shown, "SecretID", "")?;
        set(&mut shown, "TLSEnabled", &false)?;
        // No plugins are part of this release.
        for name in ["DrainStrategy", "LastDrain", "HostNetworks"] {
            shown.entry(name).or_insert(Value::Null);
        }
        for name in ["Links", "CSIControllerPlugins", "CSINodePlugins"] {
            set(&mut shown, name, &BTreeMap::<String, ()>::new())?;
        }
        if let Some(resources) = shown.get_mut("NodeResources") {
            resources["Devices"] = Value::Null;
            if resources.get("NodeNetworks").is_none() {
                resources["NodeNetworks"] = Value::Null;
            }
        }
        if let Some(reserved) = shown.get_mut("ReservedResources") {
            reserved["Cpu"]["ReservedCpuCores"] = Value::Null;
        }
        let events = shown.get_mut("Events").and_then(Value::as_array_mut);
        for event in events.into_iter().flatten() {
            if event.get("Details").is_none() {
                event["Details"] = Value::Null;
            }
        }
        shown.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use protocol_model::{
        DriverInfo, HostNetwork, NodeEvent, NodeId, NodeNetworkAddress, NodeNetworkResource,
        UnixNanos,
    };
    use serde_json::json;

    use super::*;

    fn shown(node: Node) -> Value {
        serde_json::to_value(NodeShown::new(Arc::new(node))).expect("JSON")
    }

    #[test]
    fn a_node_shows_what_it_has_and_keeps_in_the_older_form_too() {
        let mut node = Node::new(NodeId::from_u128(7), "node-1", "dc1");
        node.node_resources.cpu.cpu_shares = 5000;
        node.node_resources.memory.memory_mb = 4096;
        node.node_resources.disk.disk_mb = 9000;
        node.reserved_resources.memory.memory_mb = 96;
        let shown = shown(node);
        assert_eq!(shown["Name"], "node-1");
        assert_eq!(shown["NodeResources"]["Cpu"]["CpuShares"], 5000);
        let older = |from: &Value| json!([from["CPU"], from["MemoryMB"], from["DiskMB"]]);
        assert_eq!(older(&shown["Resources"]), json!([5000, 4096, 9000]));
        assert_eq!(older(&shown["Reserved"]), json!([0, 96, 0]));
    }

    #[test]
    fn a_node_has_every_key_of_nomad_with_its_empty_value() {
        let mut node = Node::new(NodeId::from_u128(7), "node-1", "dc1");
        node.drivers
            .insert("exec".to_owned(), DriverInfo::default());
        node.events.push(NodeEvent::default());
        let shown = shown(node);
        let keys = shown.as_object().expect("an object");
        for (name, value) in [
            ("SecretID", json!("")),
            ("HTTPAddr", json!("")),
            ("TLSEnabled", json!(false)),
            ("Drain", json!(false)),
            ("DrainStrategy", json!(null)),
            ("LastDrain", json!(null)),
            ("Links", json!({})),
            ("Meta", json!({})),
            ("HostVolumes", json!(null)),
            ("HostNetworks", json!(null)),
            ("CSIControllerPlugins", json!({})),
            ("CSINodePlugins", json!({})),
        ] {
            assert_eq!(keys.get(name), Some(&value), "{name}");
        }
        let has = |value: &Value, name: &str| value.get(name) == Some(&Value::Null);
        assert!(has(&shown["Drivers"]["exec"], "UpdateTime"), "{shown}");
        assert!(has(&shown["Events"][0], "Details"), "{shown}");
        assert!(has(&shown["NodeResources"], "Devices"), "{shown}");
        assert!(has(&shown["NodeResources"], "NodeNetworks"), "{shown}");
        let cpu = &shown["ReservedResources"]["Cpu"];
        assert!(has(cpu, "ReservedCpuCores"), "{shown}");
    }

    #[test]
    fn host_networks_and_their_addresses_have_nomad_s_names() {
        let mut node = Node::new(NodeId::from_u128(7), "node-1", "dc1");
        let network = HostNetwork {
            name: "lan".to_owned(),
            cidr: "10.0.0.0/8".to_owned(),
            interface: String::new(),
            reserved_ports: "22".to_owned(),
        };
        node.host_networks.insert("lan".to_owned(), network);
        let address = NodeNetworkAddress {
            family: "ipv4".to_owned(),
            alias: "lan".to_owned(),
            address: "10.0.0.7".to_owned(),
            reserved_ports: "22".to_owned(),
            gateway: String::new(),
        };
        let interface = NodeNetworkResource {
            mode: "host".to_owned(),
            device: "eth0".to_owned(),
            addresses: vec![address],
            ..NodeNetworkResource::default()
        };
        node.node_resources.node_networks.push(interface);
        let shown = shown(node);
        let named = json!({"lan": {"Name": "lan", "CIDR": "10.0.0.0/8", "Interface": "",
            "ReservedPorts": "22"}});
        assert_eq!(shown["HostNetworks"], named);
        let interfaces = json!([{"Mode": "host", "Device": "eth0", "MacAddress": "", "Speed": 0,
            "Addresses": [{"Family": "ipv4", "Alias": "lan", "Address": "10.0.0.7",
                "ReservedPorts": "22", "Gateway": ""}]}]);
        assert_eq!(shown["NodeResources"]["NodeNetworks"], interfaces);
    }

    #[test]
    fn a_driver_shows_when_it_last_changed() {
        let mut node = Node::new(NodeId::from_u128(7), "node-1", "dc1");
        let info = DriverInfo {
            update_time: Some(UnixNanos(1_500_000_000)),
            ..DriverInfo::default()
        };
        node.drivers.insert("exec".to_owned(), info);
        let time = shown(node)["Drivers"]["exec"]["UpdateTime"].clone();
        assert_eq!(time, "1970-01-01T00:00:01.5Z");
    }
}
