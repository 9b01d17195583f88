//! Auth methods and binding rules.

use serde_json::{Value, json};

use super::{Acl, Asks};
use crate::world::refusal;

const METHOD: &str = "/v1/acl/auth-method/ci";
const PLANTED: &str = "planted-client-secret";

fn method() -> Value {
    json!({ "Name": "ci", "Type": "JWT", "TokenLocality": "local", "MaxTokenTTL": "1h" })
}

fn oidc() -> Value {
    json!({ "OIDCDiscoveryURL": "https://id.example", "OIDCClientID": "drover",
        "OIDCClientSecret": PLANTED, "AllowedRedirectURIs": ["http://localhost:4649/oidc/callback"],
        "BoundAudiences": ["drover"], "ClaimMappings": { "email": "email" } })
}

#[tokio::test]
async fn auth_method_may_come_without_config_and_keeps_what_is_not_named() {
    let acl = Acl::start().await;
    let made = acl.manager.write("/v1/acl/auth-method", method()).await;
    let made = made.expect("a method");
    assert_eq!(
        (&made["Config"], &made["MaxTokenTTL"]),
        (&Value::Null, &json!("1h0m0s"))
    );
    assert_eq!(
        made["TokenNameFormat"],
        "${auth_method_type}-${auth_method_name}"
    );
    let keys = json!({ "JWKSURL": "https://ci.example/keys", "ExpirationLeeway": "-1s" });
    let body = json!({ "Config": keys, "Default": true });
    let changed = acl.manager.write(METHOD, body).await.expect("changed");
    assert_eq!(changed["Config"]["ExpirationLeeway"], "-1s");
    let body = json!({ "MaxTokenTTL": "2h" });
    let changed = acl.manager.write(METHOD, body).await.expect("changed");
    assert_eq!(changed["Config"]["JWKSURL"], "https://ci.example/keys");
    assert_eq!(
        (&changed["Default"], &changed["Type"]),
        (&json!(true), &json!("JWT"))
    );
    assert_eq!(acl.manager.read(METHOD).await.expect("read"), changed);
    // Callers that have no token yet choose one to log in with.
    let list = acl
        .world
        .client
        .read("/v1/acl/auth-methods")
        .await
        .expect("a list");
    assert_eq!(list[0]["Name"], "ci");
    assert!(list[0].get("Config").is_none(), "{list}");
}

#[tokio::test]
async fn secrets_of_an_auth_method_are_redacted_and_kept() {
    let acl = Acl::start().await;
    let mut body = method();
    body["Type"] = json!("OIDC");
    body["Config"] = oidc();
    let made = acl.manager.write("/v1/acl/auth-method", body).await;
    let made = made.expect("a method");
    assert_eq!(made["Config"]["OIDCClientSecret"], "redacted");
    // A client writes back what it read.
    let again = acl.manager.write(METHOD, made.clone()).await;
    assert_eq!(
        again.expect("unchanged")["ModifyIndex"],
        made["ModifyIndex"]
    );
    let snapshot = acl.world.until(|it| it.auth_method("ci").is_some()).await;
    let row = format!("{:?}", snapshot.auth_method("ci").expect("a row"));
    assert!(row.contains("sealed: Some"), "{row}");
    let config = snapshot.auth_method("ci").and_then(|it| it.config.clone());
    assert!(!config.expect("a configuration").contains(PLANTED));
    let mut config = oidc();
    config["OIDCClientSecret"] = json!("");
    let body = json!({ "Config": config });
    acl.manager
        .write(METHOD, body)
        .await
        .expect("without a secret");
    let mut config = oidc();
    config["OIDCClientSecret"] = json!("redacted");
    let (status, text) = refusal(acl.manager.write(METHOD, json!({ "Config": config })).await);
    assert_eq!(status, 400);
    assert!(text.contains("no secret is stored"), "{text}");
}

#[tokio::test]
async fn auth_methods_with_mistakes_are_refused() {
    let acl = Acl::start().await;
    let with = |key: &str, value: Value| {
        let mut body = method();
        body[key] = value;
        body
    };
    for (body, words) in [
        (with("Name", json!("a b")), "invalid name 'a b'"),
        (with("Type", json!("SAML")), "invalid token type 'SAML'"),
        (
            with("TokenLocality", json!("")),
            "invalid token locality ''",
        ),
        (
            with("MaxTokenTTL", json!("25h")),
            "invalid MaxTokenTTL value '25h0m0s'",
        ),
        (
            with("Config", json!({})),
            "exactly one of JWTValidationPubKeys",
        ),
        (
            with("Config", json!({ "JWKSURL": "http://ci.example" })),
            "JWKSURL: ",
        ),
    ] {
        let (status, text) = refusal(acl.manager.write("/v1/acl/auth-method", body).await);
        assert_eq!(status, 400, "{text}");
        let prefix = "auth method 0 invalid: ";
        assert!(text.starts_with(prefix) && text.contains(words), "{text}");
    }
    let default = with("Default", json!(true));
    acl.manager
        .write("/v1/acl/auth-method", default.clone())
        .await
        .expect("a method");
    let mut other = default;
    other["Name"] = json!("other");
    let refused = refusal(acl.manager.write("/v1/acl/auth-method", other).await);
    assert_eq!(
        refused,
        (400, "default method already exists: ci".to_owned())
    );
    let refused = refusal(acl.manager.write(METHOD, json!({ "Name": "x" })).await);
    let words = "ACL auth method name does not match request path".to_owned();
    assert_eq!(refused, (400, words));
}

#[tokio::test]
async fn binding_rule_keeps_every_field_and_goes_with_its_method() {
    let acl = Acl::start().await;
    acl.manager
        .write("/v1/acl/auth-method", method())
        .await
        .expect("a method");
    let body = json!({ "Description": "d", "AuthMethod": "ci", "BindType": "role",
        "Selector": "value.branch == \"main\"", "BindName": "team-${value.team}" });
    let made = acl
        .manager
        .write("/v1/acl/binding-rule", body.clone())
        .await;
    let made = made.expect("a rule");
    for (key, value) in body.as_object().expect("an object") {
        assert_eq!(made[key], *value, "{key}");
    }
    let path = format!(
        "/v1/acl/binding-rule/{}",
        made["ID"].as_str().expect("an id")
    );
    assert_eq!(acl.manager.read(&path).await.expect("read"), made);
    let changed = acl.manager.write(&path, json!({ "BindName": "ops" })).await;
    let changed = changed.expect("changed");
    assert_eq!(
        (&changed["BindName"], &changed["Selector"]),
        (&json!("ops"), &made["Selector"])
    );
    let list = acl
        .manager
        .read("/v1/acl/binding-rules")
        .await
        .expect("a list");
    assert_eq!(list[0]["ID"], made["ID"]);
    acl.manager.remove(METHOD).await.expect("removed");
    let gone = (404, "ACL binding rule not found".to_owned());
    assert_eq!(refusal(acl.manager.read(&path).await), gone);
}

#[tokio::test]
async fn binding_rules_with_mistakes_are_refused() {
    let acl = Acl::start().await;
    acl.manager
        .write("/v1/acl/auth-method", method())
        .await
        .expect("a method");
    let rule = |kind: &str, name: &str, selector: &str| json!({ "AuthMethod": "ci", "BindType": kind, "BindName": name, "Selector": selector });
    for (body, words) in [
        (rule("", "x", ""), "bind type is missing"),
        (rule("role", "", ""), "bind name is missing"),
        (rule("management", "x", ""), "bind name should be empty"),
        (rule("role", "x", "value.a =="), "selector is invalid: "),
        (
            json!({ "AuthMethod": "no", "BindType": "role", "BindName": "x" }),
            "ACL auth method no not found",
        ),
    ] {
        let (status, text) = refusal(acl.manager.write("/v1/acl/binding-rule", body).await);
        assert_eq!(status, 400, "{text}");
        let prefix = "binding rule 0 invalid: ";
        assert!(text.starts_with(prefix) && text.contains(words), "{text}");
    }
}
