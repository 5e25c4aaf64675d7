//! Bodies of answers, and draining of request bodies.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{FutureExt, Stream, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};

/// Limits in bytes and time for draining the rest of an unwanted body.
const DRAINED_MAX: u64 = 4 << 20;
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// Reads and discards the rest of a request's body; returns whether it reached the end. A client that waits for
/// `100 Continue` is not asked for the body.
pub(crate) async fn is_drained(body: &mut Incoming, sends_when_asked: bool) -> bool {
    if body.is_end_stream() {
        return true;
    }
    if body.size_hint().lower() > DRAINED_MAX {
        return false;
    }
    if sends_when_asked {
        return matches!(body.frame().now_or_never(), Some(None));
    }
    let drain = async {
        let mut left = DRAINED_MAX;
        while let Some(frame) = body.frame().await {
            let read = frame.ok().map(|frame| frame.data_ref().map_or(0, Bytes::len) as u64)?;
            left = left.checked_sub(read)?;
        }
        Some(())
    };
    matches!(tokio::time::timeout(DRAIN_TIME, drain).await, Ok(Some(())))
}

/// Body of an answer. Most are complete, and are sent without another allocation.
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

    /// A body that ends with the stream.
    pub fn streaming(parts: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::new(StreamBody::new(parts.map(|part| Ok(Frame::data(part)))))
    }

    /// The complete body.
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

/// The body, cut short when `end` completes.
pub(crate) fn until(body: Body, end: impl Future<Output = ()> + Send + 'static) -> Body {
    let parts = body.into_data_stream().take_until(Box::pin(end));
    Body::streaming(parts.map(|part| match part {
        Ok(part) => part,
        Err(never) => match never {},
    }))
}

/// The body, which keeps `kept` alive until the connection has taken the body or dropped it.
pub(crate) fn keeping(body: Body, kept: impl Send + 'static) -> Body {
    Body::new(body.inspect_frame(move |_| _ = &kept))
}
