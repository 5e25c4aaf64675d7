//! Maps each task to its handler.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rushgate_core::{Error, Kind, Result};

use super::handler::FromContent;
use super::service::{JobService, Wrap};
use super::{Backoff, IntoOutcome, Job, Outcome};

/// Matches every kind without a handler of its own.
pub(super) const ANY: &str = "*";

pub(super) type BatchHandler =
    Arc<dyn Fn(Vec<Job>) -> Pin<Box<dyn Future<Output = Vec<Outcome>> + Send>> + Send + Sync>;

/// Handler and settings for a kind.
pub(super) struct Route {
    pub handling: Handling,
    pub terms: Terms,
}

/// How the tasks of a kind are handled.
pub(super) enum Handling {
    /// One task per call, inside the layers.
    Each(JobService),
    /// Up to this many tasks per call.
    Batches(u32, BatchHandler),
}

/// Settings of a kind that override those of the worker.
#[derive(Clone, Copy, Default)]
pub(super) struct Terms {
    pub timeout: Option<Duration>,
    pub retry_policy: Option<Backoff>,
}

/// Handlers of a worker that is being built.
#[derive(Default)]
pub(super) struct Register {
    handlings: BTreeMap<String, Handling>,
    terms: BTreeMap<String, Terms>,
}

impl Register {
    pub fn add(&mut self, kind: &str, handling: Handling) -> Result<()> {
        if kind != ANY {
            Kind::new(kind)?;
        }
        match self.handlings.insert(kind.to_owned(), handling) {
            None => Ok(()),
            Some(_) => Err(wrong(format_args!("has two handlers for the kind `{kind}`"))),
        }
    }

    pub fn terms(&mut self, kind: &str) -> &mut Terms {
        self.terms.entry(kind.to_owned()).or_default()
    }

    /// Wraps the handlers in the layers; the last is the outermost.
    pub fn finish(self, layers: &[Wrap]) -> Result<Routes> {
        let Self { handlings, terms } = self;
        if handlings.is_empty() {
            return Err(wrong("has no handler").hint("add one with Worker::register"));
        }
        if let Some(kind) = terms.keys().find(|kind| !handlings.contains_key(*kind)) {
            return Err(wrong(format_args!("has settings for the kind `{kind}`, but no handler")));
        }
        let route = |(kind, handling)| {
            let handling = match handling {
                Handling::Each(service) => {
                    Handling::Each(layers.iter().fold(service, |service, wrap| wrap(service)))
                }
                batches @ Handling::Batches(..) => batches,
            };
            let terms = terms.get(&kind).copied().unwrap_or_default();
            (kind, Arc::new(Route { handling, terms }))
        };
        Ok(Routes { by_kind: handlings.into_iter().map(route).collect() })
    }
}

fn wrong(why: impl Display) -> Error {
    Error::invalid("the worker", why)
}

/// Handlers of a running worker.
pub(super) struct Routes {
    by_kind: BTreeMap<String, Arc<Route>>,
}

impl Routes {
    pub fn of(&self, kind: Option<&str>) -> Option<&Arc<Route>> {
        kind.and_then(|kind| self.by_kind.get(kind)).or_else(|| self.by_kind.get(ANY))
    }

    /// Kinds that have a handler of their own.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.by_kind.keys().map(String::as_str).filter(|kind| *kind != ANY)
    }

    /// Maximum number of tasks to claim per free slot. Tasks of one claim may be of different kinds and need
    /// a slot each, so a worker with several handlers claims one task per slot.
    pub fn per_slot(&self) -> u32 {
        match self.by_kind.get(ANY).map(|route| &route.handling) {
            Some(Handling::Batches(max, _)) if self.by_kind.len() == 1 => *max,
            _ => 1,
        }
    }
}

/// Calls the handler with the tasks whose content can be read, and fails the others.
pub(super) fn batches<M, T, H, Fut, O>(handler: H) -> BatchHandler
where
    M: 'static,
    T: FromContent<M> + Send + 'static,
    H: Fn(Vec<Job<T>>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Vec<O>> + Send + 'static,
    O: IntoOutcome + 'static,
{
    let handler = Arc::new(handler);
    Arc::new(move |jobs| {
        let handler = Arc::clone(&handler);
        let (mut readable, mut unreadable) = (Vec::with_capacity(jobs.len()), Vec::new());
        for job in jobs {
            match T::from_content(job.clone()) {
                Ok(payload) => {
                    readable.push(job.carrying(payload));
                    unreadable.push(None);
                }
                Err(error) => unreadable.push(Some(Outcome::give_up(error))),
            }
        }
        Box::pin(async move {
            let handled = if readable.is_empty() { Vec::new() } else { handler(readable).await };
            let mut handled = handled.into_iter().map(IntoOutcome::into_outcome);
            let missing = || Outcome::retry("the batch handler returned no outcome for this task");
            let answer = |known: Option<Outcome>| known.or_else(|| handled.next()).unwrap_or_else(missing);
            unreadable.into_iter().map(answer).collect()
        })
    })
}
