//! `scaling` blocks: their types, and what is refused.

use crate::{complaints, job};
use serde_json::json;

fn text(in_group: &str, in_task: &str) -> String {
    format!(
        "job \"j\" {{\n  group \"g\" {{\n{in_group}\n    task \"t\" {{\n{in_task}\n    }}\n  }}\n}}\n"
    )
}

#[test]
fn scaling_has_the_type_of_its_place_unless_it_says_so() {
    for kind in ["", "\ntype = \"\"", "\ntype = \"horizontal\""] {
        let found = job(&text(&format!("scaling {{\nmax = 3{kind}\n}}"), ""));
        assert_eq!(
            found["TaskGroups"][0]["Scaling"]["Type"], "horizontal",
            "{kind}"
        );
    }
    let both = "scaling \"cpu\" {\nmax = 3\n}\nscaling \"MEM\" {\ntype = \"vertical_mem\"\n}";
    let found = job(&text("", both));
    let policies = &found["TaskGroups"][0]["Tasks"][0]["ScalingPolicies"];
    assert_eq!(policies[0]["Type"], json!("vertical_cpu"));
    assert_eq!(policies[1]["Type"], json!("vertical_mem"));
}

#[test]
fn a_group_s_scaling_without_max_or_of_another_type_is_refused() {
    let group = "    scaling {\n      type = \"vertical_cpu\"\n    }";
    insta::assert_snapshot!(complaints(&text(group, "")), @r#"
    test.nomad:3:5: `scaling` needs `max`
       |
     3 |     scaling {
       |     ^^^^^^^
      hint: it is the largest count that the autoscaler may set

    test.nomad:4:7: `vertical_cpu` is not the type of a group
       |
     4 |       type = "vertical_cpu"
       |       ^^^^
      hint: leave `type` out, or write `horizontal`
    "#);
    let mistake = complaints(&text("    scaling {\n      max = \"x\"\n    }", ""));
    assert!(!mistake.contains("needs `max`"), "{mistake}");
}

#[test]
fn a_task_s_scaling_of_another_resource_or_twice_is_refused() {
    let task = "scaling \"cpu\" {\n}\nscaling \"disk\" {\n}\nscaling \"cpu\" {\n}\n\
                scaling \"mem\" {\ntype = \"vertical_cpu\"\n}";
    insta::assert_snapshot!(complaints(&text("", task)), @r#"
    test.nomad:7:1: a task scales by `cpu` or `mem`
       |
     7 | scaling "disk" {
       | ^^^^^^^^^^^^^^
      hint: write `scaling "cpu" { ... }`

    test.nomad:9:1: there are two `scaling` blocks named `cpu`
       |
     9 | scaling "cpu" {
       | ^^^^^^^^^^^^^

    test.nomad:12:1: `vertical_cpu` is not the type of `scaling "mem"`
        |
     12 | type = "vertical_cpu"
        | ^^^^
      hint: leave `type` out, or write `vertical_mem`
    "#);
}
