//! Reads: snapshots of a sale, and health checks.

use std::collections::HashMap;
use std::time::Instant;

use rushgate_core::{
    BuyerId, Error, LedgerOrder, LedgerRefusal, LedgerSku, LedgerSnapshot, ReservationId, Result, SaleId, Sku,
};
use tokio::time::timeout;

use super::fault::{Fault, takes_no_writes};
use super::record::{name, number, range};
use super::session::{BEGIN, Session, Sql, sql};
use super::write::Shared;
use crate::words::{UnitOfOrder, kept_refusal, specification, state_from, take_units, unknown};
use crate::{KnownSale, Refusal};

/// One snapshot for all reads of a sale's snapshot, however long they take. The planner's restrictions are lifted.
const BEGIN_BOOKS: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL statement_timeout = '10min';
SET LOCAL enable_seqscan = on;
SET LOCAL enable_bitmapscan = on;
SET LOCAL enable_hashjoin = on;
SET LOCAL enable_mergejoin = on;";
/// → whether the server accepts no writes. Reads at most one page.
const PING: &str = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::bool, count(*)
     FROM (SELECT FROM sale LIMIT 1) AS first";

impl Shared {
    /// Reads a snapshot of a sale.
    pub(super) async fn snapshot(&self, sale: &SaleId) -> Result<LedgerSnapshot> {
        let read = self.asked(async |session| read_snapshot(session, sale).await).await?;
        let (row, snapshot) = read.ok_or_else(|| unknown(sale))?;
        let known = known_sale(sale, &row)?;
        Ok(LedgerSnapshot { generation: known.generation, spec: known.spec, ..snapshot })
    }

    /// Reads what is known of a sale, without its orders.
    pub(super) async fn find_sale(&self, sale: &SaleId) -> Result<Option<KnownSale>> {
        let rows = self.asked(async |session| session.rows(sql!("sale/known"), &[&sale.as_str()]).await);
        rows.await?.first().map(|row| known_sale(sale, row)).transpose()
    }

    /// Starts a new generation. A retry after a lost connection may skip one.
    pub(super) async fn advance(&self, sale: &SaleId) -> Result<u32> {
        let new =
            self.asked(async |session| advance(session, sale).await).await?.ok_or_else(|| unknown(sale))?;
        u32::try_from(new).map_err(|_| Error::corrupt(format_args!("the ledger is in generation {new}")))
    }

    /// Runs `steps`, and retries once if the connection was lost.
    async fn asked<T>(&self, steps: impl AsyncFn(Session<'_>) -> Sql<T>) -> Result<T> {
        let mut asked = 0;
        loop {
            asked += 1;
            let client = self.client().await.map_err(Fault::error)?;
            let start = Instant::now();
            let result = steps(self.session(&client)).await;
            self.counters.worked(start.elapsed(), std::time::Duration::ZERO);
            match result {
                Ok(answer) => return Ok(answer),
                Err(fault) => {
                    self.put_back(client, &fault).await;
                    if asked > 1 || !fault.is_lost_connection() {
                        return Err(fault.error());
                    }
                }
            }
        }
    }

    pub(super) async fn ping(&self) -> Result<()> {
        let ping = async |session: Session<'_>| {
            timeout(self.step_max, session.rows(PING, &[])).await.unwrap_or(Err(Fault::NoAnswer))
        };
        match self.asked(ping).await?.iter().any(|row| row.get(0)) {
            true => Err(takes_no_writes()),
            false => Ok(()),
        }
    }
}

fn known_sale(sale: &SaleId, row: &tokio_postgres::Row) -> Result<KnownSale> {
    let (generation, seq): (i64, Option<i64>) = (row.get(0), row.get(1));
    let (spec, secret): (Option<String>, Option<Vec<u8>>) = (row.get(2), row.get(3));
    Ok(KnownSale {
        generation: u32::try_from(generation)
            .map_err(|_| Error::corrupt(format_args!("the ledger is in generation {generation}")))?,
        latest_seq: seq.unwrap_or(0).cast_unsigned(),
        spec: specification(sale, spec, secret)?,
    })
}

/// Writers hold the sale's shared lock. The exclusive lock ensures that none writes while the generation changes.
async fn advance(session: Session<'_>, sale: &SaleId) -> Sql<Option<i64>> {
    let sales = session.rows(sql!("sale/find"), &[&[sale.as_str()].as_slice()]).await?;
    let Some(sale) = sales.first().map(|row| row.get::<_, i32>(1)) else { return Ok(None) };
    session.say(BEGIN).await?;
    session.rows(sql!("sale/lock_alone"), &[&[sale].as_slice()]).await?;
    let new = session.first(sql!("sale/advance"), &[&sale]).await?.map(|row| row.get(0));
    session.say("COMMIT").await?;
    Ok(new)
}

async fn read_snapshot(
    session: Session<'_>,
    sale: &SaleId,
) -> Sql<Option<(tokio_postgres::Row, LedgerSnapshot)>> {
    session.say(BEGIN_BOOKS).await?;
    let known = session.rows(sql!("sale/known"), &[&sale.as_str()]).await?.pop();
    let sales = session.rows(sql!("sale/find"), &[&[sale.as_str()].as_slice()]).await?;
    let snapshot = match sales.first() {
        Some(row) => Some(books_of(session, row.get(1)).await?),
        None => None,
    };
    session.say("COMMIT").await?;
    Ok(known.zip(snapshot))
}

async fn books_of(session: Session<'_>, sale: i32) -> Sql<LedgerSnapshot> {
    let (names, skus) = read_skus(session, sale).await?;
    let mut snapshot =
        LedgerSnapshot { skus, refusals: read_refusals(session, sale).await?, ..LedgerSnapshot::default() };
    read_orders(session, sale, &names, &mut snapshot).await?;
    Ok(snapshot)
}

async fn read_skus(session: Session<'_>, sale: i32) -> Sql<(HashMap<i32, Sku>, Vec<LedgerSku>)> {
    let (mut names, mut places, mut skus) = (HashMap::new(), HashMap::new(), Vec::new());
    session
        .each(sql!("snapshot/skus"), &[&sale], |row| {
            let sku = name(Sku::as_stored, row.get(1))?;
            names.insert(row.get(0), sku.clone());
            places.insert(row.get::<_, i32>(0), skus.len());
            let (total, per_buyer) = (number(row.get(2))?, number(row.get(3))?);
            skus.push(LedgerSku { sku, total, withdrawn: Vec::new(), per_buyer });
            Ok(())
        })
        .await?;
    session
        .each(sql!("snapshot/withdrawn"), &[&sale], |row| {
            if let Some(place) = places.get(&row.get(0)) {
                skus[*place].withdrawn.push(range(row.get(1), row.get(2))?);
            }
            Ok(())
        })
        .await?;
    Ok((names, skus))
}

async fn read_orders(
    session: Session<'_>,
    sale: i32,
    names: &HashMap<i32, Sku>,
    snapshot: &mut LedgerSnapshot,
) -> Sql<()> {
    let mut units = Vec::new();
    session
        .each(sql!("snapshot/units"), &[&sale], |row| {
            units.push(UnitOfOrder {
                order: row.get(0),
                sku: names.get(&row.get(1)).cloned(),
                unit: number(row.get(2))?,
                live: row.get(3),
                otherwise: row.get(4),
            });
            Ok(())
        })
        .await?;
    let mut units = units.into_iter().peekable();
    session
        .each(sql!("snapshot/orders"), &[&sale], |row| {
            let number: i64 = row.get(0);
            let mut order = LedgerOrder {
                id: reservation(row.get(1))?,
                buyer: name(BuyerId::as_stored, row.get(2))?,
                state: state_from(row.get(3)).map_err(Fault::Undecodable)?,
                generation: generation(row.get(4))?,
                seq: row.get::<_, i64>(5).cast_unsigned(),
                units: Vec::new(),
                returned: Vec::new(),
            };
            take_units(&mut order, number, &mut units, &mut snapshot.contradictions);
            snapshot.orders.push(order);
            Ok(())
        })
        .await
}

async fn read_refusals(session: Session<'_>, sale: i32) -> Sql<Vec<LedgerRefusal>> {
    let mut refusals = Vec::new();
    session
        .each(sql!("snapshot/refusals"), &[&sale], |row| {
            let kept = kept_refusal(row.get(2)).map_err(Fault::Undecodable)?;
            refusals.push(LedgerRefusal {
                id: reservation(row.get(0))?,
                generation: generation(row.get(1))?,
                units_taken: kept == Refusal::UnitTaken,
            });
            Ok(())
        })
        .await?;
    Ok(refusals)
}

fn reservation(stored: &[u8]) -> Sql<ReservationId> {
    let bytes = <[u8; 16]>::try_from(stored);
    let bytes = bytes.map_err(|_| Fault::Undecodable("a reservation ID of the wrong length".into()))?;
    Ok(ReservationId::from_bytes(bytes))
}

fn generation(stored: i64) -> Sql<u32> {
    u32::try_from(stored).map_err(|_| Fault::Undecodable(format!("the generation {stored}")))
}
