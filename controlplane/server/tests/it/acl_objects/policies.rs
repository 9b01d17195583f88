//! Policies.

use serde_json::json;

use super::{Acl, Asks, names};
use crate::world::refusal;

const READ: &str = "namespace \"default\" { policy = \"read\" }";

#[tokio::test]
async fn policy_reads_back_as_it_was_written_and_goes() {
    let acl = Acl::start().await;
    let path = "/v1/acl/policy/readers";
    let job_acl = json!({ "Namespace": "default", "JobID": "web", "Group": "", "Task": "" });
    let body = json!({ "Description": "d", "Rules": READ, "JobACL": job_acl });
    let written = acl.manager.write(path, body).await.expect("written");
    assert_eq!(written["Name"], "readers");
    assert_eq!(
        (&written["Rules"], &written["JobACL"]),
        (&json!(READ), &job_acl)
    );
    let read = acl.manager.read(path).await.expect("read");
    assert_eq!(read, written);
    let list = acl.manager.read("/v1/acl/policies").await.expect("a list");
    assert_eq!(names(&list), ["readers"]);
    assert!(list[0].get("Rules").is_none(), "{list}");
    assert_eq!(list[0]["Hash"], read["Hash"]);
    acl.manager.remove(path).await.expect("removed");
    acl.manager
        .remove(path)
        .await
        .expect("removing none is no error");
    let gone = (404, "ACL policy not found".to_owned());
    assert_eq!(refusal(acl.manager.read(path).await), gone);
}

#[tokio::test]
async fn policy_with_mistakes_is_refused_with_their_places() {
    let acl = Acl::start().await;
    for (name, body, words) in [
        (
            "a",
            json!({ "Name": "b" }),
            "ACL policy name does not match request path",
        ),
        (
            "a",
            json!({ "Rules": "namespace \"default\" {\n  capabilities = [\"fly\"]\n}" }),
            "line 2, column 19: Invalid namespace capability 'fly'",
        ),
        (
            "a",
            json!({ "Rules": "namespace" }),
            "Failed to parse ACL Policy: ",
        ),
        ("a_b", json!({}), "policy 0 invalid: invalid name 'a_b'"),
        (
            "a",
            json!({ "Description": "x".repeat(257) }),
            "description longer than 256",
        ),
        (
            "a",
            json!({ "JobACL": { "JobID": "web" } }),
            "namespace must be set to set job ID",
        ),
    ] {
        let path = format!("/v1/acl/policy/{name}");
        let (status, text) = refusal(acl.manager.write(&path, body).await);
        assert_eq!(status, 400, "{text}");
        assert!(text.contains(words), "{text}");
    }
    let list = acl.manager.read("/v1/acl/policies").await;
    assert_eq!(list.expect("a list"), json!([]));
}

#[tokio::test]
async fn callers_see_their_own_policies_and_anonymous() {
    let acl = Acl::start().await;
    for name in ["mine", "roles", "theirs", "anonymous"] {
        acl.policy(name, READ).await;
    }
    let role = json!({ "Name": "r", "Policies": [{ "Name": "roles" }] });
    acl.manager
        .write("/v1/acl/role", role)
        .await
        .expect("a role");
    let fields = json!({ "Policies": ["mine", "missing"], "Roles": [{ "Name": "r" }] });
    let (_, own) = acl.token(fields).await;
    let list = own.read("/v1/acl/policies").await.expect("a list");
    assert_eq!(names(&list), ["anonymous", "mine", "roles"]);
    let list = own.read("/v1/acl/policy/self").await.expect("a list");
    assert_eq!(names(&list), ["mine", "roles"]);
    own.read("/v1/acl/policy/roles").await.expect("its own");
    let denied = (403, "Permission denied".to_owned());
    for name in ["theirs", "nothing"] {
        let path = format!("/v1/acl/policy/{name}");
        assert_eq!(refusal(own.read(&path).await), denied, "{name}");
    }
    assert_eq!(refusal(own.remove("/v1/acl/policy/mine").await), denied);
    let stranger = &acl.world.client;
    let list = stranger.read("/v1/acl/policies").await.expect("a list");
    assert_eq!(names(&list), ["anonymous"]);
}
