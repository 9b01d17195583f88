//! The rights on variables: judged per path, in the namespace that is written.

use serde_json::{Value, json};

use super::items;
use crate::acl_objects::{Acl, Asks};
use crate::world::refusal;

fn denied() -> (u16, String) {
    (403, "Permission denied".to_owned())
}

/// A client with these capabilities on `app/*` of the namespace `default`.
async fn holder(acl: &Acl, name: &str, capabilities: &str) -> protocol_client::Client {
    let rule = format!(
        "namespace \"default\" {{ variables {{ path \"app/*\" {{ capabilities = [{capabilities}] \
         }} }} }}"
    );
    acl.policy(name, &rule).await;
    acl.token(json!({ "Policies": [name] })).await.1
}

#[tokio::test]
async fn each_operation_needs_its_capability_on_the_path() {
    let acl = Acl::start().await;
    let reader = holder(&acl, "reader", "\"read\"").await;
    let writer = holder(&acl, "writer", "\"write\"").await;
    let lister = holder(&acl, "lister", "\"list\"").await;
    let destroyer = holder(&acl, "destroyer", "\"destroy\"").await;
    // A writer sees what it wrote, without read.
    let written = writer.write("/v1/var/app/a", items("1")).await;
    let written = written.expect("it is written");
    assert_eq!(written["Items"]["key"], "1");
    assert_eq!(refusal(writer.read("/v1/var/app/a").await), denied());
    let read = reader.read("/v1/var/app/a").await.expect("it is read");
    assert_eq!(read, written);
    for path in ["/v1/var/app/b", "/v1/var/ap", "/v1/var/other/a"] {
        let answer = writer.write(path, items("1")).await;
        if path == "/v1/var/app/b" {
            answer.expect("it may be written");
            continue;
        }
        // Also where nothing is there.
        assert_eq!(refusal(answer), denied(), "{path}");
        assert_eq!(refusal(reader.read(path).await), denied(), "{path}");
    }
    acl.manager
        .write("/v1/var/other/a", items("1"))
        .await
        .expect("management may");
    let list = lister.read("/v1/vars?namespace=*").await.expect("a list");
    let paths: Vec<&str> = list
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|it| it["Path"].as_str())
        .collect();
    assert_eq!(paths, ["app/a", "app/b"]);
    let list = destroyer.read("/v1/vars").await.expect("always 200");
    assert_eq!(list, json!([]));
    assert_eq!(refusal(lister.remove("/v1/var/app/a").await), denied());
    let gone: Result<Value, _> = destroyer.remove("/v1/var/app/a").await;
    drop(gone);
    let missing = reader.read("/v1/var/app/a").await;
    assert_eq!(refusal(missing), (404, "variable not found".to_owned()));
}

#[tokio::test]
async fn the_namespace_of_the_body_is_the_one_that_is_judged() {
    let acl = Acl::start().await;
    let body = json!({ "Name": "dev" });
    acl.manager
        .write("/v1/namespace", body)
        .await
        .expect("a namespace");
    let writer = holder(&acl, "writer", "\"write\", \"read\"").await;
    let in_dev = json!({ "Namespace": "dev", "Items": { "k": "v" } });
    let refused = writer.write("/v1/var/app/a", in_dev.clone()).await;
    assert_eq!(refusal(refused), denied());
    let written = acl
        .manager
        .write("/v1/var/app/a?namespace=default", in_dev)
        .await;
    assert_eq!(written.expect("written")["Namespace"], "dev");
    // The other way round it may.
    let in_default = json!({ "Namespace": "default", "Items": { "k": "v" } });
    let written = writer
        .write("/v1/var/app/a?namespace=dev", in_default)
        .await;
    assert_eq!(written.expect("written")["Namespace"], "default");
}

#[tokio::test]
async fn a_conflict_shows_items_only_to_those_who_may_read_them() {
    let acl = Acl::start().await;
    let writer = holder(&acl, "writer", "\"write\"").await;
    let both = holder(&acl, "both", "\"write\", \"read\"").await;
    writer
        .write("/v1/var/app/a", items("hidden"))
        .await
        .expect("written");
    for (client, shows) in [(&writer, false), (&both, true)] {
        let (code, text) = refusal(client.write("/v1/var/app/a?cas=0", items("2")).await);
        assert_eq!((code, text.contains("hidden")), (409, shows), "{text}");
        assert!(text.contains("\"ModifyIndex\""), "{text}");
    }
}
