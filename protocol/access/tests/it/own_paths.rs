//! Variables that a workload reads without a policy.

use protocol_access::VariableCapability::{Destroy, List, Read, Write};
use protocol_access::{Acl, OwnPaths, Policy};

fn workload(rules: &str) -> Acl {
    let policy = Policy::parse(rules).expect("a policy");
    Acl::compile([&policy]).of_workload(OwnPaths::new("dev", "a/web", "front", "api"))
}

const OWN: [&str; 4] = [
    "nomad/jobs",
    "nomad/jobs/a/web",
    "nomad/jobs/a/web/front",
    "nomad/jobs/a/web/front/api",
];

#[test]
fn workload_reads_and_lists_its_own_paths_and_writes_nothing() {
    let acl = workload("");
    for path in OWN {
        assert!(acl.variable("dev", path, Read), "{path}");
        assert!(acl.variable("dev", path, List), "{path}");
        assert!(!acl.variable("dev", path, Write), "{path}");
        assert!(!acl.variable("dev", path, Destroy), "{path}");
        assert!(!acl.variable("default", path, Read), "{path}");
        assert!(!Acl::nothing().variable("dev", path, Read), "{path}");
    }
    for other in [
        "",
        "nomad",
        "nomad/job",
        "nomad/jobs/",
        "nomad/jobs/a",
        "nomad/jobs/a/we",
        "nomad/jobs/a/web/",
        "nomad/jobs/a/web/front/api/more",
        "nomad/jobs/a/web/front/ap",
        "nomad/jobs/a/web/front/api2",
        "app/db",
    ] {
        assert!(!acl.variable("dev", other, Read), "{other:?}");
    }
    assert!(acl.variables_some("dev") && acl.variables_some("*"));
    assert!(!acl.variables_some("default"));
    assert!(acl.in_some_variable(Read) && !acl.in_some_variable(Write));
}

#[test]
fn rule_of_the_exact_path_wins_over_own_paths_and_these_over_globs() {
    let rules = |path: &str, capability: &str| {
        let rule = format!("path \"{path}\" {{ capabilities = [\"{capability}\"] }}");
        workload(&format!("namespace \"dev\" {{ variables {{ {rule} }} }}"))
    };
    let denied = rules("nomad/jobs/a/web", "deny");
    assert!(!denied.variable("dev", "nomad/jobs/a/web", Read));
    assert!(denied.variable("dev", "nomad/jobs/a/web/front", Read));
    let glob = rules("nomad/*", "deny");
    assert!(glob.variable("dev", "nomad/jobs/a/web", Read));
    assert!(!glob.variable("dev", "nomad/jobs/b", Read));
    let more = rules("nomad/jobs/*", "write");
    assert!(more.variable("dev", "nomad/jobs/a/web", Write));
    assert!(more.variable("dev", "nomad/jobs/a/web", Read));
}
