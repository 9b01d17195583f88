//! Roles.

use serde_json::json;

use super::{Acl, Asks, names};
use crate::world::refusal;

#[tokio::test]
async fn role_reads_alike_by_id_and_name_and_is_renamed_by_id() {
    let acl = Acl::start().await;
    acl.policy("p", "").await;
    let body = json!({ "Name": "ops", "Description": "d", "Policies": [{ "Name": "p" }] });
    let made = acl
        .manager
        .write("/v1/acl/role", body)
        .await
        .expect("a role");
    let path = format!("/v1/acl/role/{}", made["ID"].as_str().expect("an id"));
    assert_eq!(acl.manager.read(&path).await.expect("by id"), made);
    let by_name = acl.manager.read("/v1/acl/role/name/ops").await;
    assert_eq!(by_name.expect("by name"), made);
    let body = json!({ "Name": "sre", "Policies": [{ "Name": "p" }, { "Name": "p" }] });
    let renamed = acl.manager.write(&path, body).await.expect("renamed");
    assert_eq!(
        (&renamed["ID"], &renamed["Name"]),
        (&made["ID"], &json!("sre"))
    );
    assert_eq!(renamed["Policies"], json!([{ "Name": "p" }]));
    let gone = (404, "ACL role not found".to_owned());
    assert_eq!(
        refusal(acl.manager.read("/v1/acl/role/name/ops").await),
        gone
    );
    let list = acl.manager.read("/v1/acl/roles").await.expect("a list");
    assert_eq!(names(&list), ["sre"]);
    acl.manager.remove(&path).await.expect("removed");
    assert_eq!(refusal(acl.manager.read(&path).await), gone);
}

#[tokio::test]
async fn roles_with_mistakes_are_refused() {
    let acl = Acl::start().await;
    acl.policy("p", "").await;
    let body = json!({ "Name": "ops", "Policies": [{ "Name": "p" }] });
    let made = acl
        .manager
        .write("/v1/acl/role", body)
        .await
        .expect("a role");
    for (body, words) in [
        (
            json!({ "Name": "a" }),
            "role 0 invalid: at least one policy should be specified",
        ),
        (
            json!({ "Name": "a", "Policies": [{ "Name": "q" }] }),
            "cannot find policy q",
        ),
        (
            json!({ "Name": "a b", "Policies": [{ "Name": "p" }] }),
            "role 0 invalid: invalid name",
        ),
        (
            json!({ "Name": "ops", "Policies": [{ "Name": "p" }] }),
            "role with name ops already exists",
        ),
        (
            json!({ "ID": "x", "Name": "a", "Policies": [{ "Name": "p" }] }),
            "cannot find role x",
        ),
    ] {
        let (status, text) = refusal(acl.manager.write("/v1/acl/role", body).await);
        assert_eq!(status, 400, "{text}");
        assert!(text.starts_with(words), "{text}");
    }
    let path = format!("/v1/acl/role/{}", made["ID"].as_str().expect("an id"));
    let refused = refusal(acl.manager.write(&path, json!({ "ID": "x" })).await);
    let words = "ACL role ID does not match request path".to_owned();
    assert_eq!(refused, (400, words));
}

#[tokio::test]
async fn callers_see_their_own_roles() {
    let acl = Acl::start().await;
    acl.policy("p", "").await;
    for name in ["mine", "theirs"] {
        let body = json!({ "Name": name, "Policies": [{ "Name": "p" }] });
        acl.manager
            .write("/v1/acl/role", body)
            .await
            .expect("a role");
    }
    let (made, own) = acl.token(json!({ "Roles": [{ "Name": "mine" }] })).await;
    let list = own.read("/v1/acl/roles").await.expect("a list");
    assert_eq!(names(&list), ["mine"]);
    let id = made["Roles"][0]["ID"].as_str().expect("an id");
    own.read(&format!("/v1/acl/role/{id}"))
        .await
        .expect("its own");
    let denied = (403, "Permission denied".to_owned());
    for path in ["/v1/acl/role/name/theirs", "/v1/acl/role/name/nothing"] {
        assert_eq!(refusal(own.read(path).await), denied, "{path}");
    }
    let list = acl.world.client.read("/v1/acl/roles").await;
    assert_eq!(list.expect("a list"), json!([]));
}
