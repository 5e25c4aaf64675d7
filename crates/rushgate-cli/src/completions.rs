//! `rushgate completions`, and the names of locks, queues and sales that they offer.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::Result;
use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use rushgate::{Page, Rushgate};

use crate::args::{command, tools::CompletionsArgs};
use crate::config::Config;
use crate::exit::{Exit, Fault};
use crate::globals::must_exist;
use crate::output::Output;

/// The variable by which the script of a shell asks for candidates.
const VARIABLE: &str = "RUSHGATE_COMPLETE";

/// A shell waits for its candidates while somebody types: a store that is slower than this has none.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a positional argument names.
#[derive(Clone, Copy)]
enum Named {
    Lock,
    Queue,
    Sale,
}

/// Prints the script that completes commands in a shell.
pub(crate) fn run(args: &CompletionsArgs, output: Output) -> Result<Exit> {
    let shell = args.shell.to_string();
    let shells = Shells::builtins();
    let completer =
        shells.completer(&shell).ok_or_else(|| Fault::usage(format_args!("no completions for {shell}")))?;
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, "rushgate", "rushgate", "rushgate", &mut script)?;
    output.text(String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

/// Answers a shell that asks for candidates, and ends the process. Returns if none asks.
pub(crate) fn answer_shell() {
    CompleteEnv::with_factory(|| with_names(command(), None)).var(VARIABLE).bin("rushgate").complete();
}

/// The command, whose positional arguments complete to names in the store.
fn with_names(command: Command, named: Option<Named>) -> Command {
    let named = match command.get_name() {
        "lock" => Some(Named::Lock),
        "queue" | "work" => Some(Named::Queue),
        "sale" => Some(Named::Sale),
        _ => named,
    };
    command
        .mut_args(|arg| match named {
            Some(named) if is_name(&arg) => arg.add(ArgValueCandidates::new(move || candidates(named))),
            _ => arg,
        })
        .mut_subcommands(|sub| with_names(sub, named))
}

/// The first positional argument of a command is the name of what it acts on.
fn is_name(arg: &Arg) -> bool {
    arg.is_positional() && matches!(arg.get_id().as_str(), "name" | "queue" | "queues" | "id" | "sale")
}

fn candidates(named: Named) -> Vec<CompletionCandidate> {
    names(named).unwrap_or_default().into_iter().map(CompletionCandidate::new).collect()
}

fn names(named: Named) -> Result<Vec<String>> {
    let url = store_url(std::env::args_os())?;
    must_exist(&url)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let found = runtime.block_on(async { tokio::time::timeout(PATIENCE, read_names(&url, named)).await });
    runtime.shutdown_background();
    found?
}

async fn read_names(url: &str, named: Named) -> Result<Vec<String>> {
    let gate = Rushgate::connect(url).await?;
    let page = Page::default();
    let names = match named {
        Named::Lock => gate.locks(page).await?.iter().map(|lock| lock.name.to_string()).collect(),
        Named::Queue => gate.queues().await?.iter().map(ToString::to_string).collect(),
        Named::Sale => gate.sales(page).await?.iter().map(|sale| sale.spec.id.to_string()).collect(),
    };
    gate.close().await?;
    Ok(names)
}

/// The store of the command that is being typed, by the same rules as if it ran.
fn store_url(words: impl Iterator<Item = OsString>) -> Result<String, Fault> {
    let words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let after = words.iter().skip_while(|word| *word != "--store").nth(1).map(String::as_str);
    let typed = words.iter().find_map(|word| word.strip_prefix("--store=")).or(after);
    if let Some(url) = typed {
        return Ok(url.to_owned());
    }
    if let Ok(url) = std::env::var("RUSHGATE_STORE") {
        return Ok(url);
    }
    Ok(Config::load()?.store.unwrap_or_else(|| Rushgate::DEFAULT_URL.to_owned()))
}
