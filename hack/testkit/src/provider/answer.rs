//! The answers of a provider, honest or not.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use protocol_access::jwt::sign;
use protocol_access::oidc::percent_encode;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::http::{Answer, Request, decoded, fields};
use super::{CLIENT_ID, CLIENT_SECRET, Granted, Key, Misdeed, Shared, now_s};

/// The user of every login.
const SUBJECT: &str = "user-1";
/// The access token that opens the user info.
const ACCESS_TOKEN: &str = "planted access token";

pub(super) fn to(shared: &Arc<Mutex<Shared>>, ask: &Request) -> Answer {
    let path = ask.path.as_str();
    let misdeed = {
        let mut shared = shared.lock();
        *shared.requests.entry(path.to_owned()).or_insert(0) += 1;
        shared.misdeed(path)
    };
    if let Some(answer) = misdeed.and_then(|misdeed| broken(shared, misdeed)) {
        return answer;
    }
    match path {
        "/.well-known/openid-configuration" => ok(&discovery(&shared.lock(), misdeed)),
        "/keys" => ok(&shared.lock().key_set()),
        "/auth" => match log_in(shared, ask) {
            Ok(to) => Answer::Location(to),
            Err(why) => refusal(&why),
        },
        "/token" => match exchange(shared, ask, misdeed) {
            Ok(tokens) => ok(&tokens),
            Err(why) => refusal(&why),
        },
        "/me" => ok(&user_info(&shared.lock(), ask, misdeed)),
        "/moved/keys" => ok(&shared.lock().key_set()),
        _ => Answer::Whole {
            status: 404,
            body: "{}".to_owned(),
        },
    }
}

fn ok(value: &Value) -> Answer {
    Answer::Whole {
        status: 200,
        body: value.to_string(),
    }
}

fn refusal(why: &str) -> Answer {
    Answer::Whole {
        status: 400,
        body: json!({"error": "invalid_grant", "error_description": why}).to_string(),
    }
}

/// Answers that break the protocol below.
fn broken(shared: &Mutex<Shared>, misdeed: Misdeed) -> Option<Answer> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    Some(match misdeed {
        Misdeed::Stalls => Answer::Stall(Vec::new()),
        Misdeed::Trickles => {
            Answer::Stall(format!("{head}Content-Length: 100\r\n\r\n{{").into_bytes())
        }
        Misdeed::Redirects => Answer::Location(format!("{}/moved/keys", shared.lock().issuer())),
        Misdeed::EndsEarly => {
            Answer::Raw(format!("{head}Content-Length: 100000\r\n\r\n{{}}").into_bytes())
        }
        Misdeed::ClaimsMuch => {
            Answer::Stall(format!("{head}Content-Length: 99999999999\r\n\r\n{{").into_bytes())
        }
        Misdeed::SendsMuch => {
            let mut bytes = format!("{head}Connection: close\r\n\r\n").into_bytes();
            bytes.resize(bytes.len() + 4 * 1024 * 1024, b' ');
            Answer::Stall(bytes)
        }
        Misdeed::Fails => Answer::Whole {
            status: 500,
            body: "{}".to_owned(),
        },
        Misdeed::Babbles => Answer::Whole {
            status: 200,
            body: "<html>".to_owned(),
        },
        _ => return None,
    })
}

fn discovery(shared: &Shared, misdeed: Option<Misdeed>) -> Value {
    let issuer = shared.issuer();
    let shown = match misdeed {
        Some(Misdeed::OtherIssuer) => "https://evil.example",
        _ => &issuer,
    };
    let token_endpoint = match misdeed {
        Some(Misdeed::PointsInside) => "http://169.254.169.254/token".to_owned(),
        _ => format!("{issuer}/token"),
    };
    json!({
        "issuer": shown,
        "authorization_endpoint": format!("{issuer}/auth"),
        "token_endpoint": token_endpoint,
        "jwks_uri": format!("{issuer}/keys"),
        "userinfo_endpoint": format!("{issuer}/me"),
        "authorization_response_iss_parameter_supported": true,
    })
}

/// Where the user is sent back to.
pub(super) fn log_in(shared: &Mutex<Shared>, ask: &Request) -> Result<String, String> {
    let fields = fields(&ask.query);
    let field = |name: &str| {
        fields
            .get(name)
            .cloned()
            .ok_or_else(|| format!("no {name}"))
    };
    if field("client_id")? != CLIENT_ID || field("response_type")? != "code" {
        return Err("another client or flow".to_owned());
    }
    if !field("scope")?.split(' ').any(|scope| scope == "openid") {
        return Err("no scope openid".to_owned());
    }
    let (redirect_uri, state) = (field("redirect_uri")?, field("state")?);
    let mut shared = shared.lock();
    shared.numbers += 1;
    let code = format!("code-of-a-login-{}", shared.numbers);
    let granted = Granted {
        redirect_uri: redirect_uri.clone(),
        nonce: field("nonce")?,
        challenge: fields.get("code_challenge").cloned(),
    };
    shared.codes.insert(code.clone(), granted);
    let (state, iss) = (percent_encode(&state), percent_encode(&shared.issuer()));
    Ok(format!(
        "{redirect_uri}?code={code}&state={state}&iss={iss}"
    ))
}

fn exchange(
    shared: &Mutex<Shared>,
    ask: &Request,
    misdeed: Option<Misdeed>,
) -> Result<Value, String> {
    let fields = fields(&ask.body);
    let field = |name: &str| fields.get(name).map_or("", String::as_str);
    let basic = ask.authorization.strip_prefix("Basic ").unwrap_or_default();
    let basic = STANDARD.decode(basic).unwrap_or_default();
    let basic = String::from_utf8(basic).unwrap_or_default();
    let client = basic.split_once(':').unwrap_or_default();
    if (decoded(client.0), decoded(client.1)) != (CLIENT_ID.to_owned(), CLIENT_SECRET.to_owned()) {
        return Err("another client".to_owned());
    }
    let mut shared = shared.lock();
    let granted = shared.codes.remove(field("code")).ok_or("no such code")?;
    if field("redirect_uri") != granted.redirect_uri {
        return Err("another redirect".to_owned());
    }
    if let Some(challenge) = granted.challenge {
        let digest = Sha256::digest(field("code_verifier").as_bytes());
        if URL_SAFE_NO_PAD.encode(digest) != challenge {
            return Err("another verifier".to_owned());
        }
    }
    let id_token = id_token(&shared, &granted.nonce, misdeed);
    Ok(json!({"id_token": id_token, "access_token": ACCESS_TOKEN, "token_type": "Bearer"}))
}

fn id_token(shared: &Shared, nonce: &str, misdeed: Option<Misdeed>) -> String {
    let mut claims: Map<String, Value> = shared.claims.clone();
    let expires = match misdeed {
        Some(Misdeed::Expired) => now_s() - 3600,
        _ => now_s() + 600,
    };
    claims.insert("iss".to_owned(), shared.issuer().into());
    claims.insert("sub".to_owned(), SUBJECT.into());
    claims.insert("aud".to_owned(), CLIENT_ID.into());
    claims.insert("iat".to_owned(), (expires - 600).into());
    claims.insert("exp".to_owned(), expires.into());
    claims.insert("nonce".to_owned(), nonce.into());
    match misdeed {
        Some(Misdeed::OtherIssuer) => {
            claims.insert("iss".to_owned(), "https://evil.example".into());
        }
        Some(Misdeed::OtherAudience) => {
            claims.insert("aud".to_owned(), "another client".into());
        }
        Some(Misdeed::OtherNonce) => {
            claims.insert("nonce".to_owned(), "another nonce".into());
        }
        Some(Misdeed::NoNonce) => {
            claims.remove("nonce");
        }
        _ => {}
    }
    match misdeed {
        Some(Misdeed::OtherKey) => {
            let other = Key::new(shared.keys[0].id.clone(), shared.keys[0].kind);
            sign(&claims, &other.signing()).expect("a token")
        }
        Some(Misdeed::Unsigned) => {
            let encoded = |part: Value| URL_SAFE_NO_PAD.encode(part.to_string());
            format!(
                "{}.{}.",
                encoded(json!({"alg": "none"})),
                encoded(claims.into())
            )
        }
        _ => sign(&claims, &shared.keys[0].signing()).expect("a token"),
    }
}

fn user_info(shared: &Shared, ask: &Request, misdeed: Option<Misdeed>) -> Value {
    if ask.authorization != format!("Bearer {ACCESS_TOKEN}") {
        return json!({"error": "invalid_token"});
    }
    let subject = match misdeed {
        Some(Misdeed::OtherSubject) => "admin",
        _ => SUBJECT,
    };
    json!({"sub": subject, "email": "user@example.com", "issuer": shared.issuer()})
}
