//! Questions and answers about identities as they travel.

use noded_core::identities::{IdentityKey, IdentityRejection, Jwt, SignedToken};
use protocol_wire::v1;
use protocol_wire::v1::signed_identity::Result as Outcome;

/// The question for these identities.
pub(super) fn question(names: &[IdentityKey]) -> v1::SignIdentities {
    let name = |key: &IdentityKey| v1::IdentityName {
        alloc_id: key.alloc.as_bytes().to_vec().into(),
        task: key.task.clone(),
        identity: key.identity.clone(),
    };
    v1::SignIdentities {
        identities: names.iter().map(name).collect(),
    }
}

/// The answer, in the order of the question.
pub(super) fn answer(signed: v1::SignedIdentities) -> Vec<Result<SignedToken, IdentityRejection>> {
    let identities = signed.identities.into_iter();
    identities.map(|it| outcome(it.result)).collect()
}

fn outcome(outcome: Option<Outcome>) -> Result<SignedToken, IdentityRejection> {
    match outcome {
        Some(Outcome::Token(token)) => Ok(SignedToken {
            jwt: Jwt::new(token.jwt),
            issued_at: token.issued_at,
            expires_at: token.expires_at,
        }),
        Some(Outcome::Rejection(rejection)) => Err(rejected(rejection)),
        None => Err(IdentityRejection::Other),
    }
}

fn rejected(rejection: i32) -> IdentityRejection {
    match v1::IdentityRejection::try_from(rejection) {
        Ok(v1::IdentityRejection::AllocNotFound) => IdentityRejection::AllocNotFound,
        Ok(v1::IdentityRejection::TaskNotFound) => IdentityRejection::TaskNotFound,
        Ok(v1::IdentityRejection::IdentityNotFound) => IdentityRejection::IdentityNotFound,
        Ok(v1::IdentityRejection::Unspecified) | Err(_) => IdentityRejection::Other,
    }
}
