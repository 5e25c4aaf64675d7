//! `rushgate rush`: a sale, a crowd, and the audit.

use crate::exit::Exit;
use crate::globals::Globals;

/// Options of `rush`.
#[derive(Debug, clap::Args)]
pub(crate) struct RushArgs {}

pub(crate) async fn run(_: RushArgs, _: &Globals) -> anyhow::Result<Exit> {
    Ok(Exit::Done)
}
