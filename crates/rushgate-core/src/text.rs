//! Text forms of types whose JSON is a text, and hexadecimal digits.

use crate::{Error, Result};

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The inverse of [`hex`], for digits of either case.
pub(crate) fn unhex<const N: usize>(what: &str, text: &str) -> Result<[u8; N]> {
    let digit = |digit: &u8| char::from(*digit).to_digit(16);
    let (pairs, _) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map_while(|[high, low]| Some((digit(high)? << 4 | digit(low)?) as u8));
    let bytes = bytes.collect::<Vec<_>>().try_into().ok().filter(|_| text.len() == 2 * N);
    bytes.ok_or_else(|| Error::invalid(what, format_args!("must be {} hexadecimal digits", 2 * N)))
}

/// What serde needs of a type that is parsed by `FromStr`: its conversions from and to a `String`.
macro_rules! json_text {
    ($name:ident, $text:expr) => {
        impl TryFrom<String> for $name {
            type Error = crate::Error;
            fn try_from(text: String) -> crate::Result<Self> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(it: $name) -> Self {
                let text: fn(&$name) -> Self = $text;
                text(&it)
            }
        }
    };
}
pub(crate) use json_text;

/// The text forms of types that are a text, which `new` checks and `as_str` returns.
macro_rules! checked_text {
    ($($name:ident)*) => {$(
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{:?}", self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = crate::Error;
            fn from_str(text: &str) -> crate::Result<Self> {
                Self::new(text)
            }
        }

        crate::text::json_text!($name, |it| it.as_str().to_owned());
    )*};
}
pub(crate) use checked_text;

/// The text forms of types that are written as the hexadecimal digits of their bytes, except `Display`.
macro_rules! hex_text {
    ($($name:ident = $what:literal;)*) => {$(
        impl std::str::FromStr for $name {
            type Err = crate::Error;
            fn from_str(text: &str) -> crate::Result<Self> {
                crate::text::unhex($what, text).map(Self::from_bytes)
            }
        }

        crate::text::json_text!($name, |it| crate::text::hex(&it.to_bytes()));
    )*};
}
pub(crate) use hex_text;

/// `Display` and `Debug` of those that are not secret.
macro_rules! shown_hex {
    ($($name:ident)*) => {$(
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&crate::text::hex(&self.to_bytes()))
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    )*};
}
pub(crate) use shown_hex;
