//! The `rushgate` command.

mod args;
mod bench;
mod check;
mod completions;
mod config;
mod doctor;
mod duration;
mod exit;
mod files;
mod functions;
mod globals;
mod group;
mod lock;
mod log;
mod man;
mod moments;
mod otel;
mod outbox;
mod output;
mod queue;
mod ready;
#[cfg(test)]
mod reference;
mod rush;
mod sale;
mod serve;
mod settings;
mod signals;
mod signed;
mod spans;
mod token;
mod top;
mod watchdog;
mod work;

use std::process::ExitCode;

use anyhow::Result;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches};
use rushgate::store::Effect;
use rushgate::store::verb::{self, Verb as _};

use crate::args::{Cli, Shared, Verb};
use crate::config::Config;
use crate::exit::{Exit, Fault};
use crate::globals::{Globals, must_exist};
use crate::output::{Color, Output, OutputArgs};
use crate::settings::ServeOptions;

/// One thread makes a server's many small allocations and another frees them. The system's allocator makes
/// the threads wait for each other; mimalloc answers 25 % more requests per second on two cores.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Commands that look at the store, with the effect of the verb that each sends. A command that only reads must not
/// create the file of a mistyped path.
const LOOKS: &[(&str, Effect)] = &[
    // Its test write leaves nothing behind.
    ("doctor", Effect::Read),
    ("top", verb::Stats::EFFECT),
    ("lock ls", verb::List::EFFECT),
    ("lock show", verb::Show::EFFECT),
    ("queue top", verb::Top::EFFECT),
    ("queue ls", verb::Tasks::EFFECT),
    ("queue stats", verb::Stats::EFFECT),
    ("queue show", verb::Task::EFFECT),
    ("queue wait", verb::Task::EFFECT),
    ("queue why", verb::Task::EFFECT),
    ("queue watch", verb::Stats::EFFECT),
    ("queue events", verb::TaskEvents::EFFECT),
    ("queue export", verb::Tasks::EFFECT),
    ("queue dead ls", verb::Dead::EFFECT),
    ("queue cron ls", verb::Schedules::EFFECT),
    ("queue worker ls", verb::Workers::EFFECT),
    ("sale show", verb::Sale::EFFECT),
    ("sale events", verb::Events::EFFECT),
    ("sale audit", verb::Snapshot::EFFECT),
    ("sale ls", verb::Sales::EFFECT),
    ("sale room show", verb::Room::EFFECT),
    ("sale orders ls", verb::FailedOrders::EFFECT),
];

/// Other commands whose output may be cut short, because it is not the only record of a change.
const SHOWS: &[&str] = &[
    "rush", "serve", "bench", "queue cron next", "outbox stats", "outbox ls", "token ls", "functions print",
    "functions check",
];

fn main() -> ExitCode {
    completions::answer_shell();
    let (cli, command) = match parse() {
        Ok(parsed) => parsed,
        Err(exit) => return exit.into(),
    };
    let only_reads = LOOKS.contains(&(&*command, Effect::Read));
    let only_shows = only_reads || SHOWS.contains(&&*command);
    let output = Output { only_shows, ..Output::new(&cli.shared.output) };
    let exit = carry_out(cli, only_reads, output).unwrap_or_else(|error| output.error(&error));
    exit.into()
}

/// Parses the command line. Also returns the words of the command, such as `queue dead ls`.
fn parse() -> Result<(Cli, String), Exit> {
    let parsed = args::command().try_get_matches().and_then(|matches| {
        let mut cli = Cli::from_arg_matches(&matches)?;
        let is_flag = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
        cli.shared.settle(is_flag).map_err(|why| args::command().error(ErrorKind::ArgumentConflict, why))?;
        Ok((cli, words(&matches)))
    });
    parsed.map_err(with_tip).map_err(|error| {
        if error.use_stderr() && std::env::args_os().any(|arg| arg == "--json") {
            return json_output().error(&usage(&error).into());
        }
        // A closed pipe is not a fault for help.
        let _ = error.print();
        if error.use_stderr() { Exit::Usage } else { Exit::Done }
    })
}

fn words(mut matches: &ArgMatches) -> String {
    let mut words = Vec::new();
    while let Some((word, below)) = matches.subcommand() {
        words.push(word);
        matches = below;
    }
    words.join(" ")
}

/// JSON as an argument of a command that enqueues is most often the payload, which has its own option.
fn with_tip(mut error: clap::Error) -> clap::Error {
    let is_json = matches!(error.get(ContextKind::InvalidArg),
        Some(ContextValue::String(arg)) if arg.starts_with(['{', '[']));
    let enqueues = matches!(error.get(ContextKind::Usage), Some(ContextValue::StyledStr(usage))
        if ["queue enqueue", "queue cron add"].iter().any(|verb| usage.to_string().contains(verb)));
    if error.kind() == ErrorKind::UnknownArgument && is_json && enqueues {
        let tip = "pass the payload with --payload".to_owned();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

fn json_output() -> Output {
    Output::new(&OutputArgs { json: true, color: Color::Never, ..OutputArgs::default() })
}

fn usage(error: &clap::Error) -> Fault {
    let text = error.render().to_string();
    // Drop the usage and the reference to --help, which are for a terminal.
    let message = text.split("\n\nUsage:").next().unwrap_or_default();
    let message = message.split("\n\nFor more information").next().unwrap_or_default().trim();
    Fault::usage(message.strip_prefix("error: ").unwrap_or(message)).hint("see --help")
}

/// Options from the command line. The file is applied later, for the commands that use it.
fn globals(shared: Shared, output: Output) -> Result<Globals, Fault> {
    let Shared { store, url, orders, profile, .. } = shared;
    let store = globals::place(store, url, ["--store (RUSHGATE_STORE)", "--url (RUSHGATE_URL)"])?;
    Ok(Globals { store, orders, profile, output })
}

fn carry_out(cli: Cli, only_reads: bool, output: Output) -> Result<Exit> {
    match cli.verb {
        Verb::Completions(args) => completions::run(&args, output),
        Verb::Man(args) => man::run(&args, output),
        Verb::Options => options(output),
        Verb::Serve(args) if args.print_config => serve::print_config(output),
        mut verb => {
            let globals = globals(cli.shared, output)?;
            let uses_file = needs_file(&verb) || globals.profile.is_some();
            let config = if uses_file { Config::load()? } else { Config::default() };
            let globals = with_file(globals, &mut verb, config)?;
            if only_reads {
                must_exist(globals.store_url())?;
            }
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            let exit = runtime.block_on(dispatch(verb, &globals));
            // A pending read of stdin must not delay the exit.
            runtime.shutdown_background();
            exit
        }
    }
}

/// Prints the page of `rushgate help options`.
fn options(output: Output) -> Result<Exit> {
    let mut command = args::command();
    let page = command.find_subcommand_mut("options").map(|sub| sub.render_help().to_string());
    output.text(page.unwrap_or_default())?;
    Ok(Exit::Done)
}

/// A benchmark must not use the store of the working directory's configuration file. Nor must `token`, which would write
/// to that server in place of `tokens.json`.
fn needs_file(verb: &Verb) -> bool {
    !matches!(verb, Verb::Bench(_) | Verb::Token(_) | Verb::Watchdog)
}

fn with_file(mut globals: Globals, verb: &mut Verb, config: Config) -> Result<Globals, Fault> {
    if let Some(name) = &globals.profile {
        // The ledger of another store does not go with it.
        let profile = config.profile(name)?;
        globals.store = Some(profile.place()?);
        globals.orders = globals.orders.or(profile.orders);
    } else {
        if globals.store.is_none() {
            globals.store = config.place()?;
        }
        globals.orders = globals.orders.or(config.orders);
    }
    match verb {
        Verb::Serve(args) => args.options = std::mem::take(&mut args.options).or(config.serve),
        Verb::Doctor(args) => args.serve = ServeOptions::of_environment().or(config.serve),
        _ => {}
    }
    Ok(globals)
}

async fn dispatch(verb: Verb, globals: &Globals) -> Result<Exit> {
    match verb {
        Verb::Rush(args) => rush::run(args, globals).await,
        Verb::Serve(args) if args.check => ready::check(&args.options.settle()?, globals.output).await,
        Verb::Serve(args) => serve::run(args.options.settle()?, globals).await,
        Verb::Token(verb) => token::run(verb, globals).await,
        Verb::Lock(verb) => lock::run(verb, globals).await,
        Verb::Queue(verb) => queue::run(*verb, globals).await,
        Verb::Work(args) => work::run(args, globals).await,
        Verb::Outbox(verb) => outbox::run(verb, globals).await,
        Verb::Sale(verb) => sale::run(*verb, globals).await,
        Verb::Top(args) => top::run(args, globals).await,
        Verb::Bench(args) => bench::run(args, globals).await,
        Verb::Functions(verb) => functions::run(verb, globals).await,
        Verb::Doctor(args) => doctor::run(args, globals).await,
        Verb::Completions(_) | Verb::Man(_) | Verb::Options => unreachable!("they need no store"),
        Verb::Watchdog => watchdog::run().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_name_commands() {
        let command = args::command();
        for name in LOOKS.iter().map(|(name, _)| name).chain(SHOWS) {
            let found = name.split(' ').try_fold(&command, |command, word| command.find_subcommand(word));
            assert!(found.is_some_and(|command| !command.has_subcommands()), "{name}");
        }
    }
}
