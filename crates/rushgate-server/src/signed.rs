//! Buyer tokens signed by the shop: JSON Web Tokens (RFC 7519) with HMAC-SHA-256 (`HS256`, RFC 7518). Every
//! language has a library for them, and the server stores nothing per buyer.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use rushgate::{BuyerId, Error};
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};
use sha2::Sha256;

use crate::now;
use crate::scope::{Scope, check_sales};

/// Required audience of a token, if it names one.
const AUDIENCE: &str = "rushgate";
/// Maximum length of a signed token, in bytes.
const TEXT_MAX: usize = 4 << 10;

/// A key that a shop signs its buyers' tokens with.
///
/// A holder of the key can act as any buyer within its scopes, and nothing more. The file stores the key itself, not a
/// hash, because signatures are verified with it.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use std::time::Duration;
/// use rushgate_server::TokenFile;
///
/// let file = TokenFile::at(dir.path().join("tokens.json"));
/// let key = file.create_key("shop", vec!["sale:phones".parse()?])?;
/// let token = key.sign(&rushgate::BuyerId::new("ann")?, Duration::from_secs(3_600), &[])?;
/// assert_eq!(token.split('.').count(), 3);
/// # Ok::<_, rushgate::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningKey {
    /// ID of the key, in logs and as `kid` in the header of a token: 8 hexadecimal digits.
    pub id: String,
    /// Purpose of the key, as shown to operators.
    pub label: String,
    /// Sales that the key is limited to. Empty means all.
    pub scopes: Vec<Scope>,
    /// Time of creation, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    secret: Secret,
}

/// 256 random bits. `Debug` does not reveal them.
#[derive(Clone, PartialEq, Eq)]
struct Secret([u8; 32]);

/// A key as stored in the file, the only place with its secret.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenKey {
    id: String,
    label: String,
    scopes: Vec<Scope>,
    created_ms: u64,
    secret: String,
}

impl From<SigningKey> for WrittenKey {
    fn from(key: SigningKey) -> Self {
        let secret = key.secret();
        let SigningKey { id, label, scopes, created_ms, .. } = key;
        Self { id, label, scopes, created_ms, secret }
    }
}

impl TryFrom<WrittenKey> for SigningKey {
    type Error = Error;
    fn try_from(written: WrittenKey) -> Result<Self, Error> {
        let WrittenKey { id, label, scopes, created_ms, secret } = written;
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(secret).ok().and_then(|bytes| bytes.try_into().ok());
        let wrong = || {
            Error::misconfigured(format_args!("the secret of the key `{id}` is not 32 bytes in base64url"))
        };
        let secret = Secret(bytes.ok_or_else(wrong)?);
        Ok(Self { id, label, scopes, created_ms, secret })
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

#[derive(Serialize, Deserialize)]
struct Head {
    alg: String,
    kid: String,
    /// Critical extensions. None is supported, so the claim must be absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crit: Option<Value>,
}

#[derive(Serialize, Deserialize)]
struct Claims {
    /// The buyer.
    sub: String,
    /// Expiry, in seconds since the Unix epoch.
    exp: Number,
    /// Start of validity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nbf: Option<Number>,
    /// Audience. If present, it must include `rushgate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    aud: Option<Value>,
    /// Sales that the token is limited to, such as `sale:phones`, separated by spaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
}

impl Claims {
    fn is_good_at(&self, now: Duration) -> bool {
        let seconds = |moment: &Number| moment.as_f64().unwrap_or(f64::NAN);
        let began = self.nbf.as_ref().is_none_or(|from| seconds(from) <= now.as_secs_f64());
        began && now.as_secs_f64() < seconds(&self.exp)
    }

    fn is_for_us(&self) -> bool {
        match &self.aud {
            None => true,
            Some(Value::Array(all)) => all.iter().any(|one| one == AUDIENCE),
            Some(one) => one == AUDIENCE,
        }
    }

    /// Parsed scopes; `None` if they are malformed or empty.
    fn scopes(&self) -> Option<Vec<Scope>> {
        let Some(words) = &self.scope else { return Some(Vec::new()) };
        let scopes: Vec<_> = words.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        (!scopes.is_empty()).then_some(scopes)
    }
}

/// Verified content of a token.
#[derive(Debug)]
pub(crate) struct Signed {
    pub buyer: BuyerId,
    /// Sales that the token is limited to. Empty means all of the key's.
    pub scopes: Vec<Scope>,
    /// Secret shared by this buyer and the server, the same for all of the buyer's tokens under this key.
    pub secret: [u8; 32],
}

impl SigningKey {
    pub(crate) fn new(id: String, label: String, scopes: Vec<Scope>, created_ms: u64) -> Self {
        Self { id, label, scopes, created_ms, secret: Secret(rand::random()) }
    }

    /// The key as JWT libraries take it: 32 bytes, encoded in base64url.
    pub fn secret(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.secret.0)
    }

    /// Signs a token for a buyer with this lifetime, at least 1 s.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a scope of another kind than sales.
    pub fn sign(&self, buyer: &BuyerId, time: Duration, scopes: &[Scope]) -> Result<String, Error> {
        check_sales(scopes)?;
        let words: Vec<_> = scopes.iter().map(ToString::to_string).collect();
        let claims = Claims {
            sub: buyer.to_string(),
            exp: now().as_secs().saturating_add(time.as_secs().max(1)).into(),
            nbf: None,
            aud: None,
            scope: (!words.is_empty()).then(|| words.join(" ")),
        };
        let head = Head { alg: "HS256".to_owned(), kid: self.id.clone(), crit: None };
        let content = format!("{}.{}", part(&head), part(&claims));
        let signature = self.mac(&content).finalize().into_bytes();
        Ok(format!("{content}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Verifies the token: this key signed it and it is valid now.
    pub(crate) fn read(&self, token: &Unread<'_>) -> Option<Signed> {
        self.mac(token.content).verify_slice(&token.signature).ok()?;
        let claims: Claims = serde_json::from_slice(&token.claims).ok()?;
        if !(claims.is_good_at(now()) && claims.is_for_us()) {
            return None;
        }
        let buyer = BuyerId::new(&claims.sub).ok()?;
        let secret = self.mac(&format!("rushgate buyer 1\0{buyer}")).finalize().into_bytes().into();
        Some(Signed { scopes: claims.scopes()?, secret, buyer })
    }

    fn mac(&self, content: &str) -> Hmac<Sha256> {
        let Ok(mac) = Hmac::<Sha256>::new_from_slice(&self.secret.0) else {
            unreachable!("HMAC takes keys of every length");
        };
        mac.chain_update(content)
    }
}

/// A parsed token, not verified yet.
pub(crate) struct Unread<'a> {
    /// ID of the key that it claims to be signed with.
    pub kid: String,
    content: &'a str,
    claims: Vec<u8>,
    signature: Vec<u8>,
}

impl<'a> Unread<'a> {
    /// Parses the token. Accepts only the algorithm `HS256`, whatever the header asks for.
    pub fn of(text: &'a str) -> Option<Self> {
        let (content, signature) = text.rsplit_once('.').filter(|_| text.len() <= TEXT_MAX)?;
        let (head, claims) = content.split_once('.')?;
        let decode = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).ok();
        let head: Head = serde_json::from_slice(&decode(head)?).ok()?;
        let is_ours = head.alg == "HS256" && head.crit.is_none();
        is_ours.then_some(())?;
        Some(Self { kid: head.kid, content, claims: decode(claims)?, signature: decode(signature)? })
    }
}

fn part(value: &impl Serialize) -> String {
    // Strings and numbers always serialize.
    BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(value).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A token from another library: with `typ`, `iat`, a fraction of a second, and several audiences.
    const ELSEWHERE: &str = "eyJ0eXAiOiJKV1QiLCJhbGciOiJIUzI1NiIsImtpZCI6IjAwMDAwMDBhIn0.eyJzdWIiOiJhbm4iLCJpYXQiOjE3MDAwMDAwMDAsImV4cCI6MzI1MDM2ODAwMDAuNSwiYXVkIjpbInNob3AiLCJydXNoZ2F0ZSJdLCJzY29wZSI6InNhbGU6cGhvbmVzIn0.rsp7v_mopQ2qJ0qJuEP3OK7Y99VE6lls9PiL-StpFTQ";

    fn key() -> SigningKey {
        let secret = Secret(std::array::from_fn(|at| at as u8));
        SigningKey { secret, ..SigningKey::new("0000000a".to_owned(), "shop".to_owned(), Vec::new(), 0) }
    }

    fn signed(head: Value, claims: Value) -> String {
        let content = format!("{}.{}", part(&head), part(&claims));
        let signature = key().mac(&content).finalize().into_bytes();
        format!("{content}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
    }

    fn buyer(token: &str) -> Option<String> {
        key().read(&Unread::of(token)?).map(|signed| signed.buyer.to_string())
    }

    #[test]
    fn a_token_of_another_library_is_read() {
        let signed = key().read(&Unread::of(ELSEWHERE).unwrap()).unwrap();
        assert_eq!(signed.buyer.as_str(), "ann");
        assert_eq!(signed.scopes, ["sale:phones".parse().unwrap()]);
    }

    #[test]
    fn a_signed_token_names_its_buyer_and_expiry() {
        let ann = BuyerId::new("ann").unwrap();
        let token = key().sign(&ann, Duration::from_secs(60), &[]).unwrap();
        let other = SigningKey::new("0000000a".to_owned(), "shop".to_owned(), Vec::new(), 0);
        assert_eq!(buyer(&token).as_deref(), Some("ann"));
        assert!(other.read(&Unread::of(&token).unwrap()).is_none(), "another key");
        let secret = |token: &str| key().read(&Unread::of(token).unwrap()).unwrap().secret;
        assert_eq!(
            secret(&token),
            secret(&signed(json!({ "alg": "HS256", "kid": "x" }), json!({ "sub": "ann", "exp": 9e9 })))
        );
        assert_ne!(
            secret(&token),
            secret(&key().sign(&BuyerId::new("bob").unwrap(), Duration::from_secs(60), &[]).unwrap())
        );
    }

    #[test]
    fn what_is_not_signed_or_not_good_now_lets_nobody_in() {
        let head = json!({ "alg": "HS256", "kid": "0000000a" });
        let good = json!({ "sub": "ann", "exp": 9_000_000_000_u64 });
        let token = signed(head.clone(), good.clone());
        assert_eq!(buyer(&token).as_deref(), Some("ann"));
        let (content, _) = token.rsplit_once('.').unwrap();
        let forged = content.replace(&part(&good), &part(&json!({ "sub": "bob", "exp": 9_000_000_000_u64 })));
        let signature = token.rsplit('.').next().unwrap();
        let cut = &token[..token.len() - 1];
        for wrong in
            [cut, &format!("{forged}.{signature}"), &format!("{content}."), content, "", "..", "a.b.c"]
        {
            assert_eq!(buyer(wrong), None, "{wrong}");
        }
        for head in [
            json!({ "alg": "none", "kid": "0000000a" }),
            json!({ "alg": "HS512", "kid": "0000000a" }),
            json!({ "alg": "HS256" }),
            json!({ "alg": "HS256", "kid": "0000000a", "crit": ["b64"] }),
        ] {
            assert_eq!(buyer(&signed(head.clone(), good.clone())), None, "{head}");
        }
        for claims in [
            json!({ "sub": "ann" }),
            json!({ "exp": 9e9 }),
            json!({ "sub": "", "exp": 9e9 }),
            json!({ "sub": "ann", "exp": 1_700_000_000 }),
            json!({ "sub": "ann", "exp": "9000000000" }),
            json!({ "sub": "ann", "exp": 9e9, "nbf": 8e9 }),
            json!({ "sub": "ann", "exp": 9e9, "aud": "another" }),
            json!({ "sub": "ann", "exp": 9e9, "aud": [] }),
            json!({ "sub": "ann", "exp": 9e9, "scope": "" }),
            json!({ "sub": "ann", "exp": 9e9, "scope": "everything" }),
        ] {
            assert_eq!(buyer(&signed(head.clone(), claims.clone())), None, "{claims}");
        }
        let long = signed(head, json!({ "sub": "ann", "exp": 9e9, "padding": "x".repeat(4_096) }));
        assert_eq!(buyer(&long), None, "longer than the maximum");
    }

    #[test]
    fn a_key_is_read_as_it_was_written_and_a_wrong_one_is_refused() {
        let written = WrittenKey::from(key());
        assert_eq!(SigningKey::try_from(written.clone()).unwrap(), key());
        for secret in ["", "AAEC", &format!("{}=", key().secret())] {
            let wrong = WrittenKey { secret: secret.to_owned(), ..written.clone() };
            assert!(SigningKey::try_from(wrong).unwrap_err().is_misconfigured(), "{secret}");
        }
    }

    #[test]
    fn a_key_is_not_printed() {
        assert!(!format!("{:?}", key()).contains(&key().secret()));
    }
}
