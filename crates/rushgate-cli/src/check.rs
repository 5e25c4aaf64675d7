//! The bot check by webhook: a signed POST for each visit.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, USER_AGENT};
use hyper::{Method, Request, StatusCode, Uri};
use rushgate_server::{BuyerCheck, Verdict, Visit};
use serde_json::json;

use crate::exit::{Fault, chain};
use crate::http::{self, Client};
use crate::signed::{self, Secret};

/// Environment variable with the secret.
pub(crate) const SECRET: &str = "RUSHGATE_CHECK_SECRET";

/// A bot check by signed POST requests.
pub(crate) struct PostCheck {
    client: Client,
    url: Uri,
    secret: Option<Secret>,
}

impl PostCheck {
    /// Builds the check. Sends nothing.
    pub(crate) fn new(url: &str, secret_file: Option<&Path>) -> Result<Self, Fault> {
        let secret = Secret::find("the bot check", secret_file, SECRET)?;
        let url = signed::address("the bot check", url)?;
        Ok(Self { client: http::client(url.scheme_str())?, url, secret })
    }

    pub(crate) fn is_signed(&self) -> bool {
        self.secret.is_some()
    }

    fn request(&self, visit: &Visit, now: SystemTime) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
        let body = json!({
            "sale": visit.sale, "buyer": visit.buyer, "address": visit.address, "proof": visit.proof,
        });
        let body = Bytes::from(body.to_string());
        let id = format!("check_{:032x}", rand::random::<u128>());
        let timestamp = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().to_string();
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(self.url.clone())
            .header(USER_AGENT, concat!("rushgate/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", &id)
            .header("webhook-timestamp", &timestamp);
        if let Some(secret) = &self.secret {
            request = request.header("webhook-signature", secret.signature(&id, &timestamp, &body)?);
        }
        request.body(Full::new(body))
    }
}

impl BuyerCheck for PostCheck {
    fn ask(&self, visit: Visit) -> BoxFuture<'static, Verdict> {
        let request = self.request(&visit, SystemTime::now());
        let client = self.client.clone();
        async move {
            let request = match request {
                Ok(request) => request,
                Err(error) => return Verdict::Unknown(error.to_string()),
            };
            match client.request(request).await {
                Ok(answer) => verdict(answer.status()),
                Err(error) => Verdict::Unknown(format!("no response: {}", chain(&error))),
            }
        }
        .boxed()
    }
}

/// Verdict by status code. 408 and 429 are about the request rate, not about the buyer.
fn verdict(status: StatusCode) -> Verdict {
    match status {
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => Verdict::Unknown(status.to_string()),
        _ if status.is_success() => Verdict::Yes,
        _ if status.is_client_error() => Verdict::No,
        _ => Verdict::Unknown(status.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_yes_or_no_or_nothing() {
        let of = |status: u16| verdict(StatusCode::from_u16(status).unwrap());
        assert!([200, 204].into_iter().all(|status| of(status) == Verdict::Yes));
        assert!([400, 401, 403, 404, 422].into_iter().all(|status| of(status) == Verdict::No));
        for status in [302, 408, 429, 500, 503] {
            assert!(matches!(of(status), Verdict::Unknown(_)), "{status}");
        }
    }
}
