//! Whole documents: the rights that each gives, frozen, and equal in HCL and JSON.

use std::fmt::Write as _;
use std::path::PathBuf;

use protocol_access::{
    Acl, Capability, HostVolumeCapability, Level, NamespaceCapability, NodePoolCapability,
    OperatorCapability, PluginCapability, Policy, SentinelCapability, VariableCapability,
};

const NAMESPACES: &[&str] = &[
    "default", "dev", "prod", "prod-web", "api-prod", "secret", "team-a",
];
const PATHS: &[&str] = &["nomad/jobs/web", "other", "web/db", "web/db/password"];
const POOLS: &[&str] = &["default", "edge-1", "gpu", "gpu_a100"];
const VOLUMES: &[&str] = &["certs", "db-1", "other"];

/// One line per object of which there are rights.
pub(crate) fn answers(acl: &Acl) -> String {
    let mut text = String::new();
    for namespace in NAMESPACES.iter().copied().chain(["*"]) {
        line(&mut text, &format!("namespace {namespace}"), |c| {
            acl.namespace(namespace, c)
        });
        for path in PATHS {
            line::<VariableCapability>(&mut text, &format!("variable {path}@{namespace}"), |c| {
                namespace != "*" && acl.variable(namespace, path, c)
            });
        }
        let some = (acl.namespace_some(namespace), acl.variables_some(namespace));
        let _ = writeln!(
            text,
            "some of {namespace}: {}, variables {}",
            some.0, some.1
        );
    }
    for pool in POOLS {
        line::<NodePoolCapability>(&mut text, &format!("node_pool {pool}"), |c| {
            acl.node_pool(pool, c)
        });
    }
    for volume in VOLUMES {
        line::<HostVolumeCapability>(&mut text, &format!("host_volume {volume}"), |c| {
            acl.host_volume(volume, c)
        });
    }
    line::<OperatorCapability>(&mut text, "operator", |c| acl.operator(c));
    line::<PluginCapability>(&mut text, "plugin", |c| acl.plugin(c));
    line::<SentinelCapability>(&mut text, "sentinel", |c| acl.sentinel(c));
    for level in [Level::Read, Level::Write] {
        let _ = writeln!(
            text,
            "{}: agent {}, node {}, quota {}, operator {}",
            level.name(),
            acl.agent(level),
            acl.node(level),
            acl.quota(level),
            acl.operator_level(level)
        );
    }
    text
}

fn line<C: Capability>(text: &mut String, object: &str, allows: impl Fn(C) -> bool) {
    let asked = C::ALL.iter().filter(|capability| **capability != C::DENY);
    let allowed: Vec<_> = asked.filter(|c| allows(**c)).map(|c| c.name()).collect();
    if !allowed.is_empty() {
        let _ = writeln!(text, "{object}: {}", allowed.join(" "));
    }
}

/// The policies of the folder: name, HCL, JSON.
#[expect(clippy::disallowed_methods, reason = "a test reads its documents")]
pub(crate) fn documents() -> Vec<(String, String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/policies");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect(name);
    let names = std::fs::read_dir(&folder).expect("the folder of policies");
    let mut names: Vec<_> = names
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".hcl").map(str::to_owned))
        .collect();
    names.sort();
    let twins = names.into_iter().map(|name| {
        let hcl = read(&format!("{name}.hcl"));
        let json = read(&format!("{name}.json"));
        (name, hcl, json)
    });
    twins.collect()
}

fn compiled(name: &str, text: &str) -> (Acl, Acl) {
    let strict = Policy::parse(text).unwrap_or_else(|errors| panic!("{name}: {errors}"));
    let lenient = Policy::parse_leniently(text).expect("no stricter than the strict one");
    (Acl::compile([&strict]), Acl::compile([&lenient]))
}

#[test]
fn rights_of_documents_are_frozen() {
    for (name, hcl, _) in documents() {
        let (strict, _) = compiled(&name, &hcl);
        crate::assert_golden(&format!("rights/{name}.txt"), &answers(&strict));
    }
}

#[test]
fn hcl_and_json_give_equal_rights() {
    let documents = documents();
    assert!(documents.len() >= 7, "{}", documents.len());
    for (name, hcl, json) in documents {
        let (strict, lenient) = compiled(&name, &hcl);
        let (json_strict, json_lenient) = compiled(&name, &json);
        let expected = answers(&strict);
        for acl in [lenient, json_strict, json_lenient] {
            assert_eq!(answers(&acl), expected, "{name}");
        }
    }
}

#[test]
fn page_of_policies_names_every_capability_and_its_example_is_one() {
    let page = include_str!("../../../../docs/policies.md");
    let examples: Vec<_> = page.split("```hcl\n").skip(1).collect();
    assert!(!examples.is_empty());
    for example in examples {
        let text = example.split("```").next().unwrap_or_default();
        compiled("docs/policies.md", text);
    }
    fn check<C: Capability>(page: &str) {
        for capability in C::ALL {
            let name = capability.name();
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }
    check::<NamespaceCapability>(page);
    check::<VariableCapability>(page);
    check::<NodePoolCapability>(page);
    check::<HostVolumeCapability>(page);
    check::<OperatorCapability>(page);
    check::<PluginCapability>(page);
    check::<SentinelCapability>(page);
}
