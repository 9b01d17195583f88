//! Warnings of references that nothing replaces.

use protocol_model::Job;
use serde_json::{Value, json};

use crate::fixtures::service;

/// The messages with the last part of their place, of those that speak of references.
fn said(job: &Job) -> Vec<String> {
    let all = job.unhonoured().into_iter();
    let ours = all.filter(|warning| warning.message.contains("stays as it is"));
    ours.map(|warning| warning.to_string()).collect()
}

fn of_task(in_task: Value) -> Vec<String> {
    let in_group = json!({"Networks": [{"Mode": "host", "DynamicPorts": [{"Label": "my-db"}]}]});
    said(&service(json!({"Meta": {"a-b": "x"}}), in_group, in_task))
}

#[test]
fn references_that_a_node_may_resolve_give_no_warning() {
    for text in [
        "${attr.kernel.name} ${meta.rack} ${node.class} ${node.unique.name}",
        "${NOMAD_TASK_DIR} ${env.NOMAD_ALLOC_ID} ${NOMAD_PORT_my-db} ${NOMAD_ADDR_my_db}",
        "${NOMAD_META_a-b} ${NOMAD_META_A_B} ${FOO} ${env.FOO} ${env.HOME} ${HOME}",
        "${foo} ${X:-y} ${#x} ${x[0]} $${y} ${}",
    ] {
        let task = json!({"Env": {"FOO": "x"}, "Config": {"command": text, "args": [text]},
            "Templates": [{"EmbeddedTmpl": "${env[\"X\"]}", "DestPath": "local/${NOMAD_ALLOC_ID}"}]});
        assert_eq!(of_task(task), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn an_index_is_warned_of_outside_of_a_config() {
    let text = "${meta[\"rack\"]} ${env[\"HOME\"]} ${attr[\"x\"]} ${node[\"class\"]}";
    assert_eq!(
        of_task(json!({"Config": {"command": text}})),
        Vec::<String>::new()
    );
    let place = "group \"web\" > task \"server\"";
    let only = "an index is understood in a task's `config` only";
    let found = of_task(json!({"Env": {"A": "${meta[\"rack\"]}${meta[\"rack\"]}"},
        "Templates": [{"DestPath": "${env[\"A\"]}", "EmbeddedTmpl": ""}],
        "Constraints": [{"LTarget": "${attr[\"x\"]}", "Operand": "is_set"}]}));
    let wanted = [
        (
            format!("{place} > constraint 1 > attribute"),
            "${attr[\"x\"]}",
            "${attr.x}",
        ),
        (
            format!("{place} > env"),
            "${meta[\"rack\"]}",
            "${meta.rack}",
        ),
        (
            format!("{place} > template 1 > destination"),
            "${env[\"A\"]}",
            "${env.A}",
        ),
    ];
    let wanted = wanted.map(|(place, written, instead)| {
        format!("{place}: `{written}` stays as it is: {only}; write `{instead}`")
    });
    assert_eq!(found, wanted);
}

#[test]
fn variables_of_bridge_ports_are_those_of_mode_bridge_alone() {
    let text = "${NOMAD_ALLOC_IP_db} ${NOMAD_ALLOC_ADDR_db} ${NOMAD_ALLOC_INTERFACE_db}";
    for (mode, warnings) in [("bridge", 0), ("host", 3)] {
        let network = json!([{"Mode": mode, "DynamicPorts": [{"Label": "db"}]}]);
        let task = json!({"Config": {"command": text}});
        let found = said(&service(json!({}), json!({"Networks": network}), task));
        assert_eq!(found.len(), warnings, "{mode}: {found:?}");
    }
}

#[test]
fn names_that_no_node_can_resolve_are_warned_of() {
    let none = "the task has no variable";
    for (text, why) in [
        ("${node.foo}", "no node has it"),
        ("${node[\"foo\"]}", "no node has it"),
        ("${meta}", "no node has it"),
        (
            "${device.model}",
            "nothing has a name that begins with `device.`",
        ),
        (
            "${unique.hostname}",
            "nothing has a name that begins with `unique.`",
        ),
        ("${env[\"BAR\"]}", none),
        ("${env.BAR}", none),
        ("${NOMAD_PORT_http}", none),
        ("${NOMAD_UPSTREAM_ADDR_x}", none),
        ("${NOMAD_META_x}", none),
    ] {
        let found = of_task(json!({"Env": {"FOO": "x"}, "Config": {"args": ["a", [{"b": text}]]}}));
        let [found] = found.as_slice() else {
            panic!("{text}: {found:?}");
        };
        let place = "group \"web\" > task \"server\" > config > args: `";
        assert!(found.starts_with(place) && found.contains(why), "{found}");
        let template = json!([{"EmbeddedTmpl": "A=b", "DestPath": "local/e", "Envvars": true}]);
        let others = of_task(json!({"Templates": template, "Config": {"command": text}}));
        assert_eq!(others.is_empty(), why == none, "{text}: {others:?}");
    }
}

#[test]
fn comparisons_of_each_level_name_nodes_only() {
    let wrong = json!([{"LTarget": "${env.HOME}", "Operand": "is_set"}]);
    let right = json!([{"LTarget": "${ meta.rack }", "RTarget": "${node.dc}"}]);
    let both = |level: &str| {
        let words = "nodes are compared by attr.NAME, meta.NAME and node.NAME only";
        format!("{level}constraint 1 > attribute: `${{env.HOME}}` stays as it is: {words}")
    };
    let found = said(&service(
        json!({"Constraints": wrong, "Affinities": right}),
        json!({"Constraints": wrong, "Spreads": [{"Attribute": "${node.datacenter}"}]}),
        json!({"Constraints": wrong, "Affinities": right}),
    ));
    let group = "group \"web\" > ";
    let task = format!("{group}task \"server\" > ");
    assert_eq!(found, [both(""), both(group), both(&task)]);
}

#[test]
fn a_job_full_of_wrong_references_gets_a_bounded_list() {
    let args: Vec<String> = (0..1_000).map(|i| format!("${{node.x{i}}}")).collect();
    let found = of_task(json!({"Config": {"args": args}}));
    assert_eq!(found.len(), 64);
    assert!(found[63].ends_with("further ones are not listed"));
}
