//! Successful answers.

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde::Serialize;

use crate::body::Body;
use crate::problem::Problem;

/// Result of a verb: a view, or a problem.
pub(crate) type Answer<T> = Result<Reply<T>, Problem>;

/// A view with its status and headers.
pub(crate) struct Reply<T> {
    status: StatusCode,
    view: T,
    headers: Vec<(HeaderName, HeaderValue)>,
    rollback: Option<Box<dyn RollbackGuard>>,
}

/// A claim or lock that an answer hands to the client. If it is dropped before delivery it is released.
pub(crate) trait RollbackGuard: Send {
    /// The answer was delivered: the client owns the claim or lock.
    fn delivered(self: Box<Self>);
}

impl<T> Reply<T> {
    pub fn ok(view: T) -> Self {
        Self { status: StatusCode::OK, view, headers: Vec::new(), rollback: None }
    }

    pub fn created(view: T) -> Self {
        Self { status: StatusCode::CREATED, ..Self::ok(view) }
    }

    /// 202 Accepted: not finished yet.
    pub fn accepted(view: T) -> Self {
        Self { status: StatusCode::ACCEPTED, ..Self::ok(view) }
    }

    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Sets `Location` to the path of the created resource.
    pub fn location(self, path: &str) -> Self {
        match HeaderValue::from_str(path) {
            Ok(value) => self.header(header::LOCATION, value),
            // Paths are percent-encoded before.
            Err(_) => self,
        }
    }

    pub fn guarded_by(mut self, rollback: impl RollbackGuard + 'static) -> Self {
        self.rollback = Some(Box::new(rollback));
        self
    }
}

impl<T: Serialize> From<Reply<T>> for Response<Body> {
    fn from(reply: Reply<T>) -> Self {
        let bytes = match serde_json::to_vec(&reply.view) {
            Ok(bytes) => Bytes::from(bytes),
            Err(error) => {
                return Problem::from(
                    rushgate::Error::bug("cannot encode an answer as JSON").caused_by(error),
                )
                .into_response();
            }
        };
        let body = match reply.rollback {
            Some(rollback) => {
                let mut rollback = Some(rollback);
                // The only frame is taken when the connection sends it.
                Body::new(Full::new(bytes).inspect_frame(move |_| {
                    if let Some(rollback) = rollback.take() {
                        rollback.delivered();
                    }
                }))
            }
            None => Body::from(bytes),
        };
        let mut response = Self::new(body);
        *response.status_mut() = reply.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.extend(reply.headers);
        response
    }
}
