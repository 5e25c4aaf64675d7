use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use rushgate::Rate;

use crate::duration;

/// Have a crowd wait, and let it in little by little.
#[derive(Debug, Subcommand)]
pub(crate) enum RoomVerb {
    Set(RoomSetArgs),
    Show(RoomShowArgs),
    Join(RoomJoinArgs),
    Enter(RoomEnterArgs),
    CloseEntry(RoomCloseEntryArgs),
    Draw(RoomDrawArgs),
    Close(RoomCloseArgs),
}

impl RoomVerb {
    /// Whether it changes nothing.
    pub(crate) const fn only_looks(&self) -> bool {
        matches!(self, Self::Show(_))
    }
}

/// Open a sale's waiting room, or give it other rules.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate sale room set phones --rate 100/1s
  rushgate sale room set phones --rate 50/1s --pass 2m
  rushgate sale room set phones --rate 100/1s --draw

What is not said stays as it is. Nobody's place changes by other rules: what was
served stays so, and so does the order of a room that is open.")]
pub(crate) struct RoomSetArgs {
    /// The sale.
    pub(crate) id: String,
    /// How many are let in, evenly, in how long.
    #[arg(long, value_parser = duration::rate, value_name = "N/DURATION")]
    pub(crate) rate: Rate,
    /// How long a pass holds [default: 60s].
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    pub(crate) pass: Option<Duration>,
    /// Draw who goes first, instead of whoever came first.
    #[arg(long)]
    pub(crate) draw: bool,
    /// Nobody is let in before that moment, in milliseconds since 1970 [default: when the sale opens].
    #[arg(long, value_name = "EPOCH_MS")]
    pub(crate) from: Option<u64>,
}

/// Show a sale's waiting room.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate sale room show phones
  rushgate sale room show phones --json > draw.json

Exit status: 1 if it has none.")]
pub(crate) struct RoomShowArgs {
    /// The sale.
    pub(crate) id: String,
}

/// Take a place in line for a buyer.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate sale room join phones --buyer ann

Whoever is in keeps his place, unless his pass ran out.
Exit status: 1 if the sale is over or sold out.")]
pub(crate) struct RoomJoinArgs {
    /// The sale.
    pub(crate) id: String,
    /// Who.
    #[arg(long)]
    pub(crate) buyer: String,
}

/// Let a buyer in if it is his turn, and print his pass.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate sale room enter phones --buyer ann --wait 10m

Exit status: 1 if it is not his turn, he missed it or has not joined, or the
sale is over.")]
pub(crate) struct RoomEnterArgs {
    /// The sale.
    pub(crate) id: String,
    /// Who.
    #[arg(long)]
    pub(crate) buyer: String,
    /// How long to wait for his turn.
    #[arg(long, value_parser = duration::parse, default_value = "0s", value_name = "DURATION")]
    pub(crate) wait: Duration,
}

/// Fix who takes part in the draw: whoever has joined by now.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate sale room close-entry phones

Publish the number that it prints; then draw by a text that nobody could know
before. Who joins later stands behind them. An entry is closed once: later calls
change nothing.
Exit status: 1 if there is no room.")]
pub(crate) struct RoomCloseEntryArgs {
    /// The sale.
    pub(crate) id: String,
}

/// Draw who goes first, and begin to let them in.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate sale room draw phones --beacon '2026-11-22: 07 12 19 23 38 41'

Close the entry first, and say beforehand which text it will be: one that nobody
could know then. Only the first draw counts; docs/draw.md says how to check it.
Exit status: 1 if there is no room, its entry is open, or it was drawn by
another text.")]
pub(crate) struct RoomDrawArgs {
    /// The sale.
    pub(crate) id: String,
    /// A public text that nobody could know before: 1 to 256 bytes.
    #[arg(long, value_name = "TEXT")]
    pub(crate) beacon: String,
}

/// Take the room away, with all who wait: everybody may buy.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate sale room close phones\n\nExit status: 1 if it had none.")]
pub(crate) struct RoomCloseArgs {
    /// The sale.
    pub(crate) id: String,
}

/// Check the draw of a waiting room, without its store.
#[derive(Debug, Subcommand)]
pub(crate) enum DrawVerb {
    Verify(DrawVerifyArgs),
}

/// Work a published draw out again, and say whether it holds.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate sale room show phones --json > draw.json
  rushgate sale draw verify draw.json --commitment 630dcd29… --entrants 5000
  rushgate sale draw verify draw.json --serial 4711
  curl https://shop.example/v1/sales/phones/room | rushgate sale draw verify -

Without --commitment, --entrants and --beacon the record is held against itself
alone: compare what is printed with what was published before people joined,
when the entry was closed, and of how the beacon would be written.
Exit status: 1 if it does not hold.")]
pub(crate) struct DrawVerifyArgs {
    /// The record as JSON; - for stdin.
    pub(crate) file: PathBuf,
    /// What was published before people joined; a record with another one does not hold.
    #[arg(long, value_name = "HEX")]
    pub(crate) commitment: Option<String>,
    /// How many took part, as was published when the entry was closed; a record with another number does not hold.
    #[arg(long, value_name = "N")]
    pub(crate) entrants: Option<u64>,
    /// The public text, as it was announced that it would be written; a record with another one does not hold.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) beacon: Option<String>,
    /// Print the place of this serial, too; give it again for each further one.
    #[arg(long = "serial", value_name = "N")]
    pub(crate) serials: Vec<u64>,
}
