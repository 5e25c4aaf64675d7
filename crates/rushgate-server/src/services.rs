//! Background services of the server: a sweeper per sale, an order worker per sale with a ledger, and a
//! scheduler per queue with schedules.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rushgate::queue::QueueName;
use rushgate::sale::{DamagedSale, ListedSale, SaleId, SaleState, SaleStatus, Sweeper};
use rushgate::schedule::Scheduler;
use rushgate::store::Page;
use rushgate::{CancellationToken, OrderWorker, Result};
use tokio::task::JoinSet;

use crate::app::App;

/// Interval for finding sales and schedules made by other processes.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The interval in multiples of the time that the latest look took: with a million sales it takes seconds.
const LOOK_SHARE: u32 = 20;

/// Runs the services until `shutdown`, then waits for the work under way.
pub(crate) async fn run(app: Arc<App>, shutdown: CancellationToken) {
    let mut services = BackgroundServices {
        app,
        shutdown,
        at_work: HashSet::new(),
        damaged: HashSet::new(),
        tasks: JoinSet::new(),
    };
    services.look_after().await;
    while services.tasks.join_next().await.is_some() {}
}

struct BackgroundServices {
    app: Arc<App>,
    shutdown: CancellationToken,
    at_work: HashSet<Charge>,
    /// Sales that were damaged at the latest look. The log names each once.
    damaged: HashSet<SaleId>,
    tasks: JoinSet<Charge>,
}

/// Subject of one service.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Charge {
    Sale(SaleId),
    /// The schedules of a queue.
    Schedules(QueueName),
}

impl BackgroundServices {
    async fn look_after(&mut self) {
        while !self.shutdown.is_cancelled() {
            let start = Instant::now();
            if let Err(error) = self.send_to_new_sales().await {
                tracing::warn!(%error, "cannot list the sales; retrying");
            }
            if let Err(error) = self.send_to_new_schedules().await {
                tracing::warn!(%error, "cannot list the schedules; retrying");
            }
            tokio::select! {
                () = self.app.more_to_look_after.notified() => {}
                () = tokio::time::sleep(LOOK_EVERY.max(LOOK_SHARE * start.elapsed())) => {}
                Some(left) = self.tasks.join_next() => {
                    // The next poll starts the service again if there is still work.
                    if let Ok(charge) = left {
                        self.at_work.remove(&charge);
                    }
                }
                () = self.shutdown.cancelled() => {}
            }
        }
    }

    async fn send_to_new_sales(&mut self) -> Result<()> {
        let mut damaged = HashSet::new();
        let mut next = Some(Page::default());
        // One page at a time, because all sales together may not fit the memory.
        while let Some(page) = next {
            let sales = self.app.client.sales(page.clone()).await?;
            next = page.next(&sales, |sale| sale.id().as_str());
            for sale in sales {
                match sale {
                    ListedSale::Sound(sale) if has_work(&sale) => self.send(sale),
                    ListedSale::Sound(_) => {}
                    ListedSale::Damaged(DamagedSale { id, damage }) => {
                        if !self.damaged.contains(&id) {
                            tracing::error!(sale = %id, damage, "cannot look after the sale");
                        }
                        damaged.insert(id);
                    }
                }
            }
        }
        self.damaged = damaged;
        Ok(())
    }

    fn send(&mut self, state: SaleState) {
        let id = state.spec.id;
        let Ok(sale) = self.app.client.sale(&id) else { return };
        let charge = Charge::Sale(id.clone());
        if !self.at_work.insert(charge.clone()) {
            return;
        }
        let (ledger, shutdown) =
            (self.app.ledger.clone().filter(|_| state.spec.ledger), self.shutdown.clone());
        self.tasks.spawn(async move {
            let swept = Sweeper::new(sale.clone()).run(shutdown.clone());
            let carried = async {
                match ledger {
                    Some(ledger) => OrderWorker::new(sale, ledger).run(shutdown).await.map(drop),
                    None => Ok(()),
                }
            };
            if let Err(error) = tokio::try_join!(swept, carried) {
                tracing::error!(sale = %id, %error, "the background services of the sale stopped; restarting them");
            }
            charge
        });
    }

    async fn send_to_new_schedules(&mut self) -> Result<()> {
        let client = &self.app.client;
        for name in Page::default().read_all(|page| client.queues(page), QueueName::as_str).await? {
            let charge = Charge::Schedules(name.clone());
            if self.at_work.contains(&charge) {
                continue;
            }
            let queue = self.app.client.queue(&name)?;
            if queue.schedules(Page::first(1)).await?.is_empty() {
                continue;
            }
            self.at_work.insert(charge.clone());
            let shutdown = self.shutdown.clone();
            self.tasks.spawn(async move {
                if let Err(error) = Scheduler::new(queue).run(shutdown).await {
                    tracing::error!(queue = %name, %error, "the scheduler of the queue stopped; restarting it");
                }
                charge
            });
        }
        Ok(())
    }
}

/// False for an ended sale without holds, whose ledger has every order: it has no deadlines and gets no more orders.
fn has_work(sale: &SaleState) -> bool {
    let is_ended = sale.status == SaleStatus::Ended;
    let holds = sale.skus.iter().any(|sku| sku.held > 0);
    let orders = sale.orders.is_some_and(|orders| orders.through < sale.seq || orders.failed > 0);
    !is_ended || holds || orders
}
