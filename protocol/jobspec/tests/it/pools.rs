//! Files of node pools.

use protocol_jobspec::{Diagnostics, parse_pool};
use serde_json::{Value as Json, json};

fn read(text: &str) -> Result<Json, Diagnostics> {
    parse_pool("pool.hcl", text)
}

#[test]
fn a_pool_file_becomes_the_pool_of_the_api() {
    let text = r#"
        node_pool "batch" {
          description = "for the night"
          meta {
            owner = "ops"
            cost = "7"
          }
          scheduler_config {
            scheduler_algorithm             = "spread"
            memory_oversubscription_enabled = true
          }
        }
    "#;
    let expected = json!({
        "Name": "batch",
        "Description": "for the night",
        "Meta": { "owner": "ops", "cost": "7" },
        "SchedulerConfiguration": {
            "SchedulerAlgorithm": "spread",
            "MemoryOversubscriptionEnabled": true,
        },
    });
    assert_eq!(read(text).expect("a pool"), expected);
    let least = read("node_pool \"x\" {}").expect("a pool");
    assert_eq!(least, json!({ "Name": "x" }));
}

/// The line, the column and the message of each problem.
fn problems(text: &str) -> Vec<(usize, usize, String)> {
    let found = read(text).expect_err("it is wrong");
    let found = found.list().iter();
    let told = found.map(|it| (it.line, it.column, it.message.clone()));
    told.collect()
}

#[test]
fn all_mistakes_of_a_pool_file_are_located() {
    let text = "node_pool \"x\" {\n  descripton = \"d\"\n  node_identity_ttl = \"24h\"\n  \
                scheduler_config {\n    scheduler_algorithm = \"best\"\n  }\n}\njob \"y\" {}\n";
    let found = problems(text);
    let places: Vec<(usize, usize)> = found.iter().map(|it| (it.0, it.1)).collect();
    assert_eq!(places, [(2, 3), (3, 3), (5, 27), (8, 1)], "{found:#?}");
    for (problem, words) in found.iter().zip(["descripton", "no effect", "best", "job"]) {
        assert!(problem.2.contains(words), "{problem:?}");
    }
}

#[test]
fn a_file_without_a_pool_or_with_two_is_refused() {
    assert!(problems("")[0].2.contains("no `node_pool`"));
    let two = problems("node_pool \"a\" {}\nnode_pool \"b\" {}\n");
    assert_eq!(
        (two[0].0, two[0].2.as_str()),
        (2, "a file holds one node pool")
    );
    assert_eq!(problems("node_pool {}\n")[0].0, 1);
    assert_eq!(
        problems("node_pool \"a\" {\n  description = \"${x}\"\n}\n")[0].0,
        2
    );
    assert_eq!(problems("node_pool \"a\" {\n  description = \n}\n")[0].0, 2);
}
