//! `rushgate lock`.

mod look;
mod run;

use anyhow::Result;
use rushgate::{Released, Token};
use serde_json::json;

use crate::args::lock::{BreakArgs, LockVerb, ReleaseArgs};
use crate::exit::{Exit, Fault};
use crate::globals::Globals;
use crate::output::Output;

use look::HolderView;
pub(crate) use look::who;

pub(crate) async fn run(verb: LockVerb, globals: &Globals) -> Result<Exit> {
    let output = globals.output();
    globals
        .with_gate(async |gate| match verb {
            LockVerb::Run(args) => run::run(&gate, args, output).await,
            LockVerb::Ls(args) => look::ls(&gate, args, output).await,
            LockVerb::Show(args) => look::show(&gate, args, output).await,
            LockVerb::Release(args) => release(&gate, args, output).await,
            LockVerb::Break(args) => break_it(&gate, args, output).await,
        })
        .await
}

async fn release(gate: &rushgate::Rushgate, args: ReleaseArgs, output: Output) -> Result<Exit> {
    let token: Token = args.token.parse()?;
    match gate.lock(&args.name)?.release(token).await? {
        Released::Released => {
            output.line(&json!({ "outcome": "released" }), "released")?;
            Ok(Exit::Done)
        }
        Released::NotHeld => {
            let message = format_args!("the token does not hold `{}`", args.name).to_string();
            Err(Fault::refused("not_held", message).hint("run `rushgate lock show` to see the holder").into())
        }
    }
}

async fn break_it(gate: &rushgate::Rushgate, args: BreakArgs, output: Output) -> Result<Exit> {
    let Some(holder) = gate.force_release(&args.name).await? else {
        return Err(Fault::refused("not_held", format_args!("`{}` is not held", args.name)).into());
    };
    let view = HolderView::from(&holder);
    output.line(
        &json!({ "outcome": "broken", "holder": view }),
        format_args!("force-released: {} lost the lock", who(&holder)),
    )?;
    Ok(Exit::Done)
}
