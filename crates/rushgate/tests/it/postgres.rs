//! A sale with a Postgres ledger whose server fails and recovers.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Bench, delivered, eventually, ms, secs};
use rushgate::sale::{Decision, HoldState};
use rushgate::{
    BuyerId, CancellationToken, IdempotencyKey, Line, OrderWorker, Reserved, Sale, SaleBuilder, Sku,
    connect_ledger,
};
use rushgate_test::servers::PostgresServer;
use tokio::time::timeout;
use tokio_postgres::{Client, NoTls};

async fn hold(sale: &Sale, n: u32) -> rushgate::sale::Hold {
    let buyer = BuyerId::new(format!("buyer-{n}")).unwrap();
    let cart = [Line { sku: Sku::new("phone").unwrap(), quantity: 1 }];
    match sale.reserve(&buyer, &cart, &IdempotencyKey::new("click").unwrap()).await.unwrap() {
        Reserved::Reserved(hold) => hold,
        other => panic!("{other:?}"),
    }
}

/// Makes 20 reservations from `first` on: half are confirmed, a quarter canceled, the rest held.
async fn trade(sale: &Sale, first: u32) {
    for n in first..first + 20 {
        let held = hold(sale, n).await;
        let decision = match n % 4 {
            0 | 1 => sale.confirm(held.id).await.unwrap(),
            2 => sale.cancel(held.id).await.unwrap(),
            _ => continue,
        };
        assert!(matches!(decision, Decision::Pending(_)), "the ledger decides: {decision:?}");
    }
}

/// Failures of the server.
#[derive(Clone, Copy, Debug)]
enum Outage {
    Gone,
    Silent,
    Crowded,
    ReadOnly,
}

async fn stranger(server: &PostgresServer) -> Option<Client> {
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.ok()?;
    tokio::spawn(connection);
    Some(client)
}

async fn read_only(server: &PostgresServer, on: bool) {
    let operator = stranger(server).await.expect("it answers");
    let setting =
        if on { "SET default_transaction_read_only = on" } else { "RESET default_transaction_read_only" };
    for words in [
        "SET default_transaction_read_only = off",
        &format!("ALTER SYSTEM {setting}"),
        "SELECT pg_reload_conf()",
    ] {
        operator.batch_execute(words).await.unwrap();
    }
}

impl Outage {
    /// Starts the outage. Returns the connections that occupy the server, if any.
    async fn begin(self, server: &mut PostgresServer) -> Vec<Client> {
        match self {
            Self::Gone => server.stop(),
            Self::Silent => server.pause(),
            Self::Crowded => return crowd(server).await,
            Self::ReadOnly => {
                read_only(server, true).await;
                // A new connection shows that all existing ones have been notified.
                eventually(async || connect_ledger(&server.url()).is_err()).await;
            }
        }
        Vec::new()
    }

    async fn end(self, server: &mut PostgresServer, others: Vec<Client>) {
        drop(others);
        match self {
            Self::Gone => server.start_again(),
            Self::Silent => server.resume(),
            Self::Crowded => {}
            Self::ReadOnly => read_only(server, false).await,
        }
    }

    /// Expected text of the error.
    fn word(self) -> &'static str {
        match self {
            Self::Gone => "cannot reach Postgres",
            Self::Silent => "in time",
            Self::Crowded => "maximum number of connections",
            Self::ReadOnly => "accepts no writes",
        }
    }
}

/// Maximum number of connections of the server.
const CONNECTIONS: usize = 16;

/// Takes every connection of the server, including the ledger's.
async fn crowd(server: &PostgresServer) -> Vec<Client> {
    let end_ours =
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rushgate'";
    let mut others = vec![stranger(server).await.expect("one connection is free")];
    // A new connection of the ledger may occupy a slot and not be listed yet: count our own connections
    // instead.
    while others.len() < CONNECTIONS {
        match stranger(server).await {
            Some(other) => others.push(other),
            None => drop(others[0].query(end_ours, &[]).await.unwrap()),
        }
    }
    others
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_outages_of_the_ledger_reservations_go_on_and_no_order_is_lost_or_doubled() {
    timeout(secs(200), outages()).await.expect("timed out");
}

async fn outages() {
    let connections = format!("max_connections={CONNECTIONS}");
    let settings = [&*connections, "superuser_reserved_connections=0", "max_wal_senders=0"];
    let mut server = PostgresServer::start_with(&settings);
    let bench = Bench::sqlite();
    let client = bench.client();
    client
        .create_sale(SaleBuilder::new("phones").sku("phone", 500, 1).hold(secs(600)).ledger())
        .await
        .unwrap();
    let sale = client.sale("phones").unwrap();
    sale.open().await.unwrap();
    // A silent server is given up after 5 s plus twice this timeout.
    let ledger = connect_ledger(&format!("{}?statement_timeout=300", server.url())).unwrap();
    let shutdown = CancellationToken::new();
    let worker = OrderWorker::new(sale.clone(), Arc::clone(&ledger)).batch(16).lease(ms(700));
    let worker = tokio::spawn(worker.run(shutdown.clone()));

    for (round, outage) in [Outage::Gone, Outage::Silent, Outage::Crowded, Outage::ReadOnly, Outage::Gone]
        .into_iter()
        .enumerate()
    {
        let first = round as u32 * 100;
        // The outage starts while orders are in flight; the sale continues without the ledger.
        trade(&sale, first).await;
        let others = outage.begin(&mut server).await;
        trade(&sale, first + 20).await;
        let late = hold(&sale, first + 60).await;
        sale.confirm(late.id).await.unwrap();
        let told = ledger.ping().await.unwrap_err();
        assert!(
            told.to_string().contains(outage.word()) && told.hint_text().is_some(),
            "{outage:?}: {told:?}"
        );
        let waiting = sale.wait_final(late.id, ms(50)).await.unwrap().unwrap();
        assert_eq!(waiting.state, HoldState::Confirming, "{outage:?}: decided but not committed");
        let state = sale.state().await.unwrap();
        let orders = state.orders.unwrap();
        assert!(orders.through < state.seq && orders.behind_since.is_some(), "{outage:?}: its orders wait");
        assert_eq!(orders.failed, 0, "{outage:?}");

        outage.end(&mut server, others).await;
        let late = sale.wait_final(late.id, Duration::from_secs(60)).await.unwrap().unwrap();
        assert_eq!(late.state, HoldState::Confirmed, "{outage:?}");
    }
    delivered(&sale).await;
    shutdown.cancel();
    let report = worker.await.unwrap().unwrap();
    assert!(report.outages > 0 && report.failed == 0 && report.lost_writes == 0, "{report:?}");
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    assert!(audit.ok, "{audit:#?}");
    let sku = sale.state().await.unwrap().skus[0].clone();
    // 5 × 40 reservations in four states, and five late ones.
    assert_eq!((sku.confirmed, sku.held, sku.free), (105, 50, 345));
}
