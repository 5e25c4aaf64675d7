//! The `rushgate` command.

mod exit;
mod globals;
mod rush;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::exit::Exit;
use crate::globals::{Color, Globals};

#[derive(Debug, Parser)]
#[command(name = "rushgate", version, about)]
struct Cli {
    /// The store, such as sqlite:PATH.
    #[arg(long, global = true, env = "RUSHGATE_STORE", value_name = "URL")]
    store: Option<String>,
    /// Data as JSON on stdout, errors as JSON on stderr.
    #[arg(long, global = true)]
    json: bool,
    /// Nothing on stderr but errors.
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// More on stderr.
    #[arg(long, short, global = true)]
    verbose: bool,
    /// When to use colour.
    #[arg(long, global = true, value_enum, default_value_t)]
    color: Color,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Open a sale, send a crowd, and audit.
    Rush(rush::RushArgs),
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let globals = Globals {
        store: cli.store,
        orders: None,
        json: cli.json,
        quiet: cli.quiet,
        verbose: cli.verbose,
        color: cli.color,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let exit: Exit = runtime.block_on(async {
        match cli.verb {
            Verb::Rush(args) => rush::run(args, &globals).await,
        }
    })?;
    Ok(exit.into())
}
