//! `rushgate functions`: the function library for programs in other languages.

use anyhow::Result;
use rushgate_redis::functions::{self, Functions, Installed, State};
use serde_json::json;

use crate::args::tools::{FunctionsVerb, InstallArgs};
use crate::exit::{Exit, Fault};
use crate::globals::{Globals, is_http};
use crate::output::{Output, Paint};

pub(crate) async fn run(verb: FunctionsVerb, globals: &Globals) -> Result<Exit> {
    let output = globals.output;
    match verb {
        FunctionsVerb::Print => print(output),
        FunctionsVerb::Install(args) => install(&connect(globals).await?, &args, output).await,
        FunctionsVerb::Check => check(&connect(globals).await?, output).await,
    }
}

const STORE_HINT: &str = "pass --store redis://HOST:PORT, or set RUSHGATE_STORE or `store` in rushgate.toml";

/// Connects to a server. A SQLite store has no functions.
async fn connect(globals: &Globals) -> Result<Functions> {
    let url = globals.store_url();
    if is_http(url) {
        return Err(Fault::usage("`functions` requires a store, not a server").hint(STORE_HINT).into());
    }
    if url.starts_with("sqlite:") {
        return Err(Fault::usage("this store has no function library; only Redis and Valkey do")
            .hint(STORE_HINT)
            .into());
    }
    Ok(Functions::connect(url).await?)
}

fn print(output: Output) -> Result<Exit> {
    // `FCALL_RO` may call a function that only reads.
    let functions =
        functions::functions().into_iter().map(|(name, reads)| json!({ "name": name, "reads": reads }));
    let view = json!({
        "version": functions::version(),
        "protocol": functions::protocol(),
        "functions": functions.collect::<Vec<_>>(),
        "code": functions::code(),
    });
    output.data(&view, functions::code())
}

async fn install(server: &Functions, args: &InstallArgs, output: Output) -> Result<Exit> {
    let ours = functions::version();
    let (outcome, was, text) = match server.install(args.force).await? {
        Installed::Unchanged => ("unchanged", None, format!("version {ours} is already installed")),
        Installed::Done { was } => {
            let text = format!("installed version {ours}{}", in_place_of(&was));
            ("installed", Some(was), text)
        }
        Installed::Refused { is } => {
            let message = format!("the server has {}; version {ours} was not installed", what(&is));
            let hint = "run `rushgate functions check` to see what is installed; pass --force to replace it";
            return Err(Fault::refused(is.word(), message).hint(hint).into());
        }
    };
    let was = was.as_ref();
    let view = json!({
        "outcome": outcome,
        "version": ours,
        "was": was.map(State::word),
        "was_version": was.and_then(State::version),
    });
    output.line(&view, text)
}

fn in_place_of(was: &State) -> String {
    if *was == State::Missing { String::new() } else { format!(", replacing {}", what(was)) }
}

async fn check(server: &Functions, output: Output) -> Result<Exit> {
    let state = server.state().await?;
    let same = state == State::Same;
    let view =
        json!({ "state": state.word(), "version": functions::version(), "installed": state.version() });
    let paint = if same { Paint::Good } else { Paint::Notice };
    let text = format!("{}: the server has {}", output.paint(paint, state.word()), what(&state));
    output.line(&view, text)?;
    if !same {
        output.note("run `rushgate functions install` to install this version");
    }
    Ok(Exit::done_if(same))
}

/// State of the library in words.
pub(crate) fn what(state: &State) -> String {
    match state {
        State::Missing => format!("no library named {}", functions::NAME),
        State::Same => format!("version {}, up to date", functions::version()),
        State::OtherBuild => {
            format!("a different build of version {}", functions::version())
        }
        State::Older { version } => {
            format!("version {version}, which is older than {}", functions::version())
        }
        State::Newer { version } => {
            format!("version {version}, which is newer than {}", functions::version())
        }
    }
}
