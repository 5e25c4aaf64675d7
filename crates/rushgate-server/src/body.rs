//! The body of an answer.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::{Stream, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};

/// The body of an answer. Most are there as a whole, and are sent without another allocation.
pub(crate) enum Body {
    Whole(Full<Bytes>),
    Coming(UnsyncBoxBody<Bytes, Infallible>),
}

impl Body {
    pub fn empty() -> Self {
        Self::from("")
    }

    pub fn new(body: impl HttpBody<Data = Bytes, Error = Infallible> + Send + 'static) -> Self {
        Self::Coming(body.boxed_unsync())
    }

    /// One that goes on for as long as the stream.
    pub fn streaming(parts: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::new(StreamBody::new(parts.map(|part| Ok(Frame::data(part)))))
    }

    /// All of it.
    pub async fn whole(self) -> Bytes {
        match self.collect().await {
            Ok(all) => all.to_bytes(),
            Err(never) => match never {},
        }
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        Self::Whole(Full::new(bytes.into()))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(context),
            Self::Coming(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Coming(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Coming(body) => body.size_hint(),
        }
    }
}

/// A body with what must not end before it.
struct Kept<T> {
    body: Body,
    _kept: T,
}

/// The body, which keeps `kept` until it was taken by the connection or dropped.
pub(crate) fn keeping<T: Send + Unpin + 'static>(body: Body, kept: T) -> Body {
    Body::new(Kept { body, _kept: kept })
}

impl<T: Unpin> HttpBody for Kept<T> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
