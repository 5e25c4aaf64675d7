//! CORS: which origins may send requests from a browser, and what they may read of an answer.
//!
//! Only named origins are allowed. No answer says `*`, and none allows browser credentials such as cookies: the server
//! has none, and pages send their token in `Authorization`.

use std::fmt;
use std::str::FromStr;

use crate::body::Body;
use hyper::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri, header};
use rushgate::Error;
use serde::{Deserialize, Serialize};

use crate::problem::{Code, Problem};

/// Request headers that a page may send, beyond the CORS defaults.
const SENT: &str = "authorization, content-type, idempotency-key, if-none-match, last-event-id, prefer, rushgate-proof, traceparent";
/// Answer headers that a page may read, beyond the CORS defaults.
const READ: &str = "allow, etag, idempotency-replayed, location, preference-applied, retry-after, \
                    rushgate-durability, www-authenticate";
/// How long a browser may cache a preflight answer, in seconds.
const REMEMBERED: &str = "600";

/// Origin of a web page: `https://shop.example`, with a port if it is not the scheme's default. No path.
///
/// ```
/// use rushgate_server::Origin;
///
/// let shop: Origin = "https://shop.example".parse()?;
/// assert_eq!(shop.to_string(), "https://shop.example");
/// assert!("*".parse::<Origin>().is_err() && "https://shop.example/cart".parse::<Origin>().is_err());
/// # Ok::<_, rushgate::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Origin(String);

impl FromStr for Origin {
    type Err = Error;

    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a value that no browser sends as an origin, and for `*` and
    /// `null`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let unusable = |what: &str| {
            Err(Error::invalid(&format!("the origin `{text}`"), what)
                .hint("use a scheme and a host, such as https://shop.example or http://localhost:5173"))
        };
        if text.contains('*') {
            return unusable("contains a wildcard; list each origin");
        }
        let text = text.to_ascii_lowercase();
        let uri = text.parse::<Uri>().ok();
        let parts = uri.as_ref().and_then(|uri| Some((uri.scheme_str()?, uri.authority()?)));
        match parts {
            Some((scheme @ ("http" | "https"), authority)) if text == format!("{scheme}://{authority}") => {
                let own = if scheme == "http" { 80 } else { 443 };
                match authority.port_u16() {
                    _ if authority.as_str().contains('@') => unusable("contains a user"),
                    Some(port) if port == own => {
                        unusable("contains the default port of its scheme, which browsers omit")
                    }
                    None if authority.as_str() != authority.host() => unusable("has an invalid port"),
                    _ => Ok(Self(text)),
                }
            }
            _ => unusable("must be a scheme and a host only"),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Origin {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Origin> for String {
    fn from(origin: Origin) -> Self {
        origin.0
    }
}

/// The allowed origins.
#[derive(Debug, Default)]
pub(crate) struct Origins(Vec<Origin>);

impl From<Vec<Origin>> for Origins {
    fn from(origins: Vec<Origin>) -> Self {
        Self(origins)
    }
}

impl Origins {
    pub fn allow(&self, origin: &str) -> bool {
        self.0.iter().any(|ours| ours.0 == origin)
    }

    /// Answers a CORS preflight request; `None` if the request is not one.
    pub fn preflight(
        &self,
        method: &Method,
        asked: &HeaderMap,
        allowed: impl FnOnce() -> HeaderValue,
    ) -> Option<Response<Body>> {
        let origin = asked.get(header::ORIGIN)?;
        let asks = asked.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        if self.0.is_empty() || method != Method::OPTIONS || !asks {
            return None;
        }
        if !origin.to_str().is_ok_and(|origin| self.allow(origin)) {
            return Some(Problem::plain(Code::BadOrigin).into_response());
        }
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, allowed());
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(SENT));
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(REMEMBERED));
        Some(response)
    }

    /// Adds the CORS headers to an answer.
    pub fn mark(&self, origin: Option<HeaderValue>, response: &mut Response<Body>) {
        if self.0.is_empty() {
            return;
        }
        let headers = response.headers_mut();
        // A cache must not serve one origin the answer for another.
        headers.append(header::VARY, HeaderValue::from(HeaderName::from_static("origin")));
        if let Some(origin) = origin.filter(|origin| origin.to_str().is_ok_and(|origin| self.allow(origin))) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(READ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_scheme_and_a_host_alone() {
        for good in ["https://shop.example", "http://localhost:5173", "http://[::1]:8080", "http://127.0.0.1"]
        {
            assert_eq!(good.parse::<Origin>().unwrap().to_string(), good);
        }
        assert_eq!("HTTPS://Shop.Example".parse::<Origin>().unwrap().0, "https://shop.example");
        for wrong in [
            "",
            "*",
            "null",
            "shop.example",
            "https://",
            "https://*",
            "https://shop.example/",
            "https://shop.example/cart",
            "https://shop.example?a",
            "https://shop.example:443",
            "http://shop.example:80",
            "https://ann@shop.example",
            "ftp://shop.example",
            "https://shop.example:",
            "https://a b",
            "file:///tmp",
        ] {
            let read = wrong.parse::<Origin>();
            assert!(read.as_ref().is_err_and(Error::is_invalid), "{wrong}: {read:?}");
        }
    }
}
