//! The cache of specifications, and the verbs of sales that take several calls.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use rushgate_core::{Created, ListedSale, Page, Result, SaleId, SaleSpec, Snapshot, verb};

use super::Inner;
use crate::command::{Call, Command};
use crate::keys;
use crate::reply::{Reply, read_code};
use crate::sale::{self, Home};

/// The most specifications of sales that are cached.
const HOMES_MAX: usize = 1_024;

impl Inner {
    fn homes(&self) -> MutexGuard<'_, HashMap<SaleId, Arc<Home>>> {
        self.homes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn known_home(&self, id: &SaleId) -> Option<Arc<Home>> {
        self.homes().get(id).cloned()
    }

    pub(crate) fn forget_home(&self, id: &SaleId) {
        self.homes().remove(id);
    }

    /// The specification and keys of a sale, from the cache or the server.
    async fn home(&self, id: &SaleId) -> Result<Arc<Home>> {
        if let Some(home) = self.known_home(id) {
            return Ok(home);
        }
        match self.dispatcher.send(Command::new("GET").arg(keys::sale_home(id).first())).await? {
            Reply::Nil => Err(sale::unknown(id)),
            stored => {
                let home = Arc::new(Home::new(SaleSpec::from_json(id, &stored.bytes()?)?));
                let mut homes = self.homes();
                if homes.len() >= HOMES_MAX {
                    homes.clear();
                }
                homes.insert(id.clone(), Arc::clone(&home));
                Ok(home)
            }
        }
    }

    pub(crate) async fn step_of_sale<V, T>(
        self: Arc<Self>,
        id: SaleId,
        verb: V,
        build: fn(&Home, &V) -> Result<Call>,
        read: fn(&Home, &V, Reply) -> Result<T>,
    ) -> Result<T> {
        // The cached specification may be that of a sale that has since been replaced.
        let cached = self.known_home(&id).is_some();
        let home = self.home(&id).await?;
        let reply = self.dispatcher.send(build(&home, &verb)?).await?;
        if !reply.is("MISSING") {
            return read(&home, &verb, reply);
        }
        self.forget_home(&id);
        if cached {
            return Box::pin(self.step_of_sale(id, verb, build, read)).await;
        }
        Err(sale::without_keys(&id))
    }

    pub(crate) async fn create(self: Arc<Self>, spec: SaleSpec) -> Result<Created> {
        let entry = Command::new("ZADD").arg(keys::SALES).arg("0").arg(spec.id.as_str());
        self.dispatcher.send(entry).await?;
        read_code(self.dispatcher.send(sale::create(&Home::new(spec))).await?)
    }

    pub(crate) async fn sales(self: Arc<Self>, mut page: Page) -> Result<Vec<ListedSale>> {
        let mut states = Vec::new();
        loop {
            let mut ids = self.entries(keys::SALES, &page).await?;
            if ids.is_empty() {
                return Ok(states);
            }
            while !ids.is_empty() {
                let id = SaleId::as_stored(ids.text()?)?;
                id.as_str().clone_into(&mut page.after);
                let verb = verb::Sale { sale: id.clone() };
                let step = Arc::clone(&self).step_of_sale(id.clone(), verb, sale::show, sale::read_state);
                match step.await {
                    Err(error) if error.is_not_found() => {}
                    state => states.push(ListedSale::of(id, state)?),
                }
                if states.len() == page.limit as usize {
                    return Ok(states);
                }
            }
        }
    }

    /// Whether the list of sales lacks the sale. A name is listed before it is used, so this can be read after the sale.
    async fn is_unlisted(&self, id: &SaleId) -> Result<bool> {
        let score = self.dispatcher.send(Command::new("ZSCORE").arg(keys::SALES).arg(id.as_str())).await?;
        // Pages of a directory rely on equal scores.
        Ok(score == Reply::Nil || score.text()? != "0")
    }

    pub(crate) async fn snapshot(self: Arc<Self>, id: SaleId) -> Result<Snapshot> {
        // Read the specification from the server, not from the cache.
        self.forget_home(&id);
        let home = self.home(&id).await?;
        let reply = self.dispatcher.send(sale::snapshot(&home)).await?;
        let mut snapshot = sale::read_snapshot(&home, reply)?;
        if self.is_unlisted(&id).await? {
            snapshot.contradictions.push("the list of sales lacks the sale".to_owned());
        }
        Ok(snapshot)
    }
}
