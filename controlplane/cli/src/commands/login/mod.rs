//! `drover login`: an access token for a token of an identity provider, or for a login there.
//!
//! ```text
//!   method of -method, or the default one
//!     JWT    -login-token --acl/login--------------------------------> token
//!     OIDC   acl/oidc/auth-url --> browser --> callback on loopback
//!            code, state --acl/oidc/complete-auth--------------------> token
//! ```

mod browser;
mod callback;

use clap::Args;
use protocol_api::acl::{
    AuthUrlRequest, CompleteAuthRequest, CompleteOidcLogin, ListAuthMethods, Login as SendToken,
    LoginRequest, StartOidcLogin, Token,
};
use protocol_client::{Client, Query};
use protocol_model::{AUTH_METHOD_JWT, AUTH_METHOD_OIDC, AuthMethodStub, SecretText};
use uuid::Uuid;

use self::callback::Callback;
use crate::failure::{Exit, Failure};
use crate::render::acl::token;
use crate::session::Session;

/// The address that Nomad's users have in `AllowedRedirectURIs`.
const CALLBACK_ADDRESS: &str = "localhost:4649";

#[derive(Args, Debug)]
pub(crate) struct Login {
    /// The auth method; without it, the default one
    #[arg(long, value_name = "NAME")]
    method: Option<String>,
    /// The token of the identity provider, for a method of type JWT
    #[arg(long, value_name = "TOKEN")]
    login_token: Option<String>,
    /// Where the browser is sent back to, for a method of type OIDC
    #[arg(long, value_name = "HOST:PORT", default_value = CALLBACK_ADDRESS)]
    oidc_callback_addr: String,
    /// Answer of the API
    #[arg(long)]
    json: bool,
}

impl Login {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        // A token that expired is a reason to log in, and no reason to be refused.
        let client = session.client()?.with_token(None);
        let method = method(&client, self.method.as_deref()).await?;
        let made = match (method.kind.as_str(), &self.login_token) {
            (AUTH_METHOD_JWT, Some(token)) => by_token(&client, &method.name, token).await?,
            (AUTH_METHOD_JWT, None) => {
                return Err(Failure::usage_hint(
                    format!(
                        "auth method {} is of type JWT: it needs a token",
                        method.name
                    ),
                    "give the token of the identity provider with -login-token",
                ));
            }
            (AUTH_METHOD_OIDC, None) => {
                let address = &self.oidc_callback_addr;
                by_browser(session, &client, &method.name, address).await?
            }
            (AUTH_METHOD_OIDC, Some(_)) => {
                return Err(Failure::usage_hint(
                    format!(
                        "auth method {} is of type OIDC: it takes no token",
                        method.name
                    ),
                    "leave -login-token out, or name a method of type JWT with -method",
                ));
            }
            (other, _) => {
                return Err(Failure::usage(format!(
                    "unsupported authentication type {other:?}"
                )));
            }
        };
        if self.json {
            session.out.json(&made)?;
            return Ok(Exit::SUCCESS);
        }
        let AuthMethodStub { name, kind, .. } = &method;
        session.out.data(&format!(
            "Successfully logged in via {kind} and {name}\n\n{}",
            token::one(&made)
        ))?;
        session.out.note(&format!(
            "hint: export DROVER_TOKEN={}",
            made.secret_id.reveal()
        ));
        Ok(Exit::SUCCESS)
    }
}

/// The method of this name, or the default one.
async fn method(client: &Client, name: Option<&str>) -> Result<AuthMethodStub, Failure> {
    let methods = client.call(&ListAuthMethods, &Query::new()).await?.value;
    let names: Vec<_> = methods.iter().map(|method| method.name.clone()).collect();
    let found = match name {
        Some(name) => methods.into_iter().find(|method| method.name == name),
        None => methods.into_iter().find(|method| method.default),
    };
    found.ok_or_else(|| {
        let problem = match name {
            Some(name) => format!("auth method {name:?} not found in the state store"),
            None => "must specify an auth method name, no default found".to_owned(),
        };
        match names.is_empty() {
            true => Failure::usage_hint(problem, "the cluster has no auth methods"),
            false => Failure::usage_hint(problem, format!("-method takes: {}", names.join(", "))),
        }
    })
}

async fn by_token(client: &Client, method: &str, token: &str) -> Result<Token, Failure> {
    let request = LoginRequest {
        auth_method_name: method.to_owned(),
        login_token: SecretText::new(token.trim()),
    };
    let answer = client
        .call_with(&SendToken, &Query::new(), &request)
        .await?;
    Ok(answer.value)
}

async fn by_browser(
    session: &Session,
    client: &Client,
    method: &str,
    address: &str,
) -> Result<Token, Failure> {
    let callback = Callback::listen(address).await?;
    let redirect_uri = callback.redirect_uri();
    let nonce = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
    let client_nonce = SecretText::new(nonce);
    let request = AuthUrlRequest {
        auth_method_name: method.to_owned(),
        redirect_uri: redirect_uri.clone(),
        client_nonce: client_nonce.clone(),
    };
    let answer = client
        .call_with(&StartOidcLogin, &Query::new(), &request)
        .await?;
    let url = answer.value.auth_url;
    session.out.note(&format!(
        "Complete the login via your OIDC provider. Open this address in a browser:\n\n    {url}\n"
    ));
    browser::open(&url);
    session
        .out
        .note("Waiting for the provider, at most 2 minutes...");
    let back = callback.wait(&url).await?;
    let request = CompleteAuthRequest {
        auth_method_name: method.to_owned(),
        client_nonce,
        state: back.state,
        code: SecretText::new(back.code),
        redirect_uri,
        iss: back.iss,
    };
    let answer = client
        .call_with(&CompleteOidcLogin, &Query::new(), &request)
        .await?;
    Ok(answer.value)
}
