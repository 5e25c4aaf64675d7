use std::num::{IntErrorKind, ParseIntError};
use std::time::Duration;

use clap::{Args, Subcommand};

use super::room::{DrawVerb, RoomVerb};
use crate::duration;

/// Sell numbered units to any number of buyers, each exactly once.
#[derive(Debug, Subcommand)]
pub(crate) enum SaleVerb {
    Create(CreateArgs),
    Open(OpenArgs),
    Show(ShowArgs),
    Reserve(ReserveArgs),
    Confirm(ConfirmArgs),
    Cancel(CancelArgs),
    Restore(RestoreArgs),
    #[command(subcommand)]
    Stock(StockVerb),
    #[command(subcommand)]
    Room(RoomVerb),
    #[command(subcommand)]
    Draw(DrawVerb),
    End(EndArgs),
    Expire(ExpireArgs),
    Events(EventsArgs),
    Work(WorkArgs),
    #[command(subcommand)]
    Orders(OrdersVerb),
    Pause(PauseArgs),
    Rebuild(RebuildArgs),
    Audit(AuditArgs),
    Ls(LsArgs),
}

impl SaleVerb {
    /// Whether it changes nothing.
    pub(crate) const fn only_looks(&self) -> bool {
        match self {
            Self::Room(verb) => verb.only_looks(),
            _ => matches!(self, Self::Show(_) | Self::Events(_) | Self::Audit(_) | Self::Ls(_)),
        }
    }
}

/// Make a sale, not yet open.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate sale create phones --sku phone=10:1
  rushgate sale create phones --sku phone=10:1 --sku case=50:2 --hold 2m
  rushgate sale create phones --sku phone=10 --orders-queue orders

Exit status: 1 if there is a sale of that id.")]
pub(crate) struct CreateArgs {
    /// The sale's id.
    pub(crate) id: String,
    /// What it sells, how many, and how many one buyer may have [default: 1]; give it again for each further SKU.
    #[arg(long = "sku", required = true, value_parser = sku, value_name = "NAME=UNITS[:PER_BUYER]")]
    pub(crate) skus: Vec<SkuArg>,
    /// How long a reservation keeps its units without being confirmed.
    #[arg(long, value_parser = duration::parse, default_value = "5m", value_name = "DURATION")]
    pub(crate) hold: Duration,
    /// Nothing is sold before that moment, in milliseconds since 1970.
    #[arg(long, value_name = "EPOCH_MS")]
    pub(crate) opens_at: Option<u64>,
    /// Nothing is sold from that moment on, in milliseconds since 1970.
    #[arg(long, value_name = "EPOCH_MS")]
    pub(crate) closes_at: Option<u64>,
    /// Give a ledger the last word: orders go through this queue, and `sale work` carries them there.
    #[arg(long, value_name = "QUEUE")]
    pub(crate) orders_queue: Option<String>,
}

/// One SKU as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SkuArg {
    pub(crate) name: String,
    pub(crate) units: u32,
    pub(crate) per_buyer: u32,
}

/// The last `=` parts name and units, so that a name may have others.
fn sku(text: &str) -> Result<SkuArg, String> {
    let wrong =
        || format!("`{text}` is no SKU; write NAME=UNITS or NAME=UNITS:PER_BUYER, such as phone=10:1");
    let (name, stock) = text.rsplit_once('=').ok_or_else(wrong)?;
    let (units, per_buyer) = stock.split_once(':').unwrap_or((stock, "1"));
    let number = |text| number(text, wrong);
    Ok(SkuArg { name: name.to_owned(), units: number(units)?, per_buyer: number(per_buyer)? })
}

/// A number of units, in words of its own if it is one that nobody can have.
fn number(text: &str, wrong: impl FnOnce() -> String) -> Result<u32, String> {
    text.parse().map_err(|error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => format!("{text} is out of range"),
        _ => wrong(),
    })
}

/// Open a sale, from its opening time if it has one.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate sale open phones\n\nExit status: 1 if it has ended.")]
pub(crate) struct OpenArgs {
    /// The sale.
    pub(crate) id: String,
}

/// Show a sale and its stock.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate sale show phones --json | jq '.skus[0].free'")]
pub(crate) struct ShowArgs {
    /// The sale.
    pub(crate) id: String,
}

/// Reserve units for a buyer: all lines or none.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate sale reserve phones --buyer ann --line phone --key click-1
  rushgate sale reserve train --buyer ann --key k --same-number \\
    --line a-b --line b-c

The same key again gives the same reservation, as it stands, and no second unit.
Exit status: 1 if the buyer has no units by it: sold out, all held, over the limit, not open, ended, stopped, key used
for another cart, or the same key's reservation has ended.")]
pub(crate) struct ReserveArgs {
    /// The sale.
    pub(crate) id: String,
    /// Who buys.
    #[arg(long)]
    pub(crate) buyer: String,
    /// What, and how many [default: 1]; give it again for each further SKU.
    #[arg(long = "line", required = true, value_parser = line, value_name = "SKU[=QTY]")]
    pub(crate) lines: Vec<LineArg>,
    /// The buyer's own name for this attempt.
    #[arg(long)]
    pub(crate) key: String,
    /// The same number in every line: one seat over several segments.
    #[arg(long)]
    pub(crate) same_number: bool,
}

/// One line of a cart as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LineArg {
    pub(crate) sku: String,
    pub(crate) quantity: u32,
}

fn line(text: &str) -> Result<LineArg, String> {
    let (sku, quantity) = text.rsplit_once('=').unwrap_or((text, "1"));
    let quantity = number(quantity, || format!("`{text}` is no line; write SKU or SKU=QUANTITY"))?;
    Ok(LineArg { sku: sku.to_owned(), quantity })
}

/// Confirm a reservation: it is paid for.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate sale confirm phones 0b2c4d5e6f708192a3b4c5d6e7f80910 --wait 5s

With a ledger behind the sale the answer is `pending` until it has committed.
Exit status: 1 if it was decided otherwise before, or does not exist.")]
pub(crate) struct ConfirmArgs {
    /// The sale.
    pub(crate) id: String,
    /// The reservation.
    pub(crate) reservation: String,
    /// How long to wait for the ledger.
    #[arg(long, value_parser = duration::parse, default_value = "0s", value_name = "DURATION")]
    pub(crate) wait: Duration,
}

/// Cancel a reservation: its units are free again.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate sale cancel phones 0b2c4d5e6f708192a3b4c5d6e7f80910

Exit status: 1 if it was decided otherwise before, or does not exist.")]
pub(crate) struct CancelArgs {
    /// The sale.
    pub(crate) id: String,
    /// The reservation.
    pub(crate) reservation: String,
    /// How long to wait for the ledger.
    #[arg(long, value_parser = duration::parse, default_value = "0s", value_name = "DURATION")]
    pub(crate) wait: Duration,
}

/// Give a buyer the units of a receipt back, if the store has lost the reservation.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate sale reserve phones --buyer ann --line phone --key k | grep receipt
  rushgate sale restore phones \"$RECEIPT\"

`sale reserve` prints the receipt with the reservation. A reservation that was not lost is shown as it stands.
Exit status: 1 if it is not honoured: forged, another sale's, run out, nothing left, over the limit, sale stopped.")]
pub(crate) struct RestoreArgs {
    /// The sale.
    pub(crate) id: String,
    /// The receipt.
    pub(crate) receipt: String,
}

/// Add units to a sale, or withdraw free ones.
#[derive(Debug, Subcommand)]
pub(crate) enum StockVerb {
    Add(StockAddArgs),
    Withdraw(StockWithdrawArgs),
}

/// Which stock, and how many units.
#[derive(Debug, Args)]
pub(crate) struct StockArgs {
    /// The sale.
    pub(crate) id: String,
    /// The SKU.
    pub(crate) sku: String,
    /// How many units.
    pub(crate) n: u32,
}

/// Add units, numbered on from the last.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate sale stock add phones phone 5")]
pub(crate) struct StockAddArgs {
    #[command(flatten)]
    pub(crate) stock: StockArgs,
}

/// Withdraw the highest free units for good, all or nothing.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate sale stock withdraw phones phone 5

Exit status: 1 if fewer are free.")]
pub(crate) struct StockWithdrawArgs {
    #[command(flatten)]
    pub(crate) stock: StockArgs,
}

/// End a sale for good; holds can still be confirmed.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate sale end phones")]
pub(crate) struct EndArgs {
    /// The sale.
    pub(crate) id: String,
}

/// End the holds that have run out, and give their units back.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate sale expire phones")]
pub(crate) struct ExpireArgs {
    /// The sale.
    pub(crate) id: String,
}

/// List what happened in a sale, in order.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate sale events phones --after 100 --json")]
pub(crate) struct EventsArgs {
    /// The sale.
    pub(crate) id: String,
    /// Only events with a greater number.
    #[arg(long, default_value_t = 0, value_name = "SEQ")]
    pub(crate) after: u64,
    /// At most so many.
    #[arg(short, long, default_value_t = 1_000)]
    pub(crate) n: u32,
}

/// Carry orders to the ledger and end holds that run out, until stopped.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate sale work phones --orders sqlite:orders.db
  rushgate sale work phones --orders sqlite:orders.db --until-empty")]
pub(crate) struct WorkArgs {
    /// The sale.
    pub(crate) id: String,
    /// Stop when no order is left to carry.
    #[arg(long)]
    pub(crate) until_empty: bool,
    /// Rebuild the sale whenever it is found stopped, as `sale rebuild` does, unless `sale pause` stopped it.
    #[arg(long)]
    pub(crate) rebuild: bool,
}

/// Retry, delete or pause the orders of a sale, whose queue is reserved.
#[derive(Debug, Subcommand)]
pub(crate) enum OrdersVerb {
    Retry(OrdersRetryArgs),
    Delete(OrdersDeleteArgs),
    Pause(OrdersPauseArgs),
    Resume(OrdersResumeArgs),
}

/// Orders that are dead letters.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct DeadOrders {
    /// The sale.
    pub(crate) id: String,
    /// The ids of their tasks, as `queue dead ls` lists them.
    #[arg(required_unless_present = "all", value_name = "TASK")]
    pub(crate) ids: Vec<String>,
    /// All of them.
    #[arg(long, conflicts_with = "ids")]
    pub(crate) all: bool,
}

/// Retry orders that are dead letters, due at once and with all attempts before them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate queue dead ls orders
  rushgate sale orders retry phones --all

Exit status: 1 if none of those named was retried.")]
pub(crate) struct OrdersRetryArgs {
    #[command(flatten)]
    pub(crate) which: DeadOrders,
}

/// Delete orders that are dead letters: the ledger will never have them.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate sale orders delete phones 0b2c4d5e6f708192a3b4c5d6e7f80910

Exit status: 1 if none of those named was deleted.")]
pub(crate) struct OrdersDeleteArgs {
    #[command(flatten)]
    pub(crate) which: DeadOrders,
}

/// Stop giving orders to `sale work`; the sale goes on.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate sale orders pause phones")]
pub(crate) struct OrdersPauseArgs {
    /// The sale.
    pub(crate) id: String,
}

/// Give orders to `sale work` again.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate sale orders resume phones")]
pub(crate) struct OrdersResumeArgs {
    /// The sale.
    pub(crate) id: String,
}

/// Stop a sale until it is rebuilt: nobody is let in and nothing is decided.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate sale pause phones

Only a sale with a ledger can be stopped; `sale rebuild` goes on from there.")]
pub(crate) struct PauseArgs {
    /// The sale.
    pub(crate) id: String,
}

/// Rebuild a sale from its ledger, after the store has lost writes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate sale rebuild phones --orders postgres://shop@db/orders
  rushgate sale rebuild phones --orders sqlite:orders.db --receipts-first 30s

It may be stopped and run again at any time. A store that had lost the whole sale has it again, not yet open.
A ledger that knows nothing of a sale with orders that were carried out is refused, as is a file that is not there, unless --new-ledger is given.
Exit status: 1 if somebody else began to rebuild it meanwhile, or if no one knows the sale.")]
pub(crate) struct RebuildArgs {
    /// The sale.
    pub(crate) id: String,
    /// For how long only receipts are honoured afterwards, so that they come before strangers.
    #[arg(long, value_parser = duration::parse, default_value = "5s", value_name = "DURATION")]
    pub(crate) receipts_first: Duration,
    /// Take a ledger that has never heard of the sale, and write to it what the store has sold.
    #[arg(long)]
    pub(crate) new_ledger: bool,
}

/// Add a sale up again from what store, event log and ledger wrote down.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate sale audit phones
  rushgate sale audit phones --orders sqlite:orders.db --json | jq .ok

Exit status: 1 if a check fails.")]
pub(crate) struct AuditArgs {
    /// The sale.
    pub(crate) id: String,
}

/// List the sales.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate sale ls")]
pub(crate) struct LsArgs {
    /// At most so many.
    #[arg(short, long, default_value_t = 1_000)]
    pub(crate) n: u32,
    /// Only ids after this one.
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
