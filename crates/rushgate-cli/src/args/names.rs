//! Arguments that name what a command is about.

use clap::Args;

/// A sale.
#[derive(Debug, Args)]
pub(crate) struct OfSale {
    /// ID of the sale.
    pub(crate) id: String,
}
