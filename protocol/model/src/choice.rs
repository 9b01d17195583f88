//! Closed sets of words in job files. The structs keep the text as it was written, so that
//! validation can name every bad word of a file at once; readers of valid jobs parse it here.

/// A word that is not among the allowed ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} {text:?} (allowed: {})", allowed.join(", "))]
pub struct UnknownChoice {
    /// What the word is about.
    pub what: &'static str,
    /// The word.
    pub text: String,
    /// The words that would do.
    pub allowed: &'static [&'static str],
}

/// Defines an enum with its spelling: `as_str`, `ALL`, `Display` and `FromStr`.
macro_rules! closed_choice {
    (
        $(#[$meta:meta])*
        pub enum $name:ident($what:literal) {
            $( $(#[$variant_meta:meta])* $variant:ident = $text:literal, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name {
            $( $(#[$variant_meta])* $variant, )+
        }

        impl $name {
            /// The words that job files use, in the order of the variants.
            pub const ALLOWED: &'static [&'static str] = &[$($text),+];

            /// The word that job files use.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$variant => $text, )+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::choice::UnknownChoice;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $( $text => Ok(Self::$variant), )+
                    _ => Err($crate::choice::UnknownChoice {
                        what: $what,
                        text: text.to_owned(),
                        allowed: Self::ALLOWED,
                    }),
                }
            }
        }
    };
}

pub(crate) use closed_choice;
