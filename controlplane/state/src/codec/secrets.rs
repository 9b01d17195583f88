//! Secrets of tokens and auth methods that move to another root key: bytes in the log, never text.

use bytes::Bytes;
use protocol_wire::log;

use super::DecodeError;
use super::variables::{bytes12, sealed, sealed_message};
use crate::command::{Resealed, TokensRekey};

pub(super) fn rekey_message(command: &TokensRekey) -> log::TokensRekey {
    let TokensRekey { tokens, methods } = command;
    log::TokensRekey {
        tokens: tokens.iter().map(message).collect(),
        methods: methods.iter().map(message).collect(),
    }
}

pub(super) fn rekey(message: log::TokensRekey) -> Result<TokensRekey, DecodeError> {
    let log::TokensRekey { tokens, methods } = message;
    Ok(TokensRekey {
        tokens: tokens.into_iter().map(resealed).collect::<Result<_, _>>()?,
        methods: methods
            .into_iter()
            .map(resealed)
            .collect::<Result<_, _>>()?,
    })
}

fn message(secret: &Resealed) -> log::ResealedSecret {
    let Resealed {
        name,
        key,
        nonce,
        sealed,
    } = secret;
    log::ResealedSecret {
        name: name.clone(),
        key: *key,
        nonce: Bytes::copy_from_slice(nonce),
        sealed: Some(sealed_message(sealed)),
    }
}

fn resealed(message: log::ResealedSecret) -> Result<Resealed, DecodeError> {
    let log::ResealedSecret {
        name,
        key,
        nonce,
        sealed: message,
    } = message;
    Ok(Resealed {
        name,
        key,
        nonce: bytes12(&nonce)?,
        sealed: sealed(message.ok_or(DecodeError::Missing("a sealed value"))?)?,
    })
}
