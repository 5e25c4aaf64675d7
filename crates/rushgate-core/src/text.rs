//! Text forms of types whose JSON is a text, and hexadecimal digits.

use std::fmt::{self, Write};

use crate::{Error, Result};

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    Hex(bytes).to_string()
}

/// Bytes that are shown as lower-case hexadecimal digits.
pub(crate) struct Hex<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half)]);
        self.0.iter().try_for_each(|byte| {
            f.write_char(digit(byte >> 4))?;
            f.write_char(digit(byte & 15))
        })
    }
}

/// The inverse of [`hex`], for digits of either case.
pub(crate) fn unhex<const N: usize>(what: &str, text: &str) -> Result<[u8; N]> {
    let bad = || Error::invalid(what, format_args!("must be {} hexadecimal digits", 2 * N));
    let digit = |digit: u8| char::from(digit).to_digit(16).ok_or_else(bad);
    let mut bytes = [0; N];
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return Err(bad());
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = (digit(*high)? << 4 | digit(*low)?) as u8;
    }
    Ok(bytes)
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
                std::fmt::Display::fmt(&crate::text::Hex(&self.to_bytes()), f)
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
