//! Tokens.

use serde_json::{Value, json};

use super::{Acl, Asks, names};
use crate::world::refusal;

const ACCESSOR: &str = "2b778dd9-f5f1-6f29-b4b4-9a5fa948757a";
const SECRET: &str = "7b778dd9-f5f1-6f29-b4b4-9a5fa948757b";

#[tokio::test]
async fn token_read_equals_the_answer_that_created_it() {
    let acl = Acl::start().await;
    acl.policy("p", "").await;
    let role = json!({ "Name": "r", "Policies": [{ "Name": "p" }] });
    let role = acl
        .manager
        .write("/v1/acl/role", role)
        .await
        .expect("a role");
    let fields = json!({ "Name": "ci", "Policies": ["p", "p"], "Global": true,
        "Roles": [{ "Name": "r" }, { "ID": role["ID"] }], "ExpirationTTL": 600_000_000_000_u64 });
    let (made, _) = acl.token(fields).await;
    let path = format!(
        "/v1/acl/token/{}",
        made["AccessorID"].as_str().expect("an id")
    );
    assert_eq!(acl.manager.read(&path).await.expect("read"), made);
    assert_eq!(
        (&made["ExpirationTTL"], &made["Global"]),
        (&json!("10m0s"), &json!(true))
    );
    let link = json!([{ "ID": role["ID"], "Name": "r" }]);
    assert_eq!((&made["Policies"], &made["Roles"]), (&json!(["p"]), &link));
    let list = acl.manager.read("/v1/acl/tokens").await.expect("a list");
    let stub = list.as_array().expect("a list").iter();
    let stub = stub.filter(|it| it["Name"] == "ci").collect::<Vec<_>>();
    assert!(stub[0].get("SecretID").is_none(), "{list}");
    assert_eq!(stub[0]["AccessorID"], made["AccessorID"]);
}

#[tokio::test]
async fn roles_of_a_token_follow_the_roles() {
    let acl = Acl::start().await;
    acl.policy("p", "").await;
    for name in ["a", "b"] {
        let role = json!({ "Name": name, "Policies": [{ "Name": "p" }] });
        acl.manager
            .write("/v1/acl/role", role)
            .await
            .expect("a role");
    }
    let (made, own) = acl
        .token(json!({ "Roles": [{ "Name": "a" }, { "Name": "b" }] }))
        .await;
    let id = |place: usize| {
        made["Roles"][place]["ID"]
            .as_str()
            .expect("an id")
            .to_owned()
    };
    let renamed = json!({ "Name": "c", "Policies": [{ "Name": "p" }] });
    let path = format!("/v1/acl/role/{}", id(0));
    acl.manager.write(&path, renamed).await.expect("renamed");
    let path = format!("/v1/acl/role/{}", id(1));
    acl.manager.remove(&path).await.expect("removed");
    let read = own.read("/v1/acl/token/self").await.expect("its own");
    assert_eq!(read["Roles"], json!([{ "ID": id(0), "Name": "c" }]));
    assert_eq!(read["SecretID"], made["SecretID"]);
}

#[tokio::test]
async fn tokens_with_mistakes_are_refused() {
    let acl = Acl::start().await;
    let client = |fields: Value| {
        let mut body = json!({ "Type": "client", "Policies": ["p"] });
        body.as_object_mut()
            .expect("an object")
            .extend(fields.as_object().expect("an object").clone());
        body
    };
    for (body, words) in [
        (
            json!({}),
            "token 0 invalid: token type must be client or management",
        ),
        (
            json!({ "Type": "client" }),
            "token 0 invalid: client token missing policies or roles",
        ),
        (
            json!({ "Type": "management", "Policies": ["p"] }),
            "token 0 invalid: management token cannot be associated with policies or roles",
        ),
        (
            client(json!({ "Name": "x".repeat(257) })),
            "token 0 invalid: token name too long",
        ),
        (
            client(json!({ "ExpirationTTL": "30s" })),
            "token 0 invalid: expiration time cannot be less than 1m0s in the future (was 30s)",
        ),
        (
            client(json!({ "ExpirationTTL": "25h" })),
            "token 0 invalid: expiration time cannot be more than 24h0m0s in the future \
             (was 25h0m0s)",
        ),
        (
            client(json!({ "Roles": [{ "Name": "x" }] })),
            "cannot find role x",
        ),
        (
            client(json!({ "Roles": [{ "ID": "x" }] })),
            "cannot find role x",
        ),
        (
            client(json!({ "AccessorID": ACCESSOR })),
            "cannot find token 2b778dd9-",
        ),
        (
            client(json!({ "AccessorID": "x", "SecretID": SECRET })),
            "cannot find token x",
        ),
        (
            json!({ "Type": "management", "AccessorID": ACCESSOR, "SecretID": SECRET }),
            "cannot find token 2b778dd9-",
        ),
    ] {
        let (status, text) = refusal(acl.manager.write("/v1/acl/token", body).await);
        assert_eq!(status, 400, "{text}");
        assert!(text.starts_with(words), "{text}");
    }
    let list = acl.manager.read("/v1/acl/tokens").await.expect("a list");
    assert_eq!(names(&list), ["Bootstrap Token"]);
}

#[tokio::test]
async fn update_changes_rights_and_refuses_times_and_mode() {
    let acl = Acl::start().await;
    let fields = json!({ "Policies": ["p"], "ExpirationTTL": "10m" });
    let (made, own) = acl.token(fields).await;
    let path = format!(
        "/v1/acl/token/{}",
        made["AccessorID"].as_str().expect("an id")
    );
    let body = json!({ "Name": "n", "Type": "client", "Policies": ["q"] });
    let changed = acl.manager.write(&path, body).await.expect("changed");
    assert_eq!(
        (&changed["Name"], &changed["Policies"]),
        (&json!("n"), &json!(["q"]))
    );
    for key in [
        "SecretID",
        "ExpirationTime",
        "ExpirationTTL",
        "CreateIndex",
        "Global",
    ] {
        assert_eq!(changed[key], made[key], "{key}");
    }
    for (fields, words) in [
        (
            json!({ "ExpirationTTL": "11m" }),
            "token 0 invalid: cannot update expiration TTL",
        ),
        (
            json!({ "ExpirationTime": "2090-01-01T00:00:00Z" }),
            "token 0 invalid: cannot update expiration time",
        ),
        (
            json!({ "Global": true }),
            "token 0 invalid: cannot toggle global mode",
        ),
        (
            json!({ "AccessorID": ACCESSOR }),
            "ACL token accessor does not match request path",
        ),
    ] {
        let mut body = json!({ "Type": "client", "Policies": ["q"] });
        let all = body.as_object_mut().expect("an object");
        all.extend(fields.as_object().expect("an object").clone());
        let refused = refusal(acl.manager.write(&path, body).await);
        assert_eq!(refused, (400, words.to_owned()));
    }
    let denied = (403, "Permission denied".to_owned());
    assert_eq!(refusal(own.write(&path, json!({})).await), denied);
    let unknown = format!("/v1/acl/token/{ACCESSOR}");
    let body = json!({ "Type": "client", "Policies": ["q"] });
    let refused = refusal(acl.manager.write(&unknown, body).await);
    assert_eq!(refused, (400, format!("cannot find token {ACCESSOR}")));
}

#[tokio::test]
async fn uploaded_token_works_with_its_own_secret() {
    let acl = Acl::start().await;
    let fields = json!({ "Policies": ["p"], "AccessorID": ACCESSOR, "SecretID": SECRET });
    let (made, own) = acl.token(fields.clone()).await;
    assert_eq!(
        (&made["AccessorID"], &made["SecretID"]),
        (&json!(ACCESSOR), &json!(SECRET))
    );
    let read = own.read("/v1/acl/token/self").await.expect("its own");
    assert_eq!(read["AccessorID"], ACCESSOR);
    let mut again = fields;
    again["Type"] = json!("client");
    let (status, text) = refusal(acl.manager.write("/v1/acl/token", again).await);
    assert_eq!(status, 400, "{text}");
}

/// As Nomad's Go client does it.
#[tokio::test]
async fn token_is_uploaded_to_the_path_of_its_accessor() {
    let acl = Acl::start().await;
    let path = format!("/v1/acl/token/{ACCESSOR}");
    let fields = |kind: &str, secret: &str| {
        let policies = json!(["p"]);
        json!({ "Type": kind, "Policies": policies, "AccessorID": ACCESSOR, "SecretID": secret })
    };
    for (kind, secret) in [("management", SECRET), ("client", "short"), ("client", "")] {
        let refused = refusal(acl.manager.write(&path, fields(kind, secret)).await);
        let expected = (400, format!("cannot find token {ACCESSOR}"));
        assert_eq!(refused, expected, "{kind} {secret:?}");
    }
    let made = acl.manager.write(&path, fields("client", SECRET)).await;
    assert_eq!(made.expect("an upload")["SecretID"], SECRET);
    // The same again changes the token that is there.
    let mut changed = fields("client", SECRET);
    changed["Name"] = json!("renamed");
    let made = acl.manager.write(&path, changed).await.expect("a change");
    assert_eq!(
        (&made["Name"], &made["SecretID"]),
        (&json!("renamed"), &json!(SECRET))
    );
}

#[tokio::test]
async fn deleted_token_is_refused_and_missing_ones_are_named() {
    let acl = Acl::start().await;
    let (made, own) = acl.token(json!({ "Policies": ["p"] })).await;
    let path = format!(
        "/v1/acl/token/{}",
        made["AccessorID"].as_str().expect("an id")
    );
    own.read(&path).await.expect("its own");
    let other = format!("/v1/acl/token/{ACCESSOR}");
    let denied = (403, "Permission denied".to_owned());
    assert_eq!(refusal(own.read(&other).await), denied);
    assert_eq!(refusal(own.read("/v1/acl/tokens").await), denied);
    acl.manager.remove(&path).await.expect("removed");
    assert_eq!(refusal(own.read(&path).await), denied);
    let unknown = (403, "ACL token not found".to_owned());
    assert_eq!(refusal(own.read("/v1/acl/token/self").await), unknown);
    let (status, text) = refusal(acl.manager.remove(&path).await);
    assert_eq!(status, 400);
    assert!(
        text.starts_with("Cannot delete nonexistent tokens: "),
        "{text}"
    );
    let gone = (404, "ACL token not found".to_owned());
    assert_eq!(refusal(acl.manager.read(&path).await), gone);
}

#[tokio::test]
async fn callers_without_a_token_have_the_anonymous_one() {
    let acl = Acl::start().await;
    let own = acl
        .world
        .client
        .read("/v1/acl/token/self")
        .await
        .expect("a token");
    assert_eq!(
        (&own["AccessorID"], &own["Type"]),
        (&json!("anonymous"), &json!("client"))
    );
    assert_eq!(
        (&own["Policies"], &own["SecretID"]),
        (&json!(["anonymous"]), &json!(""))
    );
}

#[tokio::test]
async fn lists_of_tokens_are_cut_into_pages_and_chosen_from() {
    let acl = Acl::start().await;
    for number in 0..5 {
        let fields = json!({ "Policies": ["p"], "Name": format!("n{number}") });
        acl.token(fields).await;
    }
    let list = async |query: &str| {
        let path = format!("GET /v1/acl/tokens?{query} HTTP/1.1");
        let head = format!("{path}\r\nX-Nomad-Token: {}", acl.secret);
        let (status, head, body) = acl.world.raw(&head, "").await;
        assert_eq!(status, 200, "{body}");
        let list: Value = serde_json::from_str(&body).expect("JSON");
        let ids = list.as_array().expect("a list").iter();
        let ids: Vec<String> = ids.map(|it| it["AccessorID"].to_string()).collect();
        let next = head
            .lines()
            .find_map(|it| it.strip_prefix("x-nomad-nexttoken: "));
        (ids, next.map(str::to_owned))
    };
    let (all, _) = list("").await;
    let (first, next) = list("per_page=4").await;
    let (rest, none) = list(&format!(
        "per_page=4&next_token={}",
        next.expect("a next page")
    ))
    .await;
    assert_eq!(([first, rest].concat(), none), (all.clone(), None));
    let (reversed, _) = list("reverse=true").await;
    assert_eq!(reversed.into_iter().rev().collect::<Vec<_>>(), all);
    let (named, _) = list("filter=Name+==+%22n3%22").await;
    assert_eq!(named.len(), 1);
    assert_eq!(list("global=true").await.0.len(), 1);
    assert_eq!(list("global=false").await.0.len(), 5);
}
