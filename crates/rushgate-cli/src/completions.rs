//! `rushgate completions`.

use anyhow::Result;

use crate::args::{command, tools::CompletionsArgs};
use crate::exit::Exit;
use crate::output::Output;

pub(crate) fn run(args: &CompletionsArgs, output: Output) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "rushgate", &mut script);
    output.text(String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
