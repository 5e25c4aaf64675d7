//! Sentinels: queries all of them for the primary of a service, and subscribes to each.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rushgate_core::{Error, Result};
use tokio::sync::watch;

use crate::backoff::Backoff;
use crate::command::Command;
use crate::fault;
use crate::reply::Answered;
use crate::runtime::Runtime;
use crate::transport::{ASK_AGAIN_MAX, ASK_FIRST_MAX, Address, Pushes, Server, ask_each};

/// The channel on which sentinels announce a new primary.
const SWITCHED: &str = "+switch-master";

/// The primary that a sentinel names. Each failover has an epoch; the greatest epoch is the latest.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    address: Address,
    epoch: u64,
}

pub(crate) struct Sentinels {
    /// The sentinels, with the user, password and database of the primary.
    nodes: Vec<Server>,
    service: String,
    /// Whether the sentinels require these credentials as well.
    guarded: AtomicBool,
    /// The primary, as far as is known. Connections to any other server are dropped.
    primary: watch::Sender<Option<Named>>,
}

impl Sentinels {
    /// Starts to follow the announcements of all sentinels.
    pub(crate) fn start(nodes: Vec<Server>, service: String, runtime: &Runtime) -> Arc<Self> {
        let (guarded, primary) = (AtomicBool::new(false), watch::Sender::new(None));
        let sentinels = Arc::new(Self { nodes, service, guarded, primary });
        for number in 0..sentinels.nodes.len() {
            runtime.spawn(Arc::clone(&sentinels).hear(number));
        }
        sentinels
    }

    /// Asks all sentinels and returns the primary with the greatest epoch.
    pub(crate) async fn find(&self) -> Result<Server> {
        let asked = self.ask().await;
        let known = self.primary.borrow().clone();
        match (asked, known) {
            (Ok(asked), Some(known)) if asked.epoch < known.epoch => self.nodes[0].at(&known.address),
            (Ok(asked), _) => {
                let server = self.nodes[0].at(&asked.address);
                self.note(asked);
                server
            }
            // The sentinels do not answer, or not usefully. That alone does not change the primary.
            (Err(_), Some(known)) => self.nodes[0].at(&known.address),
            (Err(error), None) => Err(error),
        }
    }

    /// Reports whether the primary could be used. If not, it is forgotten, so that the next answer of the sentinels
    /// counts even if their epoch was reset.
    pub(crate) fn tried(&self, at: &Address, well: bool) {
        if !well {
            self.primary.send_if_modified(|known| known.take_if(|known| known.address == *at).is_some());
        }
    }

    fn note(&self, named: Named) {
        self.primary.send_if_modified(|known| {
            let newer = known.as_ref().is_none_or(|known| named.epoch >= known.epoch && named != *known);
            if newer {
                tracing::debug!(service = %self.service, primary = %named.address, "found the primary");
                *known = Some(named);
            }
            newer
        });
    }

    pub(crate) fn is_left(&self, at: &Address) -> bool {
        is_other(&self.primary.borrow(), at)
    }

    pub(crate) async fn left(&self, at: &Address) {
        let mut primary = self.primary.subscribe();
        // The sender lives as long as `self`, so the wait can only end with the condition.
        let _ = primary.wait_for(|known| is_other(known, at)).await;
    }

    /// Completes when the sentinels name a primary.
    pub(crate) async fn changed(&self) {
        let mut primary = self.primary.subscribe();
        while primary.changed().await.is_ok() && primary.borrow_and_update().is_none() {}
    }

    fn nodes(&self) -> impl Iterator<Item = Server> {
        let guarded = self.guarded.load(Ordering::Relaxed);
        self.nodes.iter().filter_map(move |node| node.sentinel(guarded))
    }

    /// The primary with the greatest epoch that a sentinel names.
    async fn ask(&self) -> Result<Named> {
        let question = [Command::new("SENTINEL").arg("MASTER").arg(&self.service)];
        let max = if self.primary.borrow().is_none() { ASK_FIRST_MAX } else { ASK_AGAIN_MAX };
        let mut answers = ask_each(self.nodes(), &question, max).await?;
        if answers.iter().any(|(_, answers)| is_guarded(answers))
            && !self.guarded.swap(true, Ordering::Relaxed)
        {
            answers = ask_each(self.nodes(), &question, max).await?;
        }
        let mut failed = self.unknown();
        let mut latest: Option<Named> = None;
        for (_, answers) in answers {
            match self.read(answers) {
                Ok(named) if latest.as_ref().is_none_or(|latest| named.epoch > latest.epoch) => {
                    latest = Some(named)
                }
                Ok(_) => {}
                Err(error) => failed = error,
            }
        }
        latest.ok_or(failed)
    }

    fn read(&self, answers: Vec<Answered>) -> Result<Named> {
        match answers.into_iter().next() {
            Some(Ok(reply)) => {
                let facts = reply.list()?.each(|fields| Ok((fields.text()?, fields.text()?)))?;
                named(&facts.into_iter().collect()).ok_or_else(|| self.unknown())
            }
            // The error has no code of its own.
            Some(Err(refusal)) if refusal.text.contains("No such master") => Err(self.unknown()),
            Some(Err(refusal)) if fault::lacks_command(&refusal, "SENTINEL") => Err(Error::misconfigured(
                "the server is not a sentinel",
            )
            .hint("name the sentinels (default port 26379), or use redis://HOST:PORT for a single server")),
            Some(Err(refusal)) => Err(fault::refused(&refusal)),
            None => Err(self.unknown()),
        }
    }

    fn unknown(&self) -> Error {
        Error::misconfigured(format_args!("the sentinels do not know the service `{}`", self.service))
            .hint("use the service name from `sentinel monitor` in the sentinels' configuration")
    }

    /// Follows the announcements of one sentinel. A replaced primary may answer for another ten seconds, until the
    /// sentinels have demoted it, and writes to it are lost. So reconnecting when a connection ends would be too late.
    async fn hear(self: Arc<Self>, number: usize) {
        let mut backoff = Backoff::new();
        loop {
            if let Some(mut pushes) = self.listen(number).await {
                backoff = Backoff::new();
                self.look().await;
                while pushes.next().await.is_some() {
                    self.look().await;
                }
            }
            tokio::time::sleep(backoff.draw()).await;
        }
    }

    async fn listen(&self, number: usize) -> Option<Pushes> {
        let sentinel = self.nodes().nth(number)?;
        sentinel
            .listen(SWITCHED)
            .await
            .inspect_err(|error| tracing::debug!(%error, "a sentinel does not respond"))
            .ok()
    }

    async fn look(&self) {
        match self.ask().await {
            Ok(named) => self.note(named),
            Err(error) => tracing::debug!(%error, "the sentinels did not name the primary"),
        }
    }
}

fn is_other(known: &Option<Named>, at: &Address) -> bool {
    known.as_ref().is_some_and(|known| known.address != *at)
}

fn is_guarded(answers: &[Answered]) -> bool {
    answers.iter().any(|answer| matches!(answer, Err(refusal) if refusal.code == "NOAUTH"))
}

fn named(facts: &HashMap<String, String>) -> Option<Named> {
    let address = Address { host: facts.get("ip")?.clone(), port: facts.get("port")?.parse().ok()? };
    Some(Named { address, epoch: facts.get("config-epoch")?.parse().ok()? })
}
