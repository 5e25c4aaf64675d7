//! `rushgate lock`.

mod look;
mod run;

use anyhow::Result;
use rushgate::lock::{Released, Token};
use serde_json::json;

use crate::args::lock::{LockVerb, OfLock, ReleaseArgs};
use crate::exit::{Exit, Fault};
use crate::globals::Globals;
use crate::output::Output;

pub(crate) use look::{HEAD, row, who};

pub(crate) async fn run(verb: LockVerb, globals: &Globals) -> Result<Exit> {
    let output = globals.output;
    globals
        .with_client(async |client| match verb {
            LockVerb::Run(args) => run::run(&client, args, output).await,
            LockVerb::Ls(args) => look::ls(&client, args, output).await,
            LockVerb::Show(args) => look::show(&client, args, output).await,
            LockVerb::Release(args) => release(&client, args, output).await,
            LockVerb::ForceRelease(args) => force_release(&client, args, output).await,
        })
        .await
}

async fn release(client: &rushgate::Rushgate, args: ReleaseArgs, output: Output) -> Result<Exit> {
    let token: Token = args.token.parse()?;
    match client.lock(&args.name)?.release(token).await? {
        released @ Released::Released => output.line(&released, "released"),
        Released::NotHeld => {
            let message = format_args!("the token does not hold `{}`", args.name).to_string();
            Err(Fault::refused("not_held", message).hint("run `rushgate lock show` to see the holder").into())
        }
    }
}

async fn force_release(client: &rushgate::Rushgate, args: OfLock, output: Output) -> Result<Exit> {
    let Some(holder) = client.force_release(&args.name).await? else {
        return Err(Fault::refused("not_held", format_args!("`{}` is not held", args.name)).into());
    };
    let text = format!("force-released: {} lost the lock", who(&holder));
    output.line(&json!({ "holder": holder }), text)
}
