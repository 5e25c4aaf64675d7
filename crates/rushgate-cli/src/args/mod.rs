//! The command-line grammar. Each verb's module gives it meaning.

mod help;
pub(crate) mod lock;
pub(crate) mod names;
pub(crate) mod outbox;
pub(crate) mod queue;
pub(crate) mod room;
pub(crate) mod rush;
pub(crate) mod sale;
pub(crate) mod serve;
pub(crate) mod tools;
mod words;
pub(crate) mod work;

use clap::{Parser, Subcommand};

use crate::output::OutputArgs;

pub(crate) use help::command;

/// Distributed locks, task queues and flash-sale inventory from the shell.
#[derive(Debug, Parser)]
#[command(name = "rushgate", version = env!("RUSHGATE_VERSION"))]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) shared: Shared,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Options of every command. `rushgate help options` lists them, so that the help of each command need not.
#[derive(Debug, clap::Args)]
pub(crate) struct Shared {
    /// Store URL: sqlite:PATH, redis://HOST, redis+sentinel://H1,H2/SERVICE or redis+cluster://H1,H2
    /// [default: sqlite:rushgate.db].
    #[arg(long, env = "RUSHGATE_STORE", value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Server URL, https://HOST[:PORT] or http, in place of a store. RUSHGATE_TOKEN has the API token.
    #[arg(long, env = "RUSHGATE_URL", value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Ledger URL, the system of record for orders: sqlite:PATH or postgres://USER@HOST/NAME.
    #[arg(long, env = "RUSHGATE_ORDERS", value_name = "URL")]
    pub(crate) orders: Option<String>,
    /// Profile: store or server, ledger and API token by name, from [profiles.NAME] in rushgate.toml or in
    /// ~/.config/rushgate/rushgate.toml.
    #[arg(long, env = "RUSHGATE_PROFILE", value_name = "NAME")]
    pub(crate) profile: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl Shared {
    /// Leaves at most one of store, server and profile: a flag overrides variables, and a URL overrides a profile.
    pub(crate) fn settle(&mut self, is_flag: impl Fn(&str) -> bool) -> Result<(), String> {
        let flags: Vec<_> = ["store", "url", "profile"].into_iter().filter(|name| is_flag(name)).collect();
        match flags[..] {
            [] if self.store.is_some() && self.url.is_some() => {
                return Err("RUSHGATE_STORE and RUSHGATE_URL are both set: unset one, or pass a flag".into());
            }
            [] if self.store.is_some() || self.url.is_some() => self.profile = None,
            [] => {}
            [flag] => {
                for (name, value) in
                    [("store", &mut self.store), ("url", &mut self.url), ("profile", &mut self.profile)]
                {
                    if name != flag {
                        *value = None;
                    }
                }
            }
            [one, other, ..] => return Err(format!("--{one} and --{other} exclude each other")),
        }
        if self.profile.is_some() && !is_flag("orders") {
            self.orders = None;
        }
        Ok(())
    }
}

/// The commands, in the order of the help.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Rush(rush::RushArgs),
    Serve(serve::ServeArgs),
    #[command(subcommand)]
    Lock(lock::LockVerb),
    #[command(subcommand)]
    Queue(Box<queue::QueueVerb>),
    Work(work::WorkArgs),
    #[command(subcommand)]
    Outbox(outbox::OutboxVerb),
    #[command(subcommand)]
    Sale(Box<sale::SaleVerb>),
    #[command(subcommand)]
    Token(serve::TokenVerb),
    Top(tools::TopArgs),
    Bench(tools::BenchArgs),
    #[command(subcommand)]
    Functions(tools::FunctionsVerb),
    Doctor(tools::DoctorArgs),
    Completions(tools::CompletionsArgs),
    Man(tools::ManArgs),
    /// List the options of every command.
    #[command(hide = true)]
    Options,
    /// Kills process groups whose parent has died. Started by `lock run` and `work`.
    #[command(name = "__watchdog", hide = true)]
    Watchdog,
}
