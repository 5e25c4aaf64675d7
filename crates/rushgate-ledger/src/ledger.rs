use std::collections::BTreeSet;
use std::sync::Arc;

use rushgate_core::{
    Answer, Error, LedgerBooks, MAX_UNITS, OrderIntent, OrderTask, Result, SaleId, SaleSpec, SaleState, Sku,
    SkuSpec, StoreInfo, UnitNumber, UnitRange, Verdict, check_batch, check_range,
};

use crate::postgres::late::LateLedger;
use crate::{PostgresLedger, SqliteLedger};

/// The orders' database: what it has committed stands.
///
/// Every method is idempotent: the same call again changes nothing and is answered the same way. An error whose
/// [`may_have_happened`](Error::may_have_happened) is true says so only when the database did not tell the outcome
/// of a commit; otherwise an error left the data as they were.
pub trait Ledger: Send + Sync {
    /// Makes the sale and its SKUs known, or changes nothing if they are.
    ///
    /// A stock never shrinks and a generation never goes back: what is there and larger stays. An SKU that is there
    /// with another limit per buyer is [`is_invalid`](Error::is_invalid), because orders were accepted under it;
    /// nothing is changed then.
    fn open_sale(&self, sale: LedgerSale) -> Answer<'_, ()>;

    /// Records what the store decided, all in one transaction: 1 to 1,000 entries, answered in the order given.
    ///
    /// The entries of a batch do not affect each other: one that the database refuses is answered
    /// [`Refused`](Written::Refused), and the rest is recorded all the same. Changes of the stock are carried out
    /// first.
    fn write(&self, entries: Vec<OrderTask>) -> Answer<'_, Vec<Written>>;

    /// What is known of a sale without its orders; `None` if nothing is.
    fn find_sale(&self, sale: &SaleId) -> Answer<'_, Option<KnownSale>>;

    /// Gives the sale a new generation, which nobody else is given. Entries of an older one change nothing from then
    /// on ([`Refusal::OldGeneration`]), so that what is read afterwards stays true until the store sells in the new one.
    fn advance(&self, sale: &SaleId) -> Answer<'_, u32>;

    /// Everything the ledger knows of the sale, read in one snapshot, for the audit and for rebuilding the store.
    fn books(&self, sale: &SaleId) -> Answer<'_, LedgerBooks>;

    /// Asks the database for a sign of life, and whether it takes writes: it reads one page.
    fn ping(&self) -> Answer<'_, ()>;

    /// What this ledger is, and what a committed order survives.
    fn info(&self) -> StoreInfo;

    /// What this client has asked of the database since it was opened.
    fn counters(&self) -> LedgerCalls;

    /// Waits until the steps that were sent before this call are carried out, then lets go of the database. Later
    /// calls fail with [`is_unavailable`](Error::is_unavailable).
    fn close(&self) -> Answer<'_, ()>;
}

/// Opens the ledger at `url`: `sqlite:PATH`, `sqlite::memory:` or `postgres://USER:PASSWORD@HOST:PORT/DATABASE` (also
/// `postgresql://`; its options: [`PostgresLedger::open`]).
///
/// Makes the file or the schema if there is none, and brings an older one up to date. Blocks for as long as that
/// takes: at most about 5 s for a file if another process is doing it, a minute on a server, and there about 10 s if
/// it cannot be reached.
///
/// # Errors
/// [`is_invalid`](Error::is_invalid) for a URL of another kind; [`is_misconfigured`](Error::is_misconfigured) for a
/// file that is read-only, a directory, another program's or of a newer schema, and for a server that is too old,
/// read-only or refuses the user; [`is_unavailable`](Error::is_unavailable) for a server that cannot be reached;
/// [`is_corrupt`](Error::is_corrupt) for a damaged file. None of them changes the file or the schema.
pub fn connect(url: &str) -> Result<Arc<dyn Ledger>> {
    match url.split_once(':') {
        Some(("sqlite", ":memory:")) => Ok(Arc::new(SqliteLedger::in_memory()?)),
        Some(("sqlite", path)) if !path.is_empty() => Ok(Arc::new(SqliteLedger::open(path)?)),
        Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
            Ok(Arc::new(PostgresLedger::open(url)?))
        }
        _ => {
            // What follows the scheme may hold a password, so it is not repeated.
            let scheme = url.split_once(':').map(|(scheme, _)| format!("the scheme `{scheme}`"));
            let has = scheme.unwrap_or_else(|| "no scheme".to_owned());
            let why = format_args!("has {has}; there is no ledger of that kind");
            Err(Error::invalid("the ledger's URL", why)
                .hint("use sqlite:PATH, sqlite::memory: or postgres://USER@HOST/DATABASE"))
        }
    }
}

/// As [`connect`], but a server that cannot be reached is no error: it is tried again each second, in the background, and
/// until it answers every call is [`is_unavailable`](Error::is_unavailable), with nothing done. For whoever sells meanwhile, and
/// has the orders wait.
///
/// # Errors
/// As [`connect`]'s, but for a server that cannot be reached.
pub fn connect_when_it_can(url: &str) -> Result<Arc<dyn Ledger>> {
    match connect(url) {
        Err(error) if error.is_unavailable() && url.starts_with("postgres") => {
            tracing::warn!(%error, "the ledger cannot be reached yet; orders wait until it can");
            Ok(Arc::new(LateLedger::new(url, error)?))
        }
        connected => connected,
    }
}

/// A sale as the ledger is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerSale {
    /// Which.
    pub sale: SaleId,
    /// 1 for a sale that was never rebuilt, and greater after each rebuild: one takes two or more.
    pub generation: u32,
    /// What it sells: 1 to 1,000 SKUs, each once.
    pub skus: Vec<SkuSpec>,
    /// How the store made it, kept as it is first told: a store that lost the sale can make it again, and read the
    /// receipts that it signed. The secret goes into a table of its own, `sale_secret`.
    pub spec: Option<SaleSpec>,
}

/// A sale as the ledger knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownSale {
    /// How often it was given a new generation, at least plus one. Entries of older ones change nothing.
    pub generation: u32,
    /// The greatest sequence number in it, 0 if it has no orders. A store that has counted less has lost writes.
    pub latest_seq: u64,
    /// How the store made it, if that was told.
    pub spec: Option<SaleSpec>,
}

impl KnownSale {
    /// Whether the ledger has what the store, as it says it stands, has not: then the store has lost writes. Ask the
    /// ledger first, because the store goes on meanwhile.
    pub fn is_ahead_of(&self, store: &SaleState) -> bool {
        (store.generation, store.seq) < (self.generation, self.latest_seq)
    }
}

/// What became of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// The order is recorded, now or since an earlier delivery. This is how it stands: what was asked, or what was
    /// decided before, since a final order never changes.
    Recorded(OrderIntent),
    /// The order is recorded with other units than asked, because one of those was somebody else's.
    Reassigned {
        /// How the order stands: `Hold` or `Confirm`.
        state: OrderIntent,
        /// All the units that are the order's: by line as in the entry, and by number within one.
        units: Vec<(Sku, UnitNumber)>,
    },
    /// The stock is recorded.
    Stocked {
        /// Units that were to be withdrawn and are not, because an order owns them. None as long as store and
        /// ledger agree.
        owned: Vec<UnitNumber>,
    },
    /// Nothing was recorded.
    Refused(Refusal),
}

/// Why the database refused an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// A unit is somebody else's, and no other of its SKU is free. Stays so: the same entry is never accepted later.
    UnitTaken,
    /// The buyer would have more units than allowed. Stays so: the same entry is never accepted later.
    LimitReached,
    /// A unit was withdrawn from the sale.
    Withdrawn,
    /// Another reservation has this generation and sequence number: proof that the store lost a write.
    SequenceReused,
    /// The reservation is recorded for another buyer.
    OtherBuyer,
    /// A unit is beyond what is offered, or the SKU is not known. The stock may be on its way: deliver again later.
    NotForSale,
    /// The sale was given a newer generation since: it was rebuilt, or is being rebuilt. Stays so; what the entry was
    /// about is in the ledger as the rebuild found it, or its store had lost it.
    OldGeneration,
    /// The sale is not known: [`open_sale`](Ledger::open_sale) it and deliver again.
    UnknownSale,
}

impl Refusal {
    /// True if delivering the same entry again cannot help.
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::NotForSale | Self::UnknownSale)
    }
}

impl Written {
    /// What to tell the store ([`settle`](rushgate_core::SaleStore::settle)) of a reservation for which `asked` was
    /// written, or `None` if there is nothing to tell yet: the order is held, or the refusal is not
    /// [final](Refusal::is_final) and the entry is to be delivered again.
    ///
    /// A payment that comes after the order was called off or ran out in the ledger is a rejection. An order that
    /// was sold is sold, whatever was asked.
    pub const fn verdict(&self, asked: OrderIntent) -> Option<Verdict> {
        match self {
            Self::Recorded(state) | Self::Reassigned { state, .. } => match (state, asked) {
                (OrderIntent::Hold, _) => None,
                (OrderIntent::Confirm, _) => Some(Verdict::Confirmed),
                (_, OrderIntent::Confirm) => Some(Verdict::Rejected { units_taken: false }),
                (_, OrderIntent::Cancel) => Some(Verdict::Cancelled),
                (_, OrderIntent::Expire) => Some(Verdict::Expired),
                (OrderIntent::Cancel, OrderIntent::Hold) => Some(Verdict::Cancelled),
                (OrderIntent::Expire, OrderIntent::Hold) => Some(Verdict::Expired),
            },
            Self::Refused(Refusal::OldGeneration) => None,
            Self::Refused(refusal) if refusal.is_final() => {
                let units_taken = matches!(refusal, Refusal::UnitTaken | Refusal::Withdrawn);
                Some(Verdict::Rejected { units_taken })
            }
            Self::Refused(_) | Self::Stocked { .. } => None,
        }
    }

    /// True if store and ledger have parted: only a store that lost writes which it had acknowledged can send this.
    /// Rebuild it from the [books](Ledger::books) under a new generation. [`Refusal::OldGeneration`] shows it only if
    /// the store is still in that generation.
    pub fn shows_lost_writes(&self) -> bool {
        match self {
            Self::Recorded(_) => false,
            Self::Reassigned { .. } => true,
            Self::Stocked { owned } => !owned.is_empty(),
            Self::Refused(refusal) => refusal.is_final(),
        }
    }
}

/// What one client has asked of its ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerCalls {
    /// Trait methods called.
    pub calls: u64,
    /// Write transactions committed. Calls that waited at the same moment share one.
    pub transactions: u64,
    /// Statements carried out by the client, inside and outside those transactions.
    pub statements: u64,
    /// Entries answered by [`write`](Ledger::write).
    pub entries: u64,
    /// Orders recorded for the first time.
    pub orders: u64,
    /// Entries refused.
    pub refused: u64,
    /// Microseconds in which the database was at work for this client: write transactions and reads, from the first
    /// statement to the end of the commit.
    pub busy_us: u64,
    /// Microseconds spent waiting for another process that was writing. Not part of `busy_us`.
    pub waited_us: u64,
}

impl LedgerSale {
    /// Refuses what is outside the documented limits.
    pub(crate) fn check(&self) -> Result<()> {
        check_range("the number of SKUs", self.skus.len() as u64, 1, SaleSpec::SKUS_MAX as u64)?;
        let mut seen = BTreeSet::new();
        for sku in &self.skus {
            check_stock(sku.units, sku.per_buyer)?;
            if !seen.insert(&sku.sku) {
                return Err(Error::invalid("the SKU", format_args!("`{}` is listed twice", sku.sku)));
            }
        }
        Ok(())
    }
}

fn check_stock(units: u32, per_buyer: u32) -> Result<()> {
    check_range("the stock", units.into(), 1, SaleSpec::UNITS_MAX.into())?;
    check_range("the limit per buyer", per_buyer.into(), 1, SaleSpec::PER_BUYER_MAX.into())
}

/// Refuses what is outside the documented limits.
pub(crate) fn check_entries(entries: &[OrderTask]) -> Result<()> {
    check_batch(entries.len())?;
    entries.iter().try_for_each(|entry| match entry {
        OrderTask::Reservation { seq, units, .. } => {
            check_range("the sequence number", *seq, 0, i64::MAX as u64)?;
            check_range("the number of units", units.len() as u64, 1, MAX_UNITS.into())?;
            check_units(units)
        }
        OrderTask::Stock { total, per_buyer, withdrawn, .. } => {
            check_stock(*total, *per_buyer)?;
            check_withdrawn(withdrawn, *total)
        }
    })
}

fn check_withdrawn(ranges: &[UnitRange], total: u32) -> Result<()> {
    for range in ranges {
        check_range("the unit's number", range.first().into(), 1, total.into())?;
        check_range("the unit's number", range.last().into(), 1, total.into())?;
    }
    match ranges.windows(2).find(|pair| pair[1].first() <= pair[0].last()) {
        Some(pair) => {
            let why = format_args!("come as {} and {}; they must be in order and apart", pair[0], pair[1]);
            Err(Error::invalid("the withdrawn units", why))
        }
        None => Ok(()),
    }
}

fn check_units(units: &[(Sku, UnitNumber)]) -> Result<()> {
    for (_, unit) in units {
        check_range("the unit's number", (*unit).into(), 1, SaleSpec::UNITS_MAX.into())?;
    }
    if units.len() > 1 {
        let mut seen = BTreeSet::new();
        if let Some((sku, unit)) = units.iter().find(|unit| !seen.insert(*unit)) {
            return Err(Error::invalid(
                "the unit",
                format_args!("{sku} no. {unit} is listed twice in an order"),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_says_what_the_ledger_committed() {
        use OrderIntent::{Cancel, Confirm, Expire, Hold};
        let rejected = |units_taken| Some(Verdict::Rejected { units_taken });
        for (stands, asked, verdict) in [
            (Hold, Hold, None),
            (Confirm, Confirm, Some(Verdict::Confirmed)),
            (Cancel, Cancel, Some(Verdict::Cancelled)),
            (Expire, Expire, Some(Verdict::Expired)),
            (Cancel, Confirm, rejected(false)),
            (Expire, Confirm, rejected(false)),
            (Cancel, Expire, Some(Verdict::Expired)),
            (Confirm, Cancel, Some(Verdict::Confirmed)),
            (Cancel, Hold, Some(Verdict::Cancelled)),
        ] {
            assert_eq!(
                Written::Recorded(stands).verdict(asked),
                verdict,
                "{stands:?} stands, {asked:?} asked"
            );
        }
        assert_eq!(Written::Refused(Refusal::UnitTaken).verdict(Confirm), rejected(true));
        assert_eq!(Written::Refused(Refusal::LimitReached).verdict(Confirm), rejected(false));
        assert_eq!(Written::Refused(Refusal::NotForSale).verdict(Confirm), None);
    }

    #[test]
    fn another_kind_of_url_is_refused_with_what_is_supported_and_without_its_password() {
        for url in ["mysql://me:secret@host/db", "postgres:me:secret", "orders.db", "sqlite:", ""] {
            let error = connect(url).err().unwrap();
            assert!(error.is_invalid(), "{error}");
            assert!(error.hint_text().unwrap().contains("sqlite:PATH"), "{error:?}");
            assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        }
    }
}
