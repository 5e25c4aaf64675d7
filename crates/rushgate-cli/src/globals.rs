//! What every command is given.

use clap::ValueEnum;

/// What was said before or after the command's name, with environment and file taken into account.
#[derive(Clone, Debug)]
pub(crate) struct Globals {
    /// The store's URL, if anybody named one.
    pub(crate) store: Option<String>,
    /// The ledger's URL, if anybody named one.
    pub(crate) orders: Option<String>,
    /// Data as JSON on stdout, errors as JSON on stderr.
    pub(crate) json: bool,
    /// Nothing on stderr but errors.
    pub(crate) quiet: bool,
    /// More on stderr.
    pub(crate) verbose: bool,
    /// Whether to use colour.
    pub(crate) color: Color,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}
