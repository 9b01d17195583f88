//! The same by a client that is not ours.

use nomad_client_rs::acl::{
    AclPolicy, AclTokenType, CreateAclTokenRequest, ExchangeOneTimeTokenRequest,
    ListAclPoliciesOptions, ListAclTokensOptions, UpdateAclTokenRequest,
};
use nomad_client_rs::{ClientError, Config, Connection, Credential, NomadClient};

use super::Acl;

fn client(acl: &Acl, secret: &str) -> Result<NomadClient, ClientError> {
    let address = format!("http://{}", acl.world.server.http_address());
    NomadClient::new(Config {
        connection: Connection::HttpApi {
            address,
            credential: Some(Credential::AclToken(secret.to_owned())),
        },
        ..Config::default()
    })
}

#[tokio::test]
async fn foreign_client_manages_tokens_and_policies() -> Result<(), ClientError> {
    let acl = Acl::start().await;
    let manager = client(&acl, &acl.secret)?;
    let policy = AclPolicy {
        name: Some("readers".to_owned()),
        rules: Some("namespace \"default\" { policy = \"read\" }".to_owned()),
        ..AclPolicy::default()
    };
    manager.write_acl_policy("readers", &policy).await?;
    let read = manager.read_acl_policy("readers").await?;
    assert_eq!(read.rules, policy.rules);
    let list = manager
        .list_acl_policies(&ListAclPoliciesOptions::default())
        .await?;
    assert_eq!(list.len(), 1);

    let request = CreateAclTokenRequest {
        name: Some("ci".to_owned()),
        r#type: AclTokenType::Client,
        policies: vec!["readers".to_owned()],
        expiration_ttl: Some(600_000_000_000),
        ..CreateAclTokenRequest::default()
    };
    let made = manager.create_acl_token(&request).await?;
    assert_eq!(made.expiration_ttl.as_deref(), Some("10m0s"));
    let accessor_id = made.accessor_id.clone().unwrap_or_default();
    assert_eq!(manager.read_acl_token(&accessor_id).await?, made);
    let own = client(&acl, made.secret_id.as_deref().unwrap_or_default())?;
    assert_eq!(own.read_own_acl_token().await?, made);

    let one_time = own.create_one_time_token().await?.one_time_token;
    let secret = one_time.and_then(|it| it.one_time_secret_id);
    let exchange = ExchangeOneTimeTokenRequest {
        one_time_secret_id: secret.unwrap_or_default(),
    };
    let exchanged = manager.exchange_one_time_token(&exchange).await?;
    assert_eq!(exchanged.token.as_ref(), Some(&made));

    let change = UpdateAclTokenRequest {
        accessor_id: accessor_id.clone(),
        name: Some("deploy".to_owned()),
        r#type: AclTokenType::Client,
        policies: vec!["writers".to_owned()],
    };
    let changed = manager.update_acl_token(&accessor_id, &change).await?;
    assert_eq!(changed.policies, Some(vec!["writers".to_owned()]));
    let tokens = manager
        .list_acl_tokens(&ListAclTokensOptions::default())
        .await?;
    assert!(tokens.iter().all(|token| token.secret_id.is_none()));
    manager.delete_acl_token(&accessor_id).await?;
    own.read_own_acl_token().await.expect_err("it is gone");
    manager.delete_acl_policy("readers").await
}
