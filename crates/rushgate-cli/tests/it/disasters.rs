//! One sale in several processes, on Sentinel and Postgres, while servers and processes die at random times.
//! The seed is printed.

#[path = "../../../rushgate/tests/it/common/mortal.rs"]
mod mortal;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::rushes::{
    Member, assert_audited, finish, note, report_of, rush, see, signal, start_telling,
};
use mortal::DiesAfterCommit;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rushgate::sale::{EventKind, SaleId, SaleState};
use rushgate::store::Page;
use rushgate::{CancellationToken, Error, OrderWorker, Rushgate, SaleBuilder, connect_ledger};
use rushgate_core::Verbs;
use rushgate_redis::RedisStore;
use rushgate_test::servers::{DOWN_AFTER, Kind, PostgresServer, SentinelGroup, SentinelSetup};
use rustix::process::Signal;
use tokio::runtime::Runtime;

/// Acknowledged writes are on a replica too.
const REPLICATED: [&str; 4] = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"];
const SALE: &str = "launch";
const STOCK: u32 = 3_000;
/// Timeout for anything that is expected to happen.
const RETRY_BUDGET: Duration = Duration::from_secs(60);
/// Sentinel promotes no replica that has been disconnected for much longer.
const GAP_MAX: Duration = Duration::from_secs(4);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Whether the killed primary had acknowledged writes that no replica has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    None,
    OfWhatOnlyThePrimaryHad,
}

/// A sale, the processes that sell it, and their servers.
struct Scene {
    random: StdRng,
    loss: Loss,
    group: SentinelGroup,
    ledger: PostgresServer,
    looker: Looker,
    /// A simulation with an unlimited number of buyers, which is killed.
    victim: Member,
    worker: Member,
    others: [Member; 2],
}

impl Scene {
    fn set(kind: Kind, seed: u64, loss: Loss) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let setup = SentinelSetup::new(kind);
        let group = match loss {
            Loss::None => setup.with(&REPLICATED).start(),
            Loss::OfWhatOnlyThePrimaryHad => setup.start(),
        };
        let ledger = PostgresServer::start();
        // It creates the sale, so it is the first to follow it.
        let worker = doomed_worker(&group.url(), &ledger.url(), hold(loss));
        let looker = Looker::new(&group.url());
        let mut sell = |buyers| start_telling(&words(&group, &ledger, loss, random.random(), buyers));
        let mut members = ["1000000000", "100000", "100000"].map(&mut sell);
        // Wait until all processes run. How much they have sold by then does not matter.
        members.iter_mut().for_each(|member| see(member, |_| true));
        let [victim, others @ ..] = members;
        Self { random, loss, group, ledger, looker, victim, worker, others }
    }

    /// Runs all disasters, each after a part of the stock has been sold. Returns how many reservations only
    /// the primary had when it died.
    fn disasters(&mut self) -> usize {
        let mut moment = |before| self.random.random_range(0..before);
        // Leave enough units for the primary to sell without replicas.
        let primary_dies = moment(STOCK / 3);
        let [ledger_restarts, member_dies, worker_dies] = [STOCK / 2; 3].map(moment);
        let death =
            Death { enough: self.random.random_range(1..200), ledger_is_away: self.random.random_bool(0.5) };
        note(&format!(
            "of {STOCK}: the primary dies at {primary_dies} ({death:?}), the ledger restarts at {ledger_restarts}, a \
             member dies at {member_dies}, a worker at {worker_dies}"
        ));
        let (looker, loss) = (&self.looker, self.loss);
        let (group, victim, worker) = (&mut self.group, &mut self.victim, &mut self.worker);
        let ledger = Mutex::new(&mut self.ledger);
        let locked = || ledger.lock().unwrap_or_else(PoisonError::into_inner);
        thread::scope(|disasters| {
            let lost = disasters.spawn(|| {
                looker.until_taken(primary_dies);
                let primary = group.primary();
                if loss == Loss::None {
                    group.servers[primary].kill();
                    return 0;
                }
                death.alone(group, primary, &mut locked())
            });
            disasters.spawn(|| {
                looker.until_taken(ledger_restarts);
                let mut ledger = locked();
                ledger.stop();
                ledger.start_again();
            });
            disasters.spawn(|| {
                looker.until_taken(member_dies);
                signal(victim, Signal::KILL);
                victim.wait().expect("it is dead");
            });
            disasters.spawn(|| {
                looker.until_taken(worker_dies);
                have_worker_die(worker, looker);
            });
            lost.join().expect("the primary died")
        })
    }

    /// Checks all reports, and that of a final simulation, by which time every order is recorded, including
    /// those of killed processes.
    fn end(mut self, lost: usize) {
        let mut reports: Vec<_> = self.others.into_iter().map(|child| report_of(child).1).collect();
        if let Some(dead) = self.group.servers.iter_mut().find(|server| server.pid().is_none()) {
            dead.restart();
        }
        let last = words(&self.group, &self.ledger, self.loss, self.random.random(), "40000");
        let (status, last) = finish(rush(&last));
        assert!(status.success(), "{last:#}");
        assert_eq!((&last["confirmed"], &last["held"]), (&STOCK.into(), &0.into()), "{last:#}");
        reports.push(last);
        reports.iter().for_each(assert_audited);
        let of = |figure: &str| -> u64 {
            reports.iter().filter_map(|report| report.pointer(figure)?.as_u64()).sum()
        };
        let figures = ["/rebuilds", "/receipts/restored", "/receipts/lost", "/lost_writes"].map(of);
        let generation = reports.last().and_then(|last| last["generation"].as_u64());
        note(&format!(
            "{lost} lost; generation {generation:?}; rebuilds, restored, gone and seen {figures:?}"
        ));
        match self.loss {
            Loss::None => assert_eq!((generation, figures), (Some(1), [0; 4])),
            Loss::OfWhatOnlyThePrimaryHad => {
                assert!(lost > 0, "no write was lost");
                assert!(generation > Some(1), "the sale was rebuilt");
            }
        }
    }
}

/// How the primary dies.
#[derive(Clone, Copy, Debug)]
struct Death {
    /// Number of reservations that only the primary has when it is killed.
    enough: usize,
    /// Whether the ledger is down too, so that only the buyers' receipts prove the reservations.
    ledger_is_away: bool,
}

impl Death {
    /// Kills the primary after it has acknowledged writes that no replica has.
    fn alone(self, group: &mut SentinelGroup, primary: usize, ledger: &mut PostgresServer) -> usize {
        // On a busy machine it may be silent, and is not to be replaced while it is alone.
        group.set_down_after(2 * RETRY_BUDGET);
        group.cut_off_replicas();
        let (since, alone) = (Instant::now(), Looker::new(&group.servers[primary].url()));
        // The replicas have at most this.
        let cut = alone.until(|_| true);
        // Without the ledger, lost units do not return, so the rest may sell out quickly.
        let ledger_is_away = self.ledger_is_away && cut.skus[0].free > STOCK / 10;
        let cut = cut.seq;
        if ledger_is_away {
            ledger.stop();
        }
        let enough = |_: &SaleState| match alone.reservations_since(cut) {
            lost if lost >= self.enough => true,
            0 => false,
            _ => since.elapsed() > GAP_MAX,
        };
        alone.until(enough);
        let lost = alone.reservations_since(cut);
        group.servers[primary].kill();
        group.set_down_after(DOWN_AFTER);
        if ledger_is_away {
            ledger.start_again();
        }
        lost
    }
}

/// Lets the doomed worker die as soon as the ledger has committed its next batch, unless another worker follows the
/// sale by then and leaves it none.
fn have_worker_die(worker: &mut Member, looker: &Looker) {
    let mut begin = worker.stdin.take().expect("stdin is piped");
    begin.write_all(b"\n").expect("it waits for this");
    // With a time limit: it never commits if another disaster left the ledger down.
    let end = Instant::now() + 2 * RETRY_BUDGET;
    loop {
        if let Some(status) = worker.try_wait().expect("it is a child") {
            assert_eq!(status.signal(), Some(9), "it died after the commit");
            return;
        }
        if looker.everything_is_recorded() {
            note("no order was left for the worker");
            signal(worker, Signal::KILL);
            return;
        }
        assert!(Instant::now() < end, "the worker wrote nothing to the ledger");
        thread::sleep(LOOK_EVERY);
    }
}

fn hold(loss: Loss) -> Duration {
    match loss {
        Loss::None => Duration::from_millis(500),
        // A hold must outlast the failover, so that its receipt still counts.
        Loss::OfWhatOnlyThePrimaryHad => Duration::from_secs(4),
    }
}

fn words(group: &SentinelGroup, ledger: &PostgresServer, loss: Loss, seed: u64, buyers: &str) -> Vec<String> {
    let hold = format!("{}ms", hold(loss).as_millis());
    let (store, orders, stock, seed) = (group.url(), ledger.url(), STOCK.to_string(), seed.to_string());
    let sale = ["--join", SALE, "--store", &store, "--orders", &orders, "--stock", &stock, "--hold", &hold];
    [&sale[..], &["--seed", &seed, "--buyers", buyers]].concat().into_iter().map(str::to_owned).collect()
}

/// Reads the sale, and takes no action.
struct Looker {
    runtime: Runtime,
    store: RedisStore,
}

impl Looker {
    fn new(url: &str) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let store = runtime.block_on(RedisStore::open(url)).expect("the store answers");
        Self { runtime, store }
    }

    fn until_taken(&self, units: u32) {
        self.until(|state| state.skus[0].total - state.skus[0].free >= units);
    }

    /// Whether all units are sold and no order waits for its record.
    fn everything_is_recorded(&self) -> bool {
        let recorded = async {
            let state = self.store.sale(&sale()).await?;
            let orders = state.orders.expect("the sale has a ledger");
            let sold_out = state.skus[0].confirmed == STOCK;
            Ok::<_, Error>(sold_out && orders.through == state.seq && orders.failed == 0)
        };
        self.runtime.block_on(recorded).unwrap_or(false)
    }

    fn reservations_since(&self, seq: u64) -> usize {
        let events =
            self.runtime.block_on(self.store.events(&sale(), Page::after(seq, 10_000))).expect("it answers");
        events.iter().filter(|event| event.kind == EventKind::Reserved).count()
    }

    fn until(&self, is_so: impl Fn(&SaleState) -> bool) -> SaleState {
        let end = Instant::now() + RETRY_BUDGET;
        loop {
            match self.runtime.block_on(self.store.sale(&sale())) {
                Ok(state) if is_so(&state) => return state,
                // The sale does not exist yet, or the store is unreachable.
                other => assert!(Instant::now() < end, "{other:?}"),
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}

fn sale() -> SaleId {
    SALE.parse().expect("a name")
}

const STORE: &str = "RUSHGATE_TEST_STORE";
const ORDERS: &str = "RUSHGATE_TEST_ORDERS";
const HOLD_MS: &str = "RUSHGATE_TEST_HOLD_MS";
/// Lease of the doomed worker: how long orders wait after its death.
const LEASE: Duration = Duration::from_secs(3);
const READY: &str = "» ready";

/// Runs this binary again as an order worker that dies after a commit, on request.
fn doomed_worker(store: &str, orders: &str, hold: Duration) -> Member {
    let part = [
        "disasters::order_worker_that_dies_after_the_commit",
        "--exact",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ];
    let mut command = Command::new(std::env::current_exe().expect("a test has a binary"));
    command.args(part).env(STORE, store).env(ORDERS, orders).env(HOLD_MS, hold.as_millis().to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = Member::of(command.spawn().expect("the part starts"));
    let mut lines =
        BufReader::new(child.stdout.take().expect("stdout is piped")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains(READY)), "the worker follows the sale");
    // Read on: the worker could not say anything about an outage otherwise.
    thread::spawn(move || lines.for_each(drop));
    child
}

#[tokio::test]
#[ignore = "a part: started by each scene"]
async fn order_worker_that_dies_after_the_commit() {
    let url = |name| std::env::var(name).expect("a part is started by a scene");
    let client = Rushgate::connect(&url(STORE)).await.expect("the store answers");
    let hold = Duration::from_millis(url(HOLD_MS).parse().expect("a number"));
    let phones = SaleBuilder::new(SALE).sku("phone", STOCK, 1).hold(hold).ledger();
    client.create_sale(phones).await.expect("the store answers");
    let (sale, ledger) =
        (client.sale(SALE).expect("a name"), connect_ledger(&url(ORDERS)).expect("it answers"));
    let doom = Arc::new(AtomicBool::new(false));
    let ledger = DiesAfterCommit::new(ledger, Arc::clone(&doom));
    tokio::spawn({
        let sale = sale.clone();
        async move {
            while sale
                .state()
                .await
                .is_ok_and(|state| state.orders.is_some_and(|of| of.worker_until.is_none()))
            {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            note(READY);
        }
    });
    thread::spawn(move || {
        std::io::stdin().read_line(&mut String::new()).expect("the test sends the request");
        doom.store(true, Ordering::SeqCst);
    });
    let ledger = Arc::new(ledger);
    // An outage of the store may end the worker before it has started.
    while let Err(error) =
        OrderWorker::new(sale.clone(), ledger.clone()).lease(LEASE).run(CancellationToken::new()).await
    {
        note(&error.to_string());
    }
}

/// Environment: `RUSHGATE_SEED` repeats a run. `RUSHGATE_MINUTES` runs sales for that time, each with the
/// next seed.
fn sales(loss: Loss) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let end = Instant::now() + Duration::from_secs(60 * number("RUSHGATE_MINUTES").unwrap_or(0));
    let mut seed = number("RUSHGATE_SEED").unwrap_or_else(rand::random);
    loop {
        let kind = if seed.is_multiple_of(2) { Kind::Redis } else { Kind::Valkey };
        note(&format!("replay with RUSHGATE_SEED={seed} (on {kind:?})"));
        let mut scene = Scene::set(kind, seed, loss);
        let lost = scene.disasters();
        scene.end(lost);
        if Instant::now() >= end {
            return;
        }
        seed = seed.wrapping_add(1);
    }
}

#[test]
fn a_sale_outlives_its_primary_its_ledger_and_its_workers() {
    sales(Loss::None);
}

#[test]
fn a_sale_outlives_the_loss_of_what_its_primary_acknowledged() {
    sales(Loss::OfWhatOnlyThePrimaryHad);
}
