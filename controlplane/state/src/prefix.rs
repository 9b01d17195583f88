//! Ids by their beginning, as people type them: `3f2a` finds `3f2a9c04-...`.

use uuid::Uuid;

/// The range of ids that begin with the same hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdPrefix {
    /// The lowest id of the range.
    pub low: Uuid,
    /// The highest id of the range.
    pub high: Uuid,
}

impl IdPrefix {
    /// The range of `text`: up to 32 hexadecimal digits, hyphens ignored. Nothing where it is no
    /// beginning of an id.
    pub fn parse(text: &str) -> Option<Self> {
        let mut value: u128 = 0;
        let mut digits = 0u32;
        for character in text.chars().filter(|character| *character != '-') {
            if digits == 32 {
                return None;
            }
            value = (value << 4) | u128::from(character.to_digit(16)?);
            digits += 1;
        }
        let free_bits = 128 - 4 * digits;
        let low = value.checked_shl(free_bits).unwrap_or(0);
        let high = low | 1u128.checked_shl(free_bits).unwrap_or(0).wrapping_sub(1);
        Some(Self {
            low: Uuid::from_u128(low),
            high: Uuid::from_u128(high),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Option<(u128, u128)> {
        IdPrefix::parse(text).map(|prefix| (prefix.low.as_u128(), prefix.high.as_u128()))
    }

    #[test]
    fn a_prefix_is_the_range_of_ids_that_begin_so() {
        assert_eq!(range(""), Some((0, u128::MAX)));
        assert_eq!(range("f"), Some((0xf << 124, u128::MAX)));
        let whole = "01234567-89ab-cdef-0000-000000000001";
        let id = 0x0123_4567_89ab_cdef_0000_0000_0000_0001;
        assert_eq!(range(whole), Some((id, id)));
        assert_eq!(range("0123456x"), None);
        assert_eq!(range(&"0".repeat(33)), None);
    }
}
