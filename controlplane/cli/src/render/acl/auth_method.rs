//! Auth methods: the list, and one with its configuration.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol_model::duration::format_go;
use protocol_model::{AuthMethod, AuthMethodConfig, AuthMethodStub, Leeway};

use crate::render::columns::{Columns, pairs};

/// All auth methods.
pub(crate) fn list(methods: &[AuthMethodStub]) -> String {
    if methods.is_empty() {
        return "No ACL auth methods found".to_owned();
    }
    let mut table = Columns::new(&["Name", "Type", "Default"]);
    for method in methods {
        table.row([
            method.name.clone(),
            method.kind.clone(),
            method.default.to_string(),
        ]);
    }
    table.render()
}

/// One auth method.
pub(crate) fn one(method: &AuthMethod) -> String {
    let head = pairs(&[
        ("Name", method.name.clone()),
        ("Type", method.kind.clone()),
        ("Locality", method.token_locality.clone()),
        ("Max Token TTL", format_go(method.max_token_ttl)),
        ("Token Name Format", method.token_name_format.clone()),
        ("Default", method.default.to_string()),
        ("Create Index", method.create_index.to_string()),
        ("Modify Index", method.modify_index.to_string()),
    ]);
    let config = match &method.config {
        Some(config) => pairs(&lines(config)),
        None => "<none>\n".to_owned(),
    };
    format!("{head}\nAuth Method Config\n\n{config}")
}

fn lines(config: &AuthMethodConfig) -> Vec<(&'static str, String)> {
    let pkce = config.oidc_enable_pkce.unwrap_or(true);
    vec![
        (
            "JWT Validation Public Keys",
            config.jwt_validation_pub_keys.join(","),
        ),
        ("JWKS URL", config.jwks_url.clone()),
        ("JWKS CA cert", config.jwks_ca_cert.clone()),
        ("OIDC Discovery URL", config.oidc_discovery_url.clone()),
        ("OIDC Client ID", config.oidc_client_id.clone()),
        (
            "OIDC Client Secret",
            config.oidc_client_secret.reveal().to_owned(),
        ),
        ("OIDC Enable PKCE", pkce.to_string()),
        (
            "OIDC Disable UserInfo",
            config.oidc_disable_user_info.to_string(),
        ),
        ("OIDC Scopes", config.oidc_scopes.join(",")),
        ("Bound audiences", config.bound_audiences.join(",")),
        ("Bound issuer", config.bound_issuer.join(",")),
        (
            "Allowed redirects URIs",
            config.allowed_redirect_uris.join(","),
        ),
        ("Discovery CA pem", config.discovery_ca_pem.join(",")),
        ("Signing algorithms", config.signing_algs.join(",")),
        ("Expiration Leeway", leeway(config.expiration_leeway)),
        ("NotBefore Leeway", leeway(config.not_before_leeway)),
        ("ClockSkew Leeway", leeway(config.clock_skew_leeway)),
        ("Claim mappings", mappings(&config.claim_mappings)),
        ("List claim mappings", mappings(&config.list_claim_mappings)),
        ("Verbose Logging", config.verbose_logging.to_string()),
    ]
}

fn leeway(Leeway(nanos): Leeway) -> String {
    let span = format_go(Duration::from_nanos(nanos.unsigned_abs()));
    if nanos < 0 { format!("-{span}") } else { span }
}

/// `{claim: name}; {claim: name}`.
fn mappings(map: &BTreeMap<String, String>) -> String {
    let pair = |(claim, name): (&String, &String)| format!("{{{claim}: {name}}}");
    map.iter().map(pair).collect::<Vec<_>>().join("; ")
}
