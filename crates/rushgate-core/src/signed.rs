//! Texts signed by a sale: a prefix, the content as JSON, and a signature, both in base64url. The signature is
//! HMAC-SHA-256 (RFC 2104, FIPS 180-4) under the sale's secret.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::Sha256;

use crate::SaleSecret;

/// A kind of signed text.
pub(crate) struct Kind {
    /// Prefix of the text.
    pub(crate) prefix: &'static str,
    /// Domain separator, signed before the content. One secret serves several kinds of text.
    pub(crate) domain: &'static [u8],
    /// Maximum length of the text.
    pub(crate) text_max: usize,
}

/// A parsed text whose signature has not been verified.
pub(crate) struct Claimed<'a, T> {
    pub(crate) says: T,
    content: &'a str,
    signature: Vec<u8>,
}

impl Kind {
    pub(crate) fn sign(&self, secret: SaleSecret, says: &impl Serialize) -> String {
        // Names and numbers always serialize to JSON.
        let content = BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(says).unwrap_or_default());
        let signature = BASE64_URL_SAFE_NO_PAD.encode(self.mac(secret, &content).finalize().into_bytes());
        format!("{}{content}.{signature}", self.prefix)
    }

    /// Parses a text; `None` if it is malformed or truncated.
    pub(crate) fn read<'a, T: DeserializeOwned>(&self, text: &'a str) -> Option<Claimed<'a, T>> {
        let rest = text.trim().strip_prefix(self.prefix).filter(|_| text.len() <= self.text_max)?;
        let (content, signature) = rest.split_once('.')?;
        let decoded = |part| BASE64_URL_SAFE_NO_PAD.decode(part).ok();
        let says = serde_json::from_slice(&decoded(content)?).ok()?;
        Some(Claimed { says, content, signature: decoded(signature)? })
    }

    /// Returns the content if the signature is valid under the secret.
    pub(crate) fn believed<T>(&self, claimed: Claimed<'_, T>, secret: SaleSecret) -> Option<T> {
        // The comparison takes constant time.
        self.mac(secret, claimed.content).verify_slice(&claimed.signature).ok()?;
        Some(claimed.says)
    }

    fn mac(&self, secret: SaleSecret, content: &str) -> Hmac<Sha256> {
        // HMAC accepts keys of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&secret.to_bytes()) else {
            unreachable!("HMAC takes keys of every length");
        };
        mac.update(self.domain);
        mac.update(content.as_bytes());
        mac
    }
}
