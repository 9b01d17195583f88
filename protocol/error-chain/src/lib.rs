//! An error and its causes as one line: `cannot open a: permission denied`.
//!
//! `Display` of our errors does not print the source (STYLE.md): the code that handles an error
//! prints the chain, once, with [`chain`].

use std::error::Error;
use std::iter::successors;

/// `error` and its sources, the outermost first, joined by `": "`.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    for cause in successors(error.source(), |&cause| cause.source()) {
        text.push_str(": ");
        text.push_str(&cause.to_string());
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Outer(Option<fmt::Error>);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("cannot write")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.0.as_ref().map(|inner| inner as _)
        }
    }

    #[test]
    fn an_error_is_followed_by_its_causes() {
        let inner = fmt::Error.to_string();
        assert_eq!(
            chain(&Outer(Some(fmt::Error))),
            format!("cannot write: {inner}")
        );
        assert_eq!(chain(&Outer(None)), "cannot write");
    }
}
