use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use rushgate::BuyerId;
use rushgate_server::{Role, Scope};

use crate::duration;
use crate::settings::ServeOptions;

/// Serve locks, queues and sales over HTTP, and work off orders.
///
/// Every verb is a route under /v1, described at /openapi.json; /healthz and /readyz say how it is. With --orders each
/// sale has an order worker here; holds are ended in time in any case. INT or TERM ends it: nothing more is accepted, long
/// waits are told so, and requests may end within the grace; a second one ends it at once.
///
/// On loopback everybody is an operator unless there are tokens. Beyond it there must be tokens.
///
/// Each option may also be a variable, such as RUSHGATE_SERVE_LISTEN, or a key of [serve] in rushgate.toml; a flag wins
/// over a variable, and that over the file.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate serve --demo
  rushgate serve --store sqlite:shop.db --orders sqlite:orders.db
  rushgate serve --listen 0.0.0.0:7979 --tokens tokens.json
  rushgate serve --print-config > rushgate.toml

Exit status: 0 when stopped, 1 if requests were cut off at the end of the grace, and if --check finds no server that is ready.")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) options: ServeOptions,
    /// Print a rushgate.toml with every option, its meaning and its default, and end.
    #[arg(long)]
    pub(crate) print_config: bool,
    /// Ask the server that listens there whether it is ready, and end.
    #[arg(long, conflicts_with = "print_config")]
    pub(crate) check: bool,
}

/// Say who may ask a server for what.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenVerb {
    Create(TokenCreateArgs),
    Key(TokenKeyArgs),
    Sign(TokenSignArgs),
    Ls(TokenLsArgs),
    Revoke(TokenRevokeArgs),
}

/// The file that a server reads.
#[derive(Debug, Args)]
pub(crate) struct TokensFile {
    /// The file of tokens; a server that runs reads it anew at once.
    #[arg(long, default_value = "tokens.json", value_name = "FILE")]
    pub(crate) tokens: PathBuf,
}

/// Make a token, and print it: it is said once, and the file has its hash only.
///
/// A buyer looks at sales, reserves and cancels; a worker does that, uses locks and queues, and confirms what is paid
/// for; an operator does everything.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate token create shop --role worker --scope 'sale:*'
  rushgate token create mailer --role worker --scope 'queue:mail*'")]
pub(crate) struct TokenCreateArgs {
    /// What it is for, for people who look.
    pub(crate) label: String,
    /// What its bearer may do.
    #[arg(long, value_enum)]
    pub(crate) role: RoleArg,
    /// The names that it is for, such as lock:a, queue:mail* or sale:*; again for more [default: all].
    #[arg(long = "scope", value_name = "KIND:NAME")]
    pub(crate) scopes: Vec<Scope>,
    /// The only buyer it is for.
    #[arg(long, value_name = "BUYER")]
    pub(crate) buyer: Option<BuyerId>,
    #[command(flatten)]
    pub(crate) file: TokensFile,
}

/// Make a key that a shop signs a token with for each of its buyers, and print it.
///
/// A token is a JSON Web Token under HS256 with `kid`, `sub` (the buyer) and `exp`, and may have `nbf`, `aud` (rushgate) and
/// `scope`. Its bearer is that buyer and nobody else. The file has the key itself, so whoever reads the file can sign.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate token key shop --scope sale:phones")]
pub(crate) struct TokenKeyArgs {
    /// What it is for, for people who look.
    pub(crate) label: String,
    /// The sales that it is for, such as sale:phones or sale:*; again for more [default: all].
    #[arg(long = "scope", value_name = "sale:NAME")]
    pub(crate) scopes: Vec<Scope>,
    #[command(flatten)]
    pub(crate) file: TokensFile,
}

/// Sign a token for a buyer, as the shop's own program does, and print it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate token sign ann --for 1h")]
pub(crate) struct TokenSignArgs {
    /// Whose it is.
    pub(crate) buyer: BuyerId,
    /// How long it is good.
    #[arg(long = "for", value_parser = duration::parse, default_value = "1h", value_name = "DURATION")]
    pub(crate) time: Duration,
    /// The only sales it is for, such as sale:phones; again for more [default: all of the key's].
    #[arg(long = "scope", value_name = "sale:NAME")]
    pub(crate) scopes: Vec<Scope>,
    /// The id of the key; there need not be one if there is one key only.
    #[arg(long, value_name = "ID")]
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) file: TokensFile,
}

/// List the tokens and keys that are good, without their secrets.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate token ls")]
pub(crate) struct TokenLsArgs {
    #[command(flatten)]
    pub(crate) file: TokensFile,
}

/// Make a token worthless, or a key with all that it has signed.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate token revoke 5f0c1a2b

Exit status: 1 if there is no such token.")]
pub(crate) struct TokenRevokeArgs {
    /// Its id, as `token ls` shows it.
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) file: TokensFile,
}

/// What a token's bearer may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleArg {
    /// Looks at sales, reserves, cancels.
    Buyer,
    /// Uses locks and queues, and confirms.
    Worker,
    /// Does everything.
    Operator,
}

impl From<RoleArg> for Role {
    fn from(role: RoleArg) -> Self {
        match role {
            RoleArg::Buyer => Self::Buyer,
            RoleArg::Worker => Self::Worker,
            RoleArg::Operator => Self::Operator,
        }
    }
}
