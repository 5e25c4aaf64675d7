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
    owed: Option<Box<dyn Owed>>,
}

/// A claim or lock that an answer hands to the client. If it is dropped before delivery it is released.
pub(crate) trait Owed: Send {
    /// The answer was delivered: the client owns the claim or lock.
    fn delivered(self: Box<Self>);
}

impl<T> Reply<T> {
    pub fn ok(view: T) -> Self {
        Self { status: StatusCode::OK, view, headers: Vec::new(), owed: None }
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

    pub fn owing(mut self, owed: impl Owed + 'static) -> Self {
        self.owed = Some(Box::new(owed));
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
        let body = match reply.owed {
            Some(owed) => Body::new(OwedBody { bytes: Some(bytes), owed: Some(owed) }),
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
struct OwedBody {
    bytes: Option<Bytes>,
    owed: Option<Box<dyn Owed>>,
}

impl HttpBody for OwedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(owed) = self.owed.take() {
            owed.delivered();
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
