//! Questions of the node: tokens that say what they are of, keys, variables.

use std::sync::Arc;

use protocol_model::AllocId;
use protocol_transport::{FrameReader, FrameWriter};
use protocol_wire::kind::from_frame;
use protocol_wire::v1;
use protocol_wire::v1::query_reply::Reply;
use protocol_wire::v1::query_request::Query;
use protocol_wire::v1::signed_identity::Result as Outcome;
use protocol_wire::v1::template_query::Source;
use serde_json::json;
use tokio::sync::watch;

use super::{Known, write};

pub(super) async fn serve(
    mut writer: FrameWriter,
    mut reader: FrameReader,
    known: Arc<watch::Sender<Known>>,
) {
    let frame = reader.expect().await.unwrap();
    let _: v1::StreamHello = from_frame(frame.kind, frame.body).unwrap();
    let frame = reader.expect().await.unwrap();
    let request: v1::QueryRequest = from_frame(frame.kind, frame.body).unwrap();
    let reply = match request.query.unwrap() {
        Query::SignIdentities(asked) => Reply::Signed(sign(&known, &asked)),
        Query::Keys(asked) => Reply::Keys(keys(&known, &asked).await),
        Query::Template(asked) => Reply::Template(template(&known, &asked)),
        Query::TemplateWatch(watched) => Reply::Moved(moved(&known, &watched).await),
    };
    write(&mut writer, &v1::QueryReply { reply: Some(reply) }).await;
}

async fn keys(known: &watch::Sender<Known>, asked: &v1::KeysQuery) -> v1::PublicKeys {
    let mut known = known.subscribe();
    let newer = known.wait_for(|known| known.keys.0 > asked.known_index);
    let (index, jwks) = newer.await.unwrap().keys.clone();
    v1::PublicKeys {
        index,
        jwks: jwks.to_string().into_bytes().into(),
        issuer: String::new(),
    }
}

/// The default identity does not expire.
fn sign(known: &watch::Sender<Known>, asked: &v1::SignIdentities) -> v1::SignedIdentities {
    let mut identities = Vec::new();
    known.send_modify(|known| {
        for name in &asked.identities {
            let alloc = AllocId::from_slice(&name.alloc_id).unwrap();
            let result = if known.wanted.contains_key(&alloc) {
                known.signed += 1;
                let ttl = match name.identity.as_str() {
                    "default" => 0,
                    _ => known.token_ttl_s,
                };
                Outcome::Token(v1::IdentityToken {
                    jwt: format!("token-{}-{}", name.identity, known.signed),
                    issued_at: 1_000,
                    expires_at: if ttl == 0 { 0 } else { 1_000 + ttl },
                    root_key: known.root_key,
                })
            } else {
                Outcome::Rejection(v1::IdentityRejection::AllocNotFound.into())
            };
            identities.push(v1::SignedIdentity {
                result: Some(result),
            });
        }
    });
    v1::SignedIdentities { identities }
}

/// Every source moves with the index.
async fn moved(known: &watch::Sender<Known>, watched: &v1::TemplateWatch) -> v1::TemplateMoved {
    let mut known = known.subscribe();
    let lowest = watched.queries.iter().map(|it| it.known_index).min();
    let known = known.wait_for(|known| lowest.is_some_and(|lowest| known.index > lowest));
    let index = known.await.unwrap().index;
    let positions = (0..).zip(&watched.queries);
    let positions = positions.filter(|(_, asked)| index > asked.known_index);
    let positions = positions.map(|(position, _)| position).collect();
    v1::TemplateMoved { positions }
}

fn template(known: &watch::Sender<Known>, asked: &v1::TemplateQuery) -> v1::TemplateReply {
    let known = known.borrow().clone();
    let found = |path: &String| match asked.source.as_ref().unwrap() {
        Source::Variable(source) => *path == source.path,
        Source::Variables(source) => path.starts_with(&source.path),
    };
    let with_items = matches!(asked.source, Some(Source::Variable(_)));
    let variables = known.variables.iter().filter(|(path, _)| found(path));
    let variables = variables.map(|(path, items)| v1::TemplateVariable {
        namespace: "default".to_owned(),
        path: path.clone(),
        json: json!({
            "Namespace": "default", "Path": path, "CreateIndex": 1, "ModifyIndex": known.index,
            "Items": with_items.then_some(items),
        })
        .to_string()
        .into_bytes()
        .into(),
    });
    v1::TemplateReply {
        index: known.index,
        variables: variables.collect(),
    }
}
