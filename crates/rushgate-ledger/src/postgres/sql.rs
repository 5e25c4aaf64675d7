//! SQL statements. Each file's header documents parameters and result.

macro_rules! files {
    ($($name:ident = $path:literal;)*) => {$(
        pub(super) const $name: &str = include_str!(concat!("../../sql/postgres/", $path));
    )*};
}

files! {
    SALE_LOCK_SHARED = "sale/lock_shared.sql";
    SALE_LOCK_ALONE = "sale/lock_alone.sql";
    SALE_FIND = "sale/find.sql";
    SALE_OPEN = "sale/open.sql";
    SALE_KEEP_SECRET = "sale/keep_secret.sql";
    SALE_GENERATIONS = "sale/generations.sql";
    SALE_ADVANCE = "sale/advance.sql";
    SALE_KNOWN = "sale/known.sql";
    SKU_FIND = "sku/find.sql";
    SKU_STOCK = "sku/stock.sql";
    SKU_TOTAL = "sku/total.sql";
    SKU_TAKEN_WITHIN = "sku/taken_within.sql";
    SKU_WITHDRAW = "sku/withdraw.sql";
    SKU_FOR_SALE = "sku/for_sale.sql";
    SKU_FREE_DOWN_FROM = "sku/free_down_from.sql";
    ORDER_FIND = "order/find.sql";
    ORDER_IDS = "order/ids.sql";
    ORDER_SLOTS = "order/slots.sql";
    ORDER_INSERT = "order/insert.sql";
    ORDER_INSERT_UNITS = "order/insert_units.sql";
    ORDER_MOVE = "order/move.sql";
    ORDER_REFUSE = "order/refuse.sql";
    ORDER_WHY_REFUSED = "order/why_refused.sql";
    BOOKS_SKUS = "books/skus.sql";
    BOOKS_WITHDRAWN = "books/withdrawn.sql";
    BOOKS_ORDERS = "books/orders.sql";
    BOOKS_UNITS = "books/units.sql";
    BOOKS_REFUSALS = "books/refusals.sql";
}

pub(super) const BEGIN_WRITE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
/// One snapshot for all reads of a sale's snapshot, however long they take. The planner's restrictions are lifted.
pub(super) const BEGIN_BOOKS: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL statement_timeout = '10min';
SET LOCAL enable_seqscan = on;
SET LOCAL enable_bitmapscan = on;
SET LOCAL enable_hashjoin = on;
SET LOCAL enable_mergejoin = on;";
pub(super) const COMMIT: &str = "COMMIT";
pub(super) const ROLLBACK: &str = "ROLLBACK";
/// → whether the server accepts no writes. Reads at most one page.
pub(super) const PING: &str =
    "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::bool, count(*)
     FROM (SELECT FROM sale LIMIT 1) AS first";
