//! `rushgate completions`, with names of locks, queues and sales from the store.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::Result;
use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use rushgate::Rushgate;
use rushgate::store::Page;

use crate::args::{command, tools::CompletionsArgs};
use crate::config::Config;
use crate::exit::{Exit, Fault};
use crate::globals::must_exist;
use crate::output::Output;
use crate::queue::all_queues;

/// Environment variable with which the shell script asks for candidates.
const VARIABLE: &str = "RUSHGATE_COMPLETE";

/// Time limit for reading names, because the user waits while typing. A slower store offers no names.
const RETRY_BUDGET: Duration = Duration::from_secs(1);

/// Kind of name that a positional argument takes.
#[derive(Clone, Copy)]
enum Named {
    Lock,
    Queue,
    Sale,
}

/// Prints the completion script of a shell.
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

/// Answers a shell's request for candidates and exits. Returns if this is not such a request.
pub(crate) fn answer_shell() {
    CompleteEnv::with_factory(|| with_names(command(), None)).var(VARIABLE).bin("rushgate").complete();
}

/// The command, with positional arguments that complete to names in the store.
fn with_names(command: Command, named: Option<Named>) -> Command {
    // The outermost name decides: `sale work` is about a sale.
    let named = named.or(match command.get_name() {
        "lock" => Some(Named::Lock),
        "queue" | "work" => Some(Named::Queue),
        "sale" => Some(Named::Sale),
        _ => None,
    });
    command
        .mut_args(|arg| match named {
            Some(named) if is_name(&arg) => arg.add(ArgValueCandidates::new(move || candidates(named))),
            _ => arg,
        })
        .mut_subcommands(|sub| with_names(sub, named))
}

/// True for the first positional argument of a command, if it names a lock, queue or sale.
fn is_name(arg: &Arg) -> bool {
    arg.is_positional() && matches!(arg.get_id().as_str(), "name" | "queue" | "queues" | "id" | "sale")
}

fn candidates(named: Named) -> Vec<CompletionCandidate> {
    names(named).unwrap_or_default().into_iter().map(CompletionCandidate::new).collect()
}

fn names(named: Named) -> Result<Vec<String>> {
    let url = place(std::env::args_os())?;
    must_exist(&url)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let found = runtime.block_on(async { tokio::time::timeout(RETRY_BUDGET, read_names(&url, named)).await });
    runtime.shutdown_background();
    found?
}

async fn read_names(url: &str, named: Named) -> Result<Vec<String>> {
    let client = Rushgate::connect(url).await?;
    let page = Page::default();
    let names = match named {
        Named::Lock => client.locks(page).await?.iter().map(|lock| lock.name.to_string()).collect(),
        Named::Queue => all_queues(&client).await?.iter().map(ToString::to_string).collect(),
        Named::Sale => client.sales(page).await?.iter().map(|sale| sale.id().to_string()).collect(),
    };
    client.close().await?;
    Ok(names)
}

/// URL of the store or the server of the command being typed, by the same rules as if it ran.
fn place(words: impl Iterator<Item = OsString>) -> Result<String, Fault> {
    let words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let typed = |flag: &str| {
        let after = words.iter().skip_while(|word| *word != flag).nth(1).map(String::as_str);
        words.iter().find_map(|word| word.strip_prefix(flag)?.strip_prefix('=')).or(after).map(str::to_owned)
    };
    if let Some(url) = typed("--store").or_else(|| typed("--url")) {
        return Ok(url);
    }
    let variable = |name: &str| std::env::var(name).ok();
    let (named, url) = (typed("--profile"), variable("RUSHGATE_STORE").or_else(|| variable("RUSHGATE_URL")));
    if let Some(url) = url.filter(|_| named.is_none()) {
        return Ok(url);
    }
    let config = Config::load()?;
    if let Some(name) = named.or_else(|| variable("RUSHGATE_PROFILE")) {
        return config.profile(&name)?.place();
    }
    Ok(config.place()?.unwrap_or_else(|| Rushgate::DEFAULT_URL.to_owned()))
}
