//! One-time tokens.

use futures::future::join_all;
use serde_json::json;

use super::{Acl, Asks};
use crate::world::refusal;

const PATH: &str = "/v1/acl/token/onetime";
const EXCHANGE: &str = "/v1/acl/token/onetime/exchange";

#[tokio::test]
async fn one_time_token_is_exchanged_once_of_fifty_attempts() {
    let acl = Acl::start().await;
    let (made, own) = acl.token(json!({ "Policies": ["p"] })).await;
    let one_time = own.write(PATH, json!({})).await.expect("a one-time token");
    let one_time = &one_time["OneTimeToken"];
    assert_eq!(one_time["AccessorID"], made["AccessorID"]);
    let body = json!({ "OneTimeSecretID": one_time["OneTimeSecretID"] });
    // Callers that have no token yet.
    let stranger = &acl.world.client;
    let exchanges = (0..50).map(|_| stranger.write(EXCHANGE, body.clone()));
    let answers = join_all(exchanges).await;
    let (got, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((got.len(), refused.len()), (1, 49));
    for answer in got {
        assert_eq!(answer.expect("a token")["Token"], made);
    }
    let denied = (403, "Permission denied".to_owned());
    for answer in refused {
        assert_eq!(refusal(answer), denied);
    }
}

#[tokio::test]
async fn exchange_is_refused_once_the_token_is_gone() {
    let acl = Acl::start().await;
    let (made, own) = acl.token(json!({ "Policies": ["p"] })).await;
    let one_time = own.write(PATH, json!({})).await.expect("a one-time token");
    let path = format!(
        "/v1/acl/token/{}",
        made["AccessorID"].as_str().expect("an id")
    );
    acl.manager.remove(&path).await.expect("removed");
    let secret = &one_time["OneTimeToken"]["OneTimeSecretID"];
    let denied = (403, "Permission denied".to_owned());
    for secret in [
        secret.clone(),
        made["AccessorID"].clone(),
        json!("x"),
        json!(""),
    ] {
        let body = json!({ "OneTimeSecretID": secret });
        assert_eq!(
            refusal(acl.world.client.write(EXCHANGE, body).await),
            denied
        );
    }
    let stranger = acl.world.client.write(PATH, json!({})).await;
    assert_eq!(refusal(stranger), denied);
}
