use rushgate_core::{
    Answer, LedgerEntry, LedgerSnapshot, OrderIntent, SaleId, SaleSpec, SaleState, Sku, SkuSpec, StoreInfo,
    UnitNumber, Verdict,
};

/// The orders database: the system of record for orders.
///
/// Every method is idempotent: a repeated call changes nothing and gets the same answer. After an error the data is
/// unchanged, unless [`may_have_happened`](rushgate_core::Error::may_have_happened) is true. That is the case only if
/// the outcome of a commit is unknown.
pub trait Ledger: Send + Sync {
    /// Registers a sale and its SKUs. Changes nothing if they are registered already.
    ///
    /// Totals and generations never decrease: the larger value is kept. Fails with
    /// [`is_invalid`](rushgate_core::Error::is_invalid), without a change, if an SKU is registered with another limit
    /// per buyer, because orders were accepted under that limit.
    fn open_sale(&self, sale: LedgerSale) -> Answer<'_, ()>;

    /// Records the store's decisions in one transaction: 1 to 1,000 entries, answered in the given order.
    ///
    /// The entries of a batch are independent. An entry that the database refuses is answered
    /// [`Refused`](Written::Refused), and the others are still recorded. Stock changes are applied first.
    fn write(&self, entries: Vec<LedgerEntry>) -> Answer<'_, Vec<Written>>;

    /// Returns what is known of a sale, without its orders; `None` if it is unknown.
    fn find_sale(&self, sale: &SaleId) -> Answer<'_, Option<KnownSale>>;

    /// Starts a new generation of the sale and returns it; no other call returns the same one. From then on, entries
    /// of older generations change nothing ([`Refusal::OldGeneration`]). A snapshot read afterwards stays valid until
    /// the store sells in the new generation.
    fn advance(&self, sale: &SaleId) -> Answer<'_, u32>;

    /// Returns a snapshot of everything that the ledger knows of the sale, for the audit and for rebuilding the
    /// store.
    fn snapshot(&self, sale: &SaleId) -> Answer<'_, LedgerSnapshot>;

    /// Checks that the database answers and accepts writes. Reads one page.
    fn ping(&self) -> Answer<'_, ()>;

    /// Describes the ledger: URL, server version, and durability of a committed order.
    fn info(&self) -> StoreInfo;

    /// Counts the work that this client has sent to the database since it was opened.
    fn counters(&self) -> LedgerCalls;

    /// Waits until all steps sent before this call have finished, then closes the connection. Later calls fail with
    /// [`is_unavailable`](rushgate_core::Error::is_unavailable).
    fn close(&self) -> Answer<'_, ()>;
}

/// A sale to register in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerSale {
    /// ID of the sale.
    pub sale: SaleId,
    /// Generation: 1 for a sale that was never rebuilt. A rebuild raises it by two or more.
    pub generation: u32,
    /// The SKUs: 1 to 1,000, each listed once.
    pub skus: Vec<SkuSpec>,
    /// Specification of the sale. The first one is kept. A store that lost the sale uses it to recreate the sale and
    /// to verify the receipts that it signed. The secret is stored in a separate table, `sale_secret`.
    pub spec: Option<SaleSpec>,
}

/// What the ledger knows of a sale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownSale {
    /// Current generation. Entries of older generations change nothing.
    pub generation: u32,
    /// Greatest sequence number in this generation; 0 without orders. A store with a smaller one has lost writes.
    pub latest_seq: u64,
    /// Specification of the sale, if it was registered.
    pub spec: Option<SaleSpec>,
}

impl KnownSale {
    /// Whether the ledger has something that the store's state lacks, so that the store has lost writes. Read the
    /// ledger first, because the store continues meanwhile.
    pub fn is_ahead_of(&self, store: &SaleState) -> bool {
        (store.generation, store.seq) < (self.generation, self.latest_seq)
    }
}

/// Outcome of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// The order is recorded, now or since an earlier delivery, in this state: the requested one, or an earlier final
    /// state, which never changes.
    Recorded(OrderIntent),
    /// The order is recorded with other units than requested, because another order owns one of those.
    Reassigned {
        /// State of the order: `Hold` or `Confirm`.
        state: OrderIntent,
        /// All units that the order owns, by line as in the entry and then by number.
        units: Vec<(Sku, UnitNumber)>,
    },
    /// The stock change is recorded.
    Stocked {
        /// Units that could not be withdrawn because an order owns them. Empty as long as store and ledger agree.
        owned: Vec<UnitNumber>,
    },
    /// Nothing was recorded.
    Refused(Refusal),
}

/// Why the database refused an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// Another order owns a unit, and no other unit of the SKU is free. Permanent: the same entry is never accepted
    /// later.
    UnitTaken,
    /// The buyer would exceed the purchase limit. Permanent: the same entry is never accepted later.
    LimitReached,
    /// A unit was withdrawn from the sale.
    Withdrawn,
    /// Another reservation has this generation and sequence number, which proves that the store lost a write.
    SequenceReused,
    /// The reservation is recorded for another buyer.
    OtherBuyer,
    /// A unit does not exist, or the SKU is unknown. The stock change may be under way: deliver the entry again
    /// later.
    NotForSale,
    /// The sale has a newer generation: it was rebuilt, or a rebuild is running. Permanent: the ledger's data at the
    /// time of the rebuild applies.
    OldGeneration,
    /// The sale is unknown. Call [`open_sale`](Ledger::open_sale) and deliver the entry again.
    UnknownSale,
}

impl Refusal {
    /// True if the refusal is permanent: delivering the same entry again cannot succeed.
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::NotForSale | Self::UnknownSale)
    }
}

impl Written {
    /// The verdict to [settle](rushgate_core::Verbs::settle) in the store, for a reservation with intent `asked`.
    /// `None` if there is nothing to settle yet: the order is on hold, or the refusal is not
    /// [final](Refusal::is_final) and the entry must be delivered again.
    ///
    /// A confirmation of an order that was canceled or expired in the ledger is rejected. A sold order stays sold,
    /// whatever the intent.
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

    /// True if store and ledger disagree, which only a store that lost acknowledged writes can cause. Rebuild it from
    /// the ledger's [snapshot](Ledger::snapshot) under a new generation. [`Refusal::OldGeneration`] proves it only if
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

/// Counters of the work that one client has sent to its ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerCalls {
    /// Trait methods called.
    pub calls: u64,
    /// Write transactions committed. Concurrent calls share a transaction.
    pub transactions: u64,
    /// Statements executed, inside and outside those transactions.
    pub statements: u64,
    /// Entries answered by [`write`](Ledger::write).
    pub entries: u64,
    /// Orders recorded for the first time.
    pub orders: u64,
    /// Entries refused.
    pub refused: u64,
    /// Time in microseconds that the database worked for this client: write transactions and reads, from the first
    /// statement to the end of the commit.
    pub busy_us: u64,
    /// Time in microseconds spent waiting for another process that was writing. Not included in `busy_us`.
    pub waited_us: u64,
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
}
