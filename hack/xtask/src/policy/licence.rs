//! SPDX expressions: may we ship a package under this text?
//!
//! ```text
//! or   := and ("OR" and | "/" and)*      one allowed branch is enough
//! and  := term ("AND" term)*             every branch must be allowed
//! term := "(" or ")" | id ["WITH" id]
//! ```
//!
//! The slash is how old manifests wrote OR. An allowed id includes its exception: `A WITH B` is a
//! licence of its own here, as it is in deny.toml.

/// Whether the whole expression is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    Forbidden,
}

/// Deeper nesting than any real licence has.
const DEPTH_MAX: usize = 32;

/// Judges an expression; `allows` answers for one licence id.
///
/// # Errors
/// If the text is no expression; the error says where it stopped making sense.
pub(super) fn judge(text: &str, allows: impl Fn(&str) -> bool) -> Result<Verdict, String> {
    let spaced = text
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " / ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader {
        tokens: &tokens,
        at: 0,
        allows: &allows,
    };
    let allowed = reader.alternatives(0)?;
    match reader.peek() {
        None if allowed => Ok(Verdict::Allowed),
        None => Ok(Verdict::Forbidden),
        Some(token) => Err(format!("unexpected `{token}`")),
    }
}

struct Reader<'a> {
    tokens: &'a [&'a str],
    at: usize,
    allows: &'a dyn Fn(&str) -> bool,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).copied()
    }

    fn take_if(&mut self, words: &[&str]) -> bool {
        let found = self.peek().is_some_and(|token| words.contains(&token));
        self.at += usize::from(found);
        found
    }

    fn alternatives(&mut self, depth: usize) -> Result<bool, String> {
        let mut allowed = self.conjunction(depth)?;
        while self.take_if(&["OR", "/"]) {
            // Not `||`: the rest must be read even when the answer is known.
            allowed |= self.conjunction(depth)?;
        }
        Ok(allowed)
    }

    fn conjunction(&mut self, depth: usize) -> Result<bool, String> {
        let mut allowed = self.term(depth)?;
        while self.take_if(&["AND"]) {
            allowed &= self.term(depth)?;
        }
        Ok(allowed)
    }

    fn term(&mut self, depth: usize) -> Result<bool, String> {
        if depth > DEPTH_MAX {
            return Err("nested too deeply".to_owned());
        }
        let token = self.peek().ok_or("it ends too early")?;
        self.at += 1;
        if token == "(" {
            let allowed = self.alternatives(depth + 1)?;
            return if self.take_if(&[")"]) {
                Ok(allowed)
            } else {
                Err("`)` is missing".to_owned())
            };
        }
        if [")", "OR", "AND", "WITH", "/"].contains(&token) {
            return Err(format!("unexpected `{token}`"));
        }
        if self.take_if(&["WITH"]) {
            let exception = self.peek().ok_or("it ends after WITH")?;
            self.at += 1;
            return Ok((self.allows)(&format!("{token} WITH {exception}")));
        }
        Ok((self.allows)(token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(text: &str) -> Result<Verdict, String> {
        judge(text, |id| {
            ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].contains(&id)
        })
    }

    #[test]
    fn one_allowed_alternative_is_enough() {
        for text in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/GPL-3.0",
            "(GPL-3.0 OR MIT) AND ISC",
        ] {
            assert_eq!(verdict(text), Ok(Verdict::Allowed), "{text}");
        }
    }

    #[test]
    fn every_part_of_a_conjunction_must_be_allowed() {
        for text in [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "MIT AND (GPL-3.0 OR AGPL-3.0)",
        ] {
            assert_eq!(verdict(text), Ok(Verdict::Forbidden), "{text}");
        }
        // AND binds tighter than OR.
        assert_eq!(verdict("MIT OR GPL-3.0 AND AGPL-3.0"), Ok(Verdict::Allowed));
    }

    #[test]
    fn an_exception_makes_another_licence() {
        assert_eq!(
            verdict("Apache-2.0 WITH LLVM-exception"),
            Ok(Verdict::Allowed)
        );
        assert_eq!(verdict("Apache-2.0"), Ok(Verdict::Forbidden));
        assert_eq!(verdict("MIT WITH Some-exception"), Ok(Verdict::Forbidden));
    }

    #[test]
    fn what_is_no_expression_is_an_error() {
        let deep = "(".repeat(100);
        for text in [
            "",
            "MIT OR",
            "(MIT",
            "MIT)",
            "MIT ISC",
            "OR MIT",
            "MIT WITH",
            deep.as_str(),
        ] {
            assert!(verdict(text).is_err(), "{text}");
        }
    }
}
