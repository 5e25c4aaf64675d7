//! Handlers: plain functions that the worker calls with a task.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use rushgate_core::{Field, Payload, Result};
use serde::de::DeserializeOwned;
use tower::util::service_fn;

use super::{FromJob, IntoOutcome, Job, JobService, Outcome};
use crate::queue::read_json;

type Answer = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// An async function that handles one task.
///
/// The first argument is the content: a type deserialized from JSON, [`Payload`] for raw bytes, or a [`Job`]
/// of either. Up to six [extractors](FromJob) may follow. The return type implements [`IntoOutcome`]. `M` is
/// a marker for the compiler.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    note = "it is `async fn(content, extractors…) -> impl IntoOutcome`, and its future is `Send`",
    note = "the content is a `DeserializeOwned`, `Payload`, or `Job` of one; `State<S>` has the worker's state"
)]
pub trait Handler<M, S>: Send + Sync + 'static {
    /// Calls the function. Fails if it cannot read the content.
    fn call(&self, job: Job, state: &S) -> Result<Answer>;
}

/// A blocking function that handles one task on a thread of its own: like [`Handler`], without `async`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a blocking handler",
    note = "it is `fn(content, extractors…) -> impl IntoOutcome`",
    note = "the content is a `DeserializeOwned`, `Payload`, or `Job` of one; `State<S>` has the worker's state"
)]
pub trait BlockingHandler<M, S>: Send + Sync + 'static {
    /// Calls the function. Fails if it cannot read the content.
    fn call(&self, job: Job, state: &S) -> Result<Outcome>;
}

/// First argument of a handler. `M` is [`AsJson`] or [`AsIs`].
pub trait FromContent<M>: Sized {
    /// Reads the content.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) if the content is not of this type. The task then becomes a
    /// dead letter, because no later attempt could read it.
    fn from_content(job: Job) -> Result<Self>;
}

/// Marker: the content is deserialized from JSON. Has no values.
#[derive(Debug)]
pub struct AsJson(());

/// Marker: the content is passed as is, alone or in a [`Job`]. Has no values.
#[derive(Debug)]
pub struct AsIs<M = ()>(PhantomData<M>);

impl<T: DeserializeOwned> FromContent<AsJson> for T {
    fn from_content(job: Job) -> Result<Self> {
        read_json(Field::Payload, &job.payload)
    }
}

impl FromContent<AsIs> for Payload {
    fn from_content(job: Job) -> Result<Self> {
        Ok(job.payload)
    }
}

impl<M, T: FromContent<M>> FromContent<AsIs<M>> for Job<T> {
    fn from_content(job: Job) -> Result<Self> {
        let payload = T::from_content(job.clone())?;
        Ok(job.carrying(payload))
    }
}

macro_rules! handlers {
    ($($part:ident)*) => {
        #[allow(non_snake_case, unused_variables)]
        impl<F, Fut, O, S, M, T, $($part),*> Handler<(M, T, $($part,)*), S> for F
        where
            F: Fn(T, $($part),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = O> + Send + 'static,
            O: IntoOutcome + 'static,
            T: FromContent<M>,
            $($part: FromJob<S>,)*
        {
            fn call(&self, job: Job, state: &S) -> Result<Answer> {
                $(let $part = $part::from_job(&job, state);)*
                let handled = self(T::from_content(job)?, $($part),*);
                Ok(Box::pin(async move { handled.await.into_outcome() }))
            }
        }

        #[allow(non_snake_case, unused_variables)]
        impl<F, O, S, M, T, $($part),*> BlockingHandler<(M, T, $($part,)*), S> for F
        where
            F: Fn(T, $($part),*) -> O + Send + Sync + 'static,
            O: IntoOutcome,
            T: FromContent<M>,
            $($part: FromJob<S>,)*
        {
            fn call(&self, job: Job, state: &S) -> Result<Outcome> {
                $(let $part = $part::from_job(&job, state);)*
                Ok(self(T::from_content(job)?, $($part),*).into_outcome())
            }
        }
    };
}

handlers!();
handlers!(A);
handlers!(A B);
handlers!(A B C);
handlers!(A B C D);
handlers!(A B C D E);
handlers!(A B C D E G);

/// A handler as the innermost service.
pub(super) fn each<M, S: Send + Sync + 'static>(handler: impl Handler<M, S>, state: S) -> JobService {
    let handler = Arc::new(move |job| handler.call(job, &state));
    JobService::new(service_fn(move |job| {
        let handled = handler(job);
        async move {
            Ok(match handled {
                Ok(handled) => handled.await,
                Err(error) => Outcome::give_up(error),
            })
        }
    }))
}

/// A blocking handler as the innermost service.
pub(super) fn on_thread<M, S>(handler: impl BlockingHandler<M, S>, state: S) -> JobService
where
    S: Send + Sync + 'static,
{
    let handler = Arc::new(move |job| handler.call(job, &state));
    JobService::new(service_fn(move |mut job: Job| {
        let handler = Arc::clone(&handler);
        // A token of its own: dropping this future, for example on a timeout, must not cancel the task.
        job.cancel = job.cancel.child_token();
        let left = job.cancel.clone().drop_guard();
        async move {
            let span = tracing::Span::current();
            let handled = tokio::task::spawn_blocking(move || span.in_scope(|| handler(job))).await;
            drop(left.disarm());
            match handled {
                Ok(handled) => Ok(handled.unwrap_or_else(Outcome::give_up)),
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The runtime is shutting down.
                    Err(_) => Ok(Outcome::Release),
                },
            }
        }
    }))
}
