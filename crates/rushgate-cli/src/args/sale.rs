use std::num::{IntErrorKind, ParseIntError};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Subcommand};
use rushgate::Timestamp;

use super::names::OfSale;
use super::room::{DrawVerb, RoomVerb};
use crate::{duration, moments};

/// Sell numbered units, each exactly once.
#[derive(Debug, Subcommand)]
pub(crate) enum SaleVerb {
    Create(CreateArgs),
    /// Open a sale, from its opening time on if it has one.
    #[command(after_help = "Example:\n  rushgate sale open phones\n\nExit status: 1 if it has ended.")]
    Open(OfSale),
    /// Show a sale and its stock.
    #[command(after_help = "Example:\n  rushgate sale show phones --json | jq '.skus[0].free'")]
    Show(OfSale),
    Reserve(ReserveArgs),
    /// Confirm a reservation that is paid for.
    #[command(after_help = "\
Example:
  rushgate sale confirm phones 0b2c4d5e6f708192a3b4c5d6e7f80910 --wait 5s

In a sale with a ledger the answer is `pending` until the ledger has recorded it.
Exit status: 1 if the reservation does not exist, or was decided differently before.")]
    Confirm(DecideArgs),
    /// Cancel a reservation and release its units.
    #[command(after_help = "\
Example:
  rushgate sale cancel phones 0b2c4d5e6f708192a3b4c5d6e7f80910

Exit status: 1 if the reservation does not exist, or was decided differently before.")]
    Cancel(DecideArgs),
    Restore(RestoreArgs),
    #[command(subcommand)]
    Stock(StockVerb),
    #[command(subcommand)]
    Room(RoomVerb),
    #[command(subcommand)]
    Draw(DrawVerb),
    /// End a sale permanently. Holds can still be confirmed.
    #[command(after_help = "Example:\n  rushgate sale end phones")]
    End(OfSale),
    /// End expired holds and release their units.
    #[command(after_help = "Example:\n  rushgate sale expire phones")]
    Expire(OfSale),
    Events(EventsArgs),
    Work(WorkArgs),
    #[command(subcommand)]
    Orders(OrdersVerb),
    /// Halt a sale until it is rebuilt: no reservations, no decisions.
    #[command(after_help = "\
Example:
  rushgate sale halt phones

Only a sale with a ledger can be halted; `sale rebuild` resumes it.")]
    Halt(OfSale),
    Rebuild(RebuildArgs),
    /// Audit a sale: compare store, event log and ledger.
    #[command(after_help = "\
Examples:
  rushgate sale audit phones
  rushgate sale audit phones --orders sqlite:orders.db --json | jq .ok

Exit status: 1 if a check fails.")]
    Audit(OfSale),
    Ls(LsArgs),
}

/// Create a sale without opening it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate sale create phones --sku phone=10:1
  rushgate sale create phones --sku phone=10:1 --sku case=50:2 --hold 2m
  rushgate sale create phones --sku phone=10 --orders sqlite:orders.db
  rushgate sale create phones --sku phone=10 --metadata phones.json

Exit status: 1 if a sale with this ID exists.")]
pub(crate) struct CreateArgs {
    /// ID of the sale.
    pub(crate) id: String,
    /// SKU, number of units, and purchase limit per buyer [default: 1]; repeat for more SKUs.
    #[arg(long = "sku", required = true, value_parser = sku, value_name = "NAME=UNITS[:PER_BUYER]")]
    pub(crate) skus: Vec<SkuArg>,
    /// Hold duration of a reservation that is not confirmed.
    #[arg(long, value_parser = duration::parse, default_value = "5m", value_name = "DURATION")]
    pub(crate) hold: Duration,
    /// Opening time: RFC 3339, a duration from now, or milliseconds since 1970.
    #[arg(long, value_parser = moments::parse, value_name = "TIME")]
    pub(crate) opens_at: Option<Timestamp>,
    /// Closing time: RFC 3339, a duration from now, or milliseconds since 1970.
    #[arg(long, value_parser = moments::parse, value_name = "TIME")]
    pub(crate) closes_at: Option<Timestamp>,
    /// Whether a ledger records the orders; `sale work` writes them to it [default: true with --orders or if the
    /// server has a ledger, otherwise false].
    #[arg(long, value_name = "BOOL", action = ArgAction::Set)]
    pub(crate) ledger: Option<bool>,
    /// File with a JSON object for shop pages: titles, prices and pictures.
    #[arg(long, value_name = "FILE")]
    pub(crate) metadata: Option<PathBuf>,
}

/// A SKU as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SkuArg {
    pub(crate) name: String,
    pub(crate) units: u32,
    pub(crate) per_buyer: u32,
}

/// The last two `=` separate units and limit, so a name may contain `=`.
fn sku(text: &str) -> Result<SkuArg, String> {
    let wrong =
        || format!("`{text}` is not a SKU; use NAME=UNITS or NAME=UNITS:PER_BUYER, such as phone=10:1");
    let (name, stock) = text.rsplit_once('=').ok_or_else(wrong)?;
    let (units, per_buyer) = stock.split_once(':').unwrap_or((stock, "1"));
    let number = |text| number(text, wrong);
    Ok(SkuArg { name: name.to_owned(), units: number(units)?, per_buyer: number(per_buyer)? })
}

/// Parses a number of units, with an error of its own for impossible numbers.
fn number(text: &str, wrong: impl FnOnce() -> String) -> Result<u32, String> {
    text.parse().map_err(|error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => format!("{text} is out of range"),
        _ => wrong(),
    })
}

/// Reserve units for a buyer: all lines or none.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate sale reserve phones --buyer ann --line phone --key click-1
  rushgate sale reserve train --buyer ann --key k --same-number \\
    --line a-b --line b-c

Repeating the command with the same key returns the same reservation in its current state, and takes \
no second unit.
Exit status: 1 if the buyer has no units from it: sold out, all on hold, over the purchase limit, \
not open, ended, halted, the key was used for another cart, or the reservation with this key has \
ended.")]
pub(crate) struct ReserveArgs {
    /// ID of the sale.
    pub(crate) id: String,
    /// The buyer.
    #[arg(long)]
    pub(crate) buyer: String,
    /// SKU and quantity [default: 1]; repeat for more SKUs.
    #[arg(long = "line", required = true, value_parser = line, value_name = "SKU[=QTY]")]
    pub(crate) lines: Vec<LineArg>,
    /// Idempotency key: the buyer's own name for this attempt.
    #[arg(long)]
    pub(crate) key: String,
    /// Give every line the same unit number: one seat on several legs.
    #[arg(long)]
    pub(crate) same_number: bool,
}

/// A line of a cart as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LineArg {
    pub(crate) sku: String,
    pub(crate) quantity: u32,
}

fn line(text: &str) -> Result<LineArg, String> {
    let (sku, quantity) = text.rsplit_once('=').unwrap_or((text, "1"));
    let quantity = number(quantity, || format!("`{text}` is not a line; use SKU or SKU=QUANTITY"))?;
    Ok(LineArg { sku: sku.to_owned(), quantity })
}

/// A decision on a reservation.
#[derive(Debug, Args)]
pub(crate) struct DecideArgs {
    /// ID of the sale.
    pub(crate) id: String,
    /// ID of the reservation.
    pub(crate) reservation: String,
    /// Maximum wait for the ledger.
    #[arg(long, value_parser = duration::parse, default_value = "0s", value_name = "DURATION")]
    pub(crate) wait: Duration,
}

/// Restore a reservation from its receipt, if the store has lost it.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate sale reserve phones --buyer ann --line phone --key k | grep receipt
  rushgate sale restore phones \"$RECEIPT\"

`sale reserve` prints the receipt with the reservation. A reservation that the store still has is \
printed in its current state.
Exit status: 1 if the receipt is not honored: it is forged, belongs to another sale or has expired, \
no unit is left, the buyer is over the purchase limit, or the sale is halted.")]
pub(crate) struct RestoreArgs {
    /// ID of the sale.
    pub(crate) id: String,
    /// The receipt.
    pub(crate) receipt: String,
}

/// Add units to a sale, or withdraw free ones.
#[derive(Debug, Subcommand)]
pub(crate) enum StockVerb {
    /// Add units. Their numbers continue from the last one.
    #[command(after_help = "Example:\n  rushgate sale stock add phones phone 5")]
    Add(StockArgs),
    /// Withdraw the highest free units permanently, all or nothing.
    #[command(after_help = "\
Example:
  rushgate sale stock withdraw phones phone 5

Exit status: 1 if fewer units are free.")]
    Withdraw(StockArgs),
}

/// A change of the stock.
#[derive(Debug, Args)]
pub(crate) struct StockArgs {
    /// ID of the sale.
    pub(crate) id: String,
    /// Name of the SKU.
    pub(crate) sku: String,
    /// Number of units.
    pub(crate) n: u32,
}

/// List the events of a sale, in order.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate sale events phones --after 100 --json")]
pub(crate) struct EventsArgs {
    /// ID of the sale.
    pub(crate) id: String,
    /// Only events with greater numbers.
    #[arg(long, default_value_t = 0, value_name = "SEQ")]
    pub(crate) after: u64,
    /// Page size.
    #[arg(short, long, default_value_t = 1_000)]
    pub(crate) n: u32,
}

/// Write orders to the ledger and end expired holds, until INT or TERM.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate sale work phones --orders sqlite:orders.db
  rushgate sale work phones --orders sqlite:orders.db --until-empty

Exit status: 1 if the store has lost writes or the sale is halted, or if --until-empty leaves orders \
that the ledger could not record.")]
pub(crate) struct WorkArgs {
    /// ID of the sale.
    pub(crate) id: String,
    /// Stop when no orders are left, except failed ones that are retried later.
    #[arg(long)]
    pub(crate) until_empty: bool,
    /// Rebuild the sale when it is halted, as `sale rebuild` does, unless an operator halted it.
    #[arg(long)]
    pub(crate) rebuild: bool,
}

/// List or retry orders that the ledger could not record.
#[derive(Debug, Subcommand)]
pub(crate) enum OrdersVerb {
    Ls(OrdersLsArgs),
    /// Retry all orders that the ledger could not record.
    #[command(after_help = "\
Example:
  rushgate sale orders retry phones

The order worker retries them within seconds. Without this command it retries each one after a delay \
that doubles with each attempt, up to 1 h.")]
    Retry(OfSale),
}

/// List the orders that the ledger could not record, with reasons.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate sale orders ls phones --json | jq -r '.[].reason'")]
pub(crate) struct OrdersLsArgs {
    /// ID of the sale.
    pub(crate) id: String,
    /// Only event numbers after this one.
    #[arg(long, default_value_t = 0, value_name = "SEQ")]
    pub(crate) after: u64,
    /// Page size, up to 1,000.
    #[arg(short, long, default_value_t = 1_000)]
    pub(crate) n: u32,
}

/// Rebuild a sale from its ledger, after the store has lost writes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate sale rebuild phones --orders postgres://shop@db/orders
  rushgate sale rebuild phones --orders sqlite:orders.db --receipts-first 30s

You can stop it and run it again at any time. If the store lost the whole sale, it is created again, not yet open. \
A missing file, or a ledger without a sale that has recorded orders, is refused unless --new-ledger is given.
Exit status: 1 if another rebuild has started, or if the sale is unknown.")]
pub(crate) struct RebuildArgs {
    /// ID of the sale.
    pub(crate) id: String,
    /// Period after the rebuild in which only receipts are honored, so that their owners come first.
    #[arg(long, value_parser = duration::parse, default_value = "5s", value_name = "DURATION")]
    pub(crate) receipts_first: Duration,
    /// Accept a ledger that does not know the sale, and write the sold units to it.
    #[arg(long)]
    pub(crate) new_ledger: bool,
}

/// List the sales.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate sale ls")]
pub(crate) struct LsArgs {
    /// Page size.
    #[arg(short, long, default_value_t = 1_000)]
    pub(crate) n: u32,
    /// Only IDs after this one.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ID")]
    pub(crate) after: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sku_has_units_and_a_limit() {
        let arg = |name: &str, units, per_buyer| Ok(SkuArg { name: name.to_owned(), units, per_buyer });
        assert_eq!(sku("phone=10:2"), arg("phone", 10, 2));
        assert_eq!(sku("phone=10"), arg("phone", 10, 1));
        assert_eq!(sku("a=b=10"), arg("a=b", 10, 1));
        for wrong in ["phone", "phone=", "phone=x", "phone=1:", "phone=-1"] {
            assert!(sku(wrong).unwrap_err().contains("NAME=UNITS"), "{wrong}");
        }
    }

    #[test]
    fn a_line_has_a_quantity() {
        assert_eq!(line("phone").unwrap().quantity, 1);
        assert_eq!(line("phone=3").unwrap().quantity, 3);
        assert!(line("phone=three").is_err());
    }
}
