//! Operations as types: what a client calls them by, and what the list is made of.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::endpoint::Endpoint;
use crate::template::{Segment, Template};

/// An operation with the values of its path.
pub trait Operation {
    /// Its declaration.
    const ENDPOINT: Endpoint;
    /// What a request carries; `()` where it carries no JSON.
    type Body: Serialize;
    /// What is answered; `()` where that is no JSON.
    type Answer: DeserializeOwned;

    /// The value of one parameter of its path.
    fn value(&self, parameter: &str) -> &str;

    /// The path of a request, percent-encoded: a slash in a value is no separator.
    fn path(&self) -> String {
        let mut path = String::new();
        for segment in Template::parse(Self::ENDPOINT.path).segments() {
            path.push('/');
            match *segment {
                Segment::Literal(text) => path.push_str(text),
                Segment::One(name) | Segment::Many { name, .. } => {
                    encode(self.value(name), &mut path);
                }
            }
        }
        path
    }
}

/// Percent-encodes all but the unreserved characters (RFC 3986, section 2.3).
fn encode(text: &str, into: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            into.push(char::from(byte));
        } else {
            into.push('%');
            into.push(char::from(HEX[usize::from(byte >> 4)]));
            into.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

/// Declares the operations of one kind of object: a type for each, and the list `ALL`.
///
/// ```text
/// /// what it does, without a full stop
/// Name { parameter of the path, .. } (Body) -> Answer =
///     get("/v1/path/{parameter}", NEED).filterable();
/// ```
macro_rules! operations {
    ($(
        $(#[doc = $about:literal])+
        $name:ident { $($value:ident),* } $(($body:ty))? $(-> $answer:ty)?
            = $made:ident($path:literal, $need:ident) $(. $narrowed:ident($($argument:tt)*))*;
    )+) => {
        $(
            $crate::operation::operation! {
                @type [concat!($($about),+)] $name { $($value),* }
            }
            $crate::operation::operation! {
                @impl $name { $($value),* } [$($body)?] [$($answer)?]
                {
                    $crate::endpoint::Endpoint::$made($path, $need)
                        .named(stringify!($name), concat!($($about),+))
                        $(.json::<$body>(stringify!($body)))?
                        $(.answers(stringify!($answer)))?
                        $(.$narrowed($($argument)*))*
                }
            }
        )+

        /// All that this file declares.
        pub(crate) const ALL: &[$crate::endpoint::Endpoint] =
            {
                use $crate::operation::Operation as _;
                &[$($name::ENDPOINT),+]
            };
    };
}
pub(crate) use operations;

macro_rules! operation {
    (@type [$about:expr] $name:ident {}) => {
        #[doc = $about]
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
    };
    (@type [$about:expr] $name:ident { $($value:ident),+ }) => {
        #[doc = $about]
        #[derive(Clone, Copy, Debug)]
        pub struct $name<'a> {
            $(
                #[doc = concat!("The path's `", stringify!($value), "`.")]
                pub $value: &'a str,
            )+
        }
    };
    (@impl $name:ident {} [$($body:ty)?] [$($answer:ty)?] $endpoint:block) => {
        impl $crate::operation::Operation for $name {
            const ENDPOINT: $crate::endpoint::Endpoint = $endpoint;
            type Body = $crate::operation::or_unit!($($body)?);
            type Answer = $crate::operation::or_unit!($($answer)?);

            fn value(&self, _parameter: &str) -> &str {
                ""
            }
        }
    };
    (@impl $name:ident { $($value:ident),+ } [$($body:ty)?] [$($answer:ty)?] $endpoint:block) => {
        impl $crate::operation::Operation for $name<'_> {
            const ENDPOINT: $crate::endpoint::Endpoint = $endpoint;
            type Body = $crate::operation::or_unit!($($body)?);
            type Answer = $crate::operation::or_unit!($($answer)?);

            fn value(&self, parameter: &str) -> &str {
                match parameter {
                    $(stringify!($value) => self.$value,)+
                    _ => "",
                }
            }
        }
    };
}
pub(crate) use operation;

macro_rules! or_unit {
    () => {
        ()
    };
    ($given:ty) => {
        $given
    };
}
pub(crate) use or_unit;
