//! The bot check by webhook: a signed POST for each visit.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper::header::CONTENT_TYPE;
use hyper::{Request, StatusCode};
use rushgate_server::{BuyerCheck, Verdict, Visit};
use serde_json::json;

use crate::signed::Target;

/// Environment variable with the secret.
pub(crate) const SECRET: &str = "RUSHGATE_CHECK_SECRET";

/// A bot check by signed POST requests.
pub(crate) struct PostCheck(Arc<Target>);

impl PostCheck {
    /// Builds the check. Sends nothing.
    pub(crate) fn new(url: &str, secret_file: Option<&Path>) -> Result<Self> {
        Ok(Self(Arc::new(Target::new("the bot check", url, secret_file, SECRET)?)))
    }

    pub(crate) fn is_signed(&self) -> bool {
        self.0.is_signed()
    }
}

impl BuyerCheck for PostCheck {
    fn ask(&self, visit: Visit) -> BoxFuture<'static, Verdict> {
        let target = Arc::clone(&self.0);
        async move {
            let body = json!({
                "sale": visit.sale, "buyer": visit.buyer, "address": visit.address, "proof": visit.proof,
            });
            let id = format!("check_{:032x}", rand::random::<u128>());
            let headers = Request::builder().header(CONTENT_TYPE, "application/json");
            match target.post(&id, headers, body.to_string().into()).await {
                Ok(answer) => verdict(answer.status()),
                Err(why) => Verdict::Unknown(why),
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
