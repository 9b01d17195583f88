//! Names and numbers of capabilities: both cross between servers.

use std::fmt::Write as _;

use protocol_access::{
    Capability, CapabilitySet, HostVolumeCapability, Level, LevelRule, NamespaceCapabilities,
    NamespaceCapability, NodePoolCapability, OperatorCapability, PluginCapability,
    SentinelCapability, VariableCapability,
};

/// One line per capability: family, number, name, and what it brings along.
fn rows<C: Capability>(family: &str, text: &mut String) {
    for capability in C::ALL {
        let name = capability.name();
        assert_eq!(C::parse(name), Some(*capability));
        assert_eq!(C::from_id(capability.id()), Some(*capability));
        let _ = write!(text, "{family} {} {name}", capability.id());
        let alone = CapabilitySet::from([*capability].as_slice());
        for implied in alone.effective().iter().filter(|other| other != capability) {
            let _ = write!(text, " +{}", implied.name());
        }
        text.push('\n');
    }
    for (word, _) in C::LEVELS {
        let set = CapabilitySet::<C>::of_level(word).expect("a level of its own family");
        let names: Vec<_> = set.iter().map(C::name).collect();
        let _ = writeln!(text, "{family} policy {word} = {}", names.join(" "));
    }
}

#[test]
fn capability_numbers_names_and_levels_are_frozen() {
    let mut text = String::new();
    rows::<NamespaceCapability>("namespace", &mut text);
    rows::<VariableCapability>("variable", &mut text);
    rows::<NodePoolCapability>("node_pool", &mut text);
    rows::<HostVolumeCapability>("host_volume", &mut text);
    rows::<OperatorCapability>("operator", &mut text);
    rows::<PluginCapability>("plugin", &mut text);
    rows::<SentinelCapability>("sentinel", &mut text);
    for level in Level::ALL {
        assert_eq!(Level::from_id(level.id()), Some(*level));
        let _ = writeln!(text, "level {} {}", level.id(), level.name());
    }
    crate::assert_golden("capabilities.txt", &text);
}

#[test]
fn namespace_has_forty_five_capabilities() {
    assert_eq!(NamespaceCapability::ALL.len(), 45);
}

#[test]
fn implied_capabilities_are_closed() {
    fn check<C: Capability>() {
        for (capability, _) in C::IMPLIED {
            let once = CapabilitySet::from([*capability].as_slice()).effective();
            assert_eq!(once.effective(), once, "{capability:?}");
        }
    }
    check::<NamespaceCapability>();
    check::<VariableCapability>();
}

#[test]
fn deny_leaves_nothing_but_itself() {
    let deny = NamespaceCapabilities::of_level("deny").expect("a level");
    let write = NamespaceCapabilities::of_level("write").expect("a level");
    assert_eq!(write.union(deny).effective(), deny);
    assert_eq!(NamespaceCapabilities::of_level("list"), None);
}

#[test]
fn unknown_bits_of_a_set_are_dropped() {
    let bits = (1 << 63) | (1 << NamespaceCapability::ReadJob.id());
    let set = NamespaceCapabilities::from_bits(bits);
    assert_eq!(set, [NamespaceCapability::ReadJob].as_slice().into());
}

#[test]
fn deny_is_above_write_and_write_above_read() {
    let [read, write, deny] = ["read", "write", "deny"].map(LevelRule::parse);
    assert!(read < write && write < deny);
    assert_eq!(LevelRule::parse("list"), None);
    assert!(LevelRule::Allow(Level::Write).allows(Level::Read));
    assert!(!LevelRule::Allow(Level::Read).allows(Level::Write));
    assert!(!LevelRule::Deny.allows(Level::Read));
}
