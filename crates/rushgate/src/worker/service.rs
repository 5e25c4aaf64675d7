//! Handlers as Tower services, so that layers can wrap them.

use tower::util::{BoxCloneSyncService, ServiceExt};
use tower_layer::Layer;
use tower_service::Service;

use super::{Job, Outcome};

/// Error of a layer's service. It fails the attempt.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A handler with the layers added so far: the value that the next layer wraps. It is a
/// `tower_service::Service<Job, Response = Outcome>`.
pub type JobService = BoxCloneSyncService<Job, Outcome, BoxError>;

/// Runs a handler inside its layers.
pub(super) async fn handle(service: &JobService, job: Job) -> Outcome {
    service.clone().oneshot(job).await.unwrap_or_else(Outcome::retry)
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
    Box::new(move |service| JobService::new(layer.layer(service).map_err(Into::into)))
}
