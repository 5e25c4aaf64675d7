use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use rushgate::BuyerId;
use rushgate_server::{Role, Scope};

use crate::args::words;
use crate::duration;
use crate::settings::ServeOptions;

/// Serve locks, queues and sales over HTTP.
///
/// Every verb is a route under /v1, described at /openapi.json; /healthz and /readyz report health. With --orders the
/// server runs an order worker for each sale; it always ends expired holds. INT or TERM stops it: it accepts nothing
/// more, answers long waits, and lets running requests finish within the grace period. A second signal stops it at
/// once.
///
/// On loopback, without tokens, every client is an operator. Other addresses require tokens.
///
/// Each option can also be a variable, such as RUSHGATE_SERVE_LISTEN, or a key of [serve] in rushgate.toml. Flags
/// override variables, which override the file.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate serve --demo
  rushgate serve --store sqlite:shop.db --orders sqlite:orders.db
  rushgate serve --listen 0.0.0.0:7979 --tokens tokens.json
  rushgate serve --print-config > rushgate.toml

Exit status: 0 after a stop by signal, 1 if requests were cut off at the end of the grace period.
With --check: 0 if the server is ready, else 1.")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) options: ServeOptions,
    /// Print a rushgate.toml with every option, its meaning and its default, and exit.
    #[arg(long)]
    pub(crate) print_config: bool,
    /// Ask the server at this address whether it is ready, and exit.
    #[arg(long, conflicts_with = "print_config")]
    pub(crate) check: bool,
}

/// Manage API tokens: roles, scopes and buyers.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenVerb {
    Create(TokenCreateArgs),
    Key(TokenKeyArgs),
    Sign(TokenSignArgs),
    /// List the valid tokens and keys, without secrets.
    #[command(after_help = "Example:\n  rushgate token ls")]
    Ls(TokensFile),
    Revoke(TokenRevokeArgs),
}

/// The token file of a server.
#[derive(Debug, Args)]
pub(crate) struct TokensFile {
    /// Token file, which a running server reloads at once [default: that of the server of --store, or tokens.json].
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
}

impl TokensFile {
    /// The file, if the store is no server.
    pub(crate) const DEFAULT: &str = "tokens.json";
}

/// Create a token and print it. It is not shown again: the file has only its hash.
///
/// A buyer reads sales, reserves and cancels. A worker also uses locks and queues, and confirms paid reservations. An
/// operator does everything.
///
/// With --url or the profile of a server, the token is one of that server. That needs an operator's token without
/// scopes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate token create shop --role worker --scope 'sale:*'
  rushgate token create mailer --role worker --scope 'queue:mail*'")]
pub(crate) struct TokenCreateArgs {
    /// Purpose of the token, as shown to operators.
    pub(crate) label: String,
    /// Role of the bearer.
    #[arg(long, value_parser = words::role())]
    pub(crate) role: Role,
    /// Scope, such as lock:a, queue:mail* or sale:*; repeat for more [default: all].
    #[arg(long = "scope", value_name = "KIND:NAME")]
    pub(crate) scopes: Vec<Scope>,
    /// The only buyer that the token is for.
    #[arg(long, value_name = "BUYER")]
    pub(crate) buyer: Option<BuyerId>,
    #[command(flatten)]
    pub(crate) file: TokensFile,
}

/// Create a key with which a shop signs tokens for its buyers, and print it.
///
/// A buyer's token is a JSON Web Token with HS256, `kid`, `sub` (the buyer) and `exp`; `nbf`, `aud` (rushgate) and
/// `scope` are optional. Its bearer is that buyer only. The file holds the key itself, so anyone who can read the
/// file can sign tokens.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate token key shop --scope sale:phones")]
pub(crate) struct TokenKeyArgs {
    /// Purpose of the key, as shown to operators.
    pub(crate) label: String,
    /// Sales that the key is for, such as sale:phones or sale:*; repeat for more [default: all].
    #[arg(long = "scope", value_name = "sale:NAME")]
    pub(crate) scopes: Vec<Scope>,
    #[command(flatten)]
    pub(crate) file: TokensFile,
}

/// Sign a token for a buyer, as the shop's backend does, and print it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate token sign ann --for 1h")]
pub(crate) struct TokenSignArgs {
    /// The buyer.
    pub(crate) buyer: BuyerId,
    /// Lifetime of the token.
    #[arg(long = "for", value_parser = duration::parse, default_value = "1h", value_name = "DURATION")]
    pub(crate) time: Duration,
    /// Sales that the token is for, such as sale:phones; repeat for more [default: all of the key's].
    #[arg(long = "scope", value_name = "sale:NAME")]
    pub(crate) scopes: Vec<Scope>,
    /// ID of the key [default: the only key].
    #[arg(long, value_name = "ID")]
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) file: TokensFile,
}

/// Revoke a token, or a key with every token that it signed.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate token revoke 5f0c1a2b

Exit status: 1 if there is no such token.")]
pub(crate) struct TokenRevokeArgs {
    /// ID of the token or key, as `token ls` shows it.
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) file: TokensFile,
}
