use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use rushgate::Timestamp;
use rushgate::queue::Rate;

use super::names::OfSale;
use crate::{duration, moments};

/// Manage the waiting room of a sale.
#[derive(Debug, Subcommand)]
pub(crate) enum RoomVerb {
    Set(RoomSetArgs),
    /// Show a sale's waiting room.
    #[command(after_help = "\
Examples:
  rushgate sale room show phones
  rushgate sale room show phones --json > draw.json

Exit status: 1 if the sale has no waiting room.")]
    Show(OfSale),
    Join(RoomJoinArgs),
    Enter(RoomEnterArgs),
    /// Close the entry to the draw: everyone who has joined takes part.
    #[command(after_help = "\
Example:
  rushgate sale room close-entry phones

Publish the number of entrants that it prints, then draw with a beacon that was unknown until then. \
Buyers who join later wait behind the entrants. Closing the entry again changes nothing.
Exit status: 1 if the sale has no waiting room.")]
    CloseEntry(OfSale),
    Draw(RoomDrawArgs),
    /// Close the room and remove all waiting buyers: everyone may reserve.
    #[command(after_help = "\
Example:
  rushgate sale room close phones

Exit status: 1 if the sale had no waiting room.")]
    Close(OfSale),
}

/// Open a sale's waiting room, or change its rules.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate sale room set phones --rate 100/1s
  rushgate sale room set phones --rate 50/1s --pass 2m
  rushgate sale room set phones --rate 100/1s --draw

Options that are left out keep their values. A change of the rules moves no buyer: admissions stand, \
and the order of an open room cannot be changed.")]
pub(crate) struct RoomSetArgs {
    /// ID of the sale.
    pub(crate) id: String,
    /// Admission rate, spread evenly.
    #[arg(long, value_parser = duration::rate, value_name = "N/DURATION")]
    pub(crate) rate: Rate,
    /// Lifetime of an admission token [default: 60s].
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    pub(crate) pass: Option<Duration>,
    /// Randomized draw instead of first come, first served.
    #[arg(long)]
    pub(crate) draw: bool,
    /// No admissions before this time: RFC 3339, a duration from now, or milliseconds since 1970 [default: the
    /// opening time].
    #[arg(long, value_parser = moments::parse, value_name = "TIME")]
    pub(crate) from: Option<Timestamp>,
}

/// Join the waiting room as a buyer.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate sale room join phones --buyer ann

A buyer in the room keeps the position until the admission token expires.
Exit status: 1 if the sale has ended or is sold out.")]
pub(crate) struct RoomJoinArgs {
    /// ID of the sale.
    pub(crate) id: String,
    /// The buyer.
    #[arg(long)]
    pub(crate) buyer: String,
}

/// Admit a buyer whose turn has come, and print the admission token.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate sale room enter phones --buyer ann --wait 10m

Exit status: 1 if the buyer has not joined, has to wait or has missed the turn, or if the sale has \
ended.")]
pub(crate) struct RoomEnterArgs {
    /// ID of the sale.
    pub(crate) id: String,
    /// The buyer.
    #[arg(long)]
    pub(crate) buyer: String,
    /// Maximum wait for the buyer's turn.
    #[arg(long, value_parser = duration::parse, default_value = "0s", value_name = "DURATION")]
    pub(crate) wait: Duration,
}

/// Draw the order of admission and begin to admit buyers.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate sale room draw phones --beacon '2026-11-22: 07 12 19 23 38 41'

First close the entry and announce which beacon you will use: a text that nobody can know in \
advance. Only the first draw counts. To verify it: `rushgate help sale draw verify`.
Exit status: 1 if the sale has no waiting room, its entry is open, or it was drawn with another \
beacon.")]
pub(crate) struct RoomDrawArgs {
    /// ID of the sale.
    pub(crate) id: String,
    /// Randomness beacon: a public text that nobody could know before, 1 to 256 bytes.
    #[arg(long, value_name = "TEXT")]
    pub(crate) beacon: String,
}

/// Verify the draw of a waiting room, without its store.
#[derive(Debug, Subcommand)]
pub(crate) enum DrawVerb {
    Verify(DrawVerifyArgs),
}

/// Recompute a published draw and report whether it is valid.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate sale room show phones --json > draw.json
  rushgate sale draw verify draw.json --commitment 630dcd29… --entrants 5000
  rushgate sale draw verify draw.json --serial 4711
  curl https://shop.example/v1/sales/phones/room | rushgate sale draw verify -

Without --commitment, --entrants and --beacon, only the consistency of the record is checked. \
Compare the printed values yourself with those that were published: the commitment before buyers \
joined, the number of entrants when the entry was closed, and the announced beacon.
Exit status: 1 if the draw is invalid.")]
pub(crate) struct DrawVerifyArgs {
    /// The record as JSON; `-` reads stdin.
    pub(crate) file: PathBuf,
    /// The commitment as published before buyers joined; it must match the record.
    #[arg(long, value_name = "HEX")]
    pub(crate) commitment: Option<String>,
    /// The number of entrants as published when the entry was closed; it must match the record.
    #[arg(long, value_name = "N")]
    pub(crate) entrants: Option<u64>,
    /// The beacon as announced; it must match the record.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) beacon: Option<String>,
    /// Also print the position of this serial; repeat for more.
    #[arg(long = "serial", value_name = "N")]
    pub(crate) serials: Vec<u64>,
}
