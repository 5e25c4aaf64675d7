//! Successful answers.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::body::Body;
use hyper::body::{Body as HttpBody, Bytes};
use hyper::body::{Frame, SizeHint};
use hyper::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde::Serialize;

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
            Some(rollback) => Body::new(GuardedBody { bytes: Some(bytes), rollback: Some(rollback) }),
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

/// A body that knows whether the connection has taken it.
struct GuardedBody {
    bytes: Option<Bytes>,
    rollback: Option<Box<dyn RollbackGuard>>,
}

impl HttpBody for GuardedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(rollback) = self.rollback.take() {
            rollback.delivered();
        }
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, Bytes::len) as u64)
    }
}
