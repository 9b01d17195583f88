//! One-time tokens: made, used up once, removed.

use super::{check_room, check_rows, outcome};
use crate::access::{ONE_TIME_TOKEN_TTL, ONE_TIME_TOKENS_MAX, OneTimeToken};
use crate::applied::{AccessRefusal, AccessRows, Outcome, Refusal, Signal};
use crate::apply::Draft;
use crate::command::OneTimeTokens;
use crate::record::Digest;

impl Draft {
    pub(super) fn one_time_tokens(&mut self, command: OneTimeTokens) -> Result<Outcome, Refusal> {
        match command {
            OneTimeTokens::Make {
                digest,
                accessor_id,
            } => self.one_time_token_make(digest, accessor_id)?,
            OneTimeTokens::Exchange { digest } => {
                let accessor_id = self.one_time_token_exchange(&digest)?;
                self.signal(Signal::OneTimeTokensChanged);
                return Ok(Outcome::OneTimeTokenExchanged { accessor_id });
            }
            OneTimeTokens::Expire { digests } => {
                if !self.one_time_tokens_expire(&digests)? {
                    return Ok(outcome(false));
                }
            }
        }
        self.signal(Signal::OneTimeTokensChanged);
        Ok(outcome(true))
    }

    fn one_time_token_make(
        &mut self,
        digest: Digest,
        accessor_id: String,
    ) -> Result<(), AccessRefusal> {
        if !self.is_usable(&accessor_id) {
            return Err(AccessRefusal::UnknownToken(accessor_id));
        }
        if self.tables.one_time_token(&digest).is_some() {
            return Err(AccessRefusal::SecretInUse(accessor_id));
        }
        let access = &self.tables.access;
        if !access.one_time_by_accessor.contains_key(&accessor_id) {
            let count = access.one_time_tokens.len();
            check_room(AccessRows::OneTimeTokens, count, ONE_TIME_TOKENS_MAX)?;
        }
        self.tables.put_one_time_token(OneTimeToken {
            digest,
            accessor_id,
            expires: self.now.saturating_add(ONE_TIME_TOKEN_TTL),
            create_index: self.index,
        });
        Ok(())
    }

    fn one_time_token_exchange(&mut self, digest: &Digest) -> Result<String, AccessRefusal> {
        let token = self.tables.one_time_token(digest);
        let token = token.filter(|token| !token.is_expired(self.now));
        let accessor_id = token
            .map(|token| token.accessor_id.clone())
            .filter(|accessor| self.is_usable(accessor))
            .ok_or(AccessRefusal::OneTimeTokenInvalid)?;
        self.tables.remove_one_time_token(digest);
        Ok(accessor_id)
    }

    fn one_time_tokens_expire(&mut self, digests: &[Digest]) -> Result<bool, AccessRefusal> {
        check_rows(digests)?;
        let mut changed = false;
        for digest in digests {
            let token = self.tables.one_time_token(digest);
            if token.is_some_and(|token| token.is_expired(self.now)) {
                self.tables.remove_one_time_token(digest);
                changed = true;
            }
        }
        Ok(changed)
    }

    fn is_usable(&self, accessor_id: &str) -> bool {
        let token = self.tables.acl_token(accessor_id);
        token.is_some_and(|token| !token.is_expired(self.now))
    }
}
