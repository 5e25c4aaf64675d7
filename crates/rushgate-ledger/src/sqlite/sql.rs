//! SQL statements. Each file's header documents parameters and result.

macro_rules! files {
    ($($name:ident = $path:literal;)*) => {$(
        pub(super) const $name: &str = include_str!(concat!("../../sql/", $path));
    )*};
}

files! {
    SALE_FIND = "sale/find.sql";
    SALE_OPEN = "sale/open.sql";
    SALE_KEEP_SECRET = "sale/keep_secret.sql";
    SALE_GENERATION = "sale/generation.sql";
    SALE_ADVANCE = "sale/advance.sql";
    SALE_KNOWN = "sale/known.sql";
    SKU_FIND = "sku/find.sql";
    SKU_STOCK = "sku/stock.sql";
    SKU_TOTAL = "sku/total.sql";
    SKU_TAKEN_WITHIN = "sku/taken_within.sql";
    SKU_WITHDRAW = "sku/withdraw.sql";
    SKU_TAKEN_DOWN_FROM = "sku/taken_down_from.sql";
    ORDER_FIND = "order/find.sql";
    ORDER_INSERT = "order/insert.sql";
    ORDER_INSERT_UNIT = "order/insert_unit.sql";
    ORDER_SLOTS = "order/slots.sql";
    ORDER_UNITS = "order/units.sql";
    ORDER_MOVE = "order/move.sql";
    ORDER_REFUSE = "order/refuse.sql";
    ORDER_WHY_REFUSED = "order/why_refused.sql";
    BOOKS_SKUS = "books/skus.sql";
    BOOKS_WITHDRAWN = "books/withdrawn.sql";
    BOOKS_ORDERS = "books/orders.sql";
    BOOKS_UNITS = "books/units.sql";
    BOOKS_REFUSALS = "books/refusals.sql";
}

pub(super) const BEGIN_WRITE: &str = "BEGIN IMMEDIATE";
pub(super) const BEGIN_READ: &str = "BEGIN DEFERRED";
pub(super) const COMMIT: &str = "COMMIT";
pub(super) const SAVEPOINT: &str = "SAVEPOINT entry";
pub(super) const ROLLBACK_TO: &str = "ROLLBACK TO entry";
pub(super) const RELEASE: &str = "RELEASE entry";
/// Reads the database's header, so it detects a lost or damaged file.
pub(super) const PING: &str = "SELECT count(*) FROM (SELECT 1 FROM sale LIMIT 1)";
