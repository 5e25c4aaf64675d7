//! `rushgate man`: writes man pages.

use std::fs;

use anyhow::Result;
use clap_mangen::Man;
use serde_json::json;

use crate::args::{command, tools::ManArgs};
use crate::exit::{Exit, Fault};
use crate::output::{Output, counted};

/// Writes one page per command.
pub(crate) fn run(args: &ManArgs, output: Output) -> Result<Exit> {
    let dir = args.dir.display();
    let failed = |error| Fault::usage(format_args!("cannot write man pages to {dir}: {error}"));
    let pages = fs::create_dir_all(&args.dir).and_then(|()| write(args)).map_err(failed)?;
    let text = format_args!("{} in {dir}", counted(pages, "page"));
    output.line(&json!({ "dir": args.dir, "pages": pages }), text)
}

fn write(args: &ManArgs) -> std::io::Result<u64> {
    clap_mangen::generate_to(command(), &args.dir)?;
    // The page of `rushgate` alone lists the options of every command.
    Man::new(command().mut_args(|arg| arg.hide(false).hide_env(false)).disable_help_subcommand(true))
        .generate_to(&args.dir)?;
    let ours = |name: &std::ffi::OsStr| {
        name.to_str().is_some_and(|name| name.starts_with("rushgate") && name.ends_with(".1"))
    };
    Ok(fs::read_dir(&args.dir)?.flatten().filter(|file| ours(&file.file_name())).count() as u64)
}
