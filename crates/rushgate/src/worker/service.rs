//! Handlers as Tower services, so that layers can wrap them.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use super::{Job, Outcome};

/// Error of a layer's service. It fails the attempt.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

pub(super) type Answer = Pin<Box<dyn Future<Output = Result<Outcome, BoxError>> + Send>>;

/// A handler with the layers added so far: the value that the next layer wraps.
///
/// It is a `tower_service::Service<Job, Response = Outcome>`.
pub struct JobService(Box<dyn AnyService>);

trait AnyService: Send + Sync {
    fn cloned(&self) -> Box<dyn AnyService>;
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>>;
    fn call(&mut self, job: Job) -> Answer;
}

impl<W> AnyService for W
where
    W: Service<Job, Response = Outcome> + Clone + Send + Sync + 'static,
    W::Error: Into<BoxError>,
    W::Future: Send + 'static,
{
    fn cloned(&self) -> Box<dyn AnyService> {
        Box::new(self.clone())
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Service::poll_ready(self, context).map_err(Into::into)
    }

    fn call(&mut self, job: Job) -> Answer {
        let answer = Service::call(self, job);
        Box::pin(async move { answer.await.map_err(Into::into) })
    }
}

impl JobService {
    pub(super) fn new<W>(service: W) -> Self
    where
        W: Service<Job, Response = Outcome> + Clone + Send + Sync + 'static,
        W::Error: Into<BoxError>,
        W::Future: Send + 'static,
    {
        Self(Box::new(service))
    }

    pub(super) async fn handle(&self, job: Job) -> Outcome {
        let mut service = self.0.cloned();
        let answer = async {
            poll_fn(|context| service.poll_ready(context)).await?;
            service.call(job).await
        };
        answer.await.unwrap_or_else(Outcome::retry)
    }
}

impl Clone for JobService {
    fn clone(&self) -> Self {
        Self(self.0.cloned())
    }
}

impl std::fmt::Debug for JobService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobService").finish_non_exhaustive()
    }
}

impl Service<Job> for JobService {
    type Response = Outcome;
    type Error = BoxError;
    type Future = Answer;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, job: Job) -> Answer {
        self.0.call(job)
    }
}

/// Wraps a service in a layer.
pub(super) type Wrap = Box<dyn Fn(JobService) -> JobService + Send + Sync>;

pub(super) fn wrap<L>(layer: L) -> Wrap
where
    L: Layer<JobService> + Send + Sync + 'static,
    L::Service: Service<Job, Response = Outcome> + Clone + Send + Sync + 'static,
    <L::Service as Service<Job>>::Error: Into<BoxError>,
    <L::Service as Service<Job>>::Future: Send + 'static,
{
    Box::new(move |service| JobService::new(layer.layer(service)))
}
