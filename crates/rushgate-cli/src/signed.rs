//! Signed POST requests.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderValue, InvalidHeaderValue, USER_AGENT};
use hyper::http::request::Builder;
use hyper::{Method, Response, Uri};
use rushgate_http::{Connections, connections, connector};
use sha2::Sha256;

use crate::exit::{Fault, chain};

/// The target of signed POST requests.
pub(crate) struct Target {
    connections: Connections,
    url: Uri,
    secret: Option<Secret>,
}

impl Target {
    /// A target whose secret is in the file, or else in the environment variable. Sends nothing. `whose` names its
    /// owner in errors.
    pub(crate) fn new(whose: &str, url: &str, secret: Option<&Path>, variable: &str) -> Result<Self> {
        let secret = Secret::find(whose, secret, variable)?;
        let url = address(whose, url)?;
        let connections = connections(connector(url.scheme_str() == Some("https"))?);
        Ok(Self { connections, url, secret })
    }

    pub(crate) fn is_signed(&self) -> bool {
        self.secret.is_some()
    }

    /// Sends a request with these headers and this body, signed as in <https://www.standardwebhooks.com>.
    pub(crate) async fn post(
        &self,
        id: &str,
        headers: Builder,
        body: Bytes,
    ) -> Result<Response<Incoming>, String> {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let timestamp = since_epoch.as_secs().to_string();
        let mut request = headers
            .method(Method::POST)
            .uri(self.url.clone())
            .header(USER_AGENT, concat!("rushgate/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", id)
            .header("webhook-timestamp", &timestamp);
        if let Some(secret) = &self.secret {
            let signature = secret.signature(id, &timestamp, &body).map_err(|error| error.to_string())?;
            request = request.header("webhook-signature", signature);
        }
        let request = request.body(Full::new(body));
        let request = request.map_err(|error| format!("cannot send the request: {error}"))?;
        self.connections.request(request).await.map_err(|error| format!("no response: {}", chain(&error)))
    }
}

/// A secret key. Has no `Debug` output.
struct Secret(Vec<u8>);

impl Secret {
    fn signature(&self, id: &str, timestamp: &str, body: &[u8]) -> Result<HeaderValue, InvalidHeaderValue> {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            unreachable!("HMAC takes keys of every length");
        };
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        let signature = format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()));
        let mut signature = HeaderValue::try_from(signature)?;
        signature.set_sensitive(true);
        Ok(signature)
    }

    /// Reads the secret from the file, or else from the environment variable. `whose` names its owner in
    /// errors.
    fn find(whose: &str, file: Option<&Path>, variable: &str) -> Result<Option<Self>, Fault> {
        let text = match file {
            Some(file) => Some(std::fs::read_to_string(file).map_err(|error| {
                Fault::usage(format_args!("cannot read the secret from `{}`: {error}", file.display()))
            })?),
            None => std::env::var(variable).ok().filter(|text| !text.is_empty()),
        };
        text.as_deref().map(|text| Self::read(whose, text)).transpose()
    }

    /// Parses a secret: `whsec_` and base64, or any other text as is.
    fn read(whose: &str, text: &str) -> Result<Self, Fault> {
        let text = text.trim();
        let bytes = match text.strip_prefix("whsec_") {
            Some(encoded) => BASE64_STANDARD
                .decode(encoded)
                .map_err(|_| Fault::usage(format_args!("{whose}'s secret is not base64 after whsec_")))?,
            None => text.as_bytes().to_vec(),
        };
        match bytes.len() {
            0..16 => Err(Fault::usage(format_args!("{whose}'s secret is shorter than 16 bytes"))),
            _ => Ok(Self(bytes)),
        }
    }
}

/// The target URL. A password in it would be visible in the process list.
fn address(whose: &str, text: &str) -> Result<Uri, Fault> {
    let url: Uri =
        text.parse().map_err(|error| Fault::usage(format_args!("{whose}'s URL is invalid: {error}")))?;
    let authority = url.authority().map_or("", |authority| authority.as_str());
    match url.scheme_str() {
        Some("http" | "https") if authority.contains('@') => {
            Err(Fault::usage(format_args!("{whose}'s URL must not contain a password"))
                .hint("sign requests with a secret instead"))
        }
        Some("http" | "https") if !authority.is_empty() => Ok(url),
        _ => Err(Fault::usage(format_args!(
            "{whose}'s URL must start with http:// or https:// and name a host"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_standard() {
        // Test vector of the standard's own libraries.
        let secret = Secret::read("x", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature = secret
            .signature("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", br#"{"test": 2432232314}"#)
            .unwrap();
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert!(Secret::read("x", "short").is_err());
        assert!(Secret::read("x", "whsec_no base64, this").is_err());
    }

    #[test]
    fn an_address_is_checked() {
        assert!(address("x", "http://localhost:8080/tasks?a=1").is_ok());
        for wrong in ["localhost:8080", "ftp://host/", "https://me:secret@host/", "http://", "/path"] {
            assert!(address("x", wrong).is_err(), "{wrong}");
        }
    }
}
