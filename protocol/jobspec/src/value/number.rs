//! Numbers of the expression language: exact as long as that is possible.

use serde_json::Value as Json;
use std::cmp::Ordering;
use std::fmt;

/// A number: exact while it is whole and fits, else a finite float.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Number {
    Whole(i128),
    Float(f64),
}

/// Whole floats below this become whole numbers: every integer up to 2^53 is exact in an `f64`.
const EXACT_FLOAT_MAX: f64 = 9_007_199_254_740_992.0;

impl Number {
    /// A finite float, made whole where that loses nothing; `None` for infinities and NaN.
    pub(crate) fn float(value: f64) -> Option<Self> {
        if !value.is_finite() {
            return None;
        }
        if value.fract() == 0.0 && value.abs() <= EXACT_FLOAT_MAX {
            #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
            return Some(Self::Whole(value as i128));
        }
        Some(Self::Float(value))
    }

    /// Reads decimal notation, with fraction and exponent.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Ok(whole) = text.parse::<i128>() {
            return Some(Self::Whole(whole));
        }
        // Rust reads "inf" and "nan" too; the language does not.
        let plain = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E');
        if text.is_empty() || !text.chars().all(plain) {
            return None;
        }
        text.parse::<f64>().ok().and_then(Self::float)
    }

    pub(crate) fn as_f64(self) -> f64 {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "what a float is for")]
            Self::Whole(whole) => whole as f64,
            Self::Float(float) => float,
        }
    }

    /// The whole number, or `None` for a fraction.
    pub(crate) fn as_whole(self) -> Option<i128> {
        match self {
            Self::Whole(whole) => Some(whole),
            Self::Float(_) => None,
        }
    }

    pub(crate) fn order(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Whole(a), Self::Whole(b)) => a.cmp(&b),
            (a, b) => a.as_f64().total_cmp(&b.as_f64()),
        }
    }

    pub(crate) fn into_json(self) -> Json {
        match self {
            Self::Whole(whole) => match (i64::try_from(whole), u64::try_from(whole)) {
                (Ok(signed), _) => Json::from(signed),
                (Err(_), Ok(unsigned)) => Json::from(unsigned),
                (Err(_), Err(_)) => Json::from(self.as_f64()),
            },
            Self::Float(float) => Json::from(float),
        }
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.order(*other) == Ordering::Equal
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(whole) => write!(f, "{whole}"),
            Self::Float(float) => write!(f, "{float}"),
        }
    }
}
