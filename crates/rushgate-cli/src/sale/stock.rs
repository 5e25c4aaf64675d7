//! Adds and withdraws units.

use anyhow::Result;
use rushgate::sale::StockChanged;
use rushgate::{Error, Rushgate, Sku};

use super::look::stock;
use crate::args::sale::StockArgs;
use crate::exit::{Exit, Fault};
use crate::output::Output;

pub(super) async fn add(client: &Rushgate, args: StockArgs, output: Output) -> Result<Exit> {
    let changed = client.sale(&args.id)?.add_stock(&Sku::new(&args.sku)?, args.n).await?;
    show(&args, changed, output)
}

pub(super) async fn withdraw(client: &Rushgate, args: StockArgs, output: Output) -> Result<Exit> {
    let changed = client.sale(&args.id)?.withdraw_stock(&Sku::new(&args.sku)?, args.n).await?;
    show(&args, changed, output)
}

fn show(args: &StockArgs, changed: StockChanged, output: Output) -> Result<Exit> {
    match changed {
        StockChanged::Changed(sku) => output.data(&sku, stock(std::slice::from_ref(&sku))),
        StockChanged::KeyReused => {
            let message = "the operation token was used for another change; nothing was changed".to_owned();
            Err(Fault::refused("key_reused", message).into())
        }
        StockChanged::Halted => {
            let message = format!("sale `{}` is halted until it is rebuilt; nothing was changed", args.id);
            Err(Fault::refused("halted", message).into())
        }
        StockChanged::TooLarge { most } => {
            let message = format!(
                "the change of `{}` is too large: at most {most} units are possible now; nothing was changed. A SKU \
                 has at most 10,000,000 units, and one change withdraws at most 20,000 released units",
                args.sku
            );
            Err(Fault::refused("change_too_large", message).into())
        }
        StockChanged::NotEnough { free } => {
            let message =
                format_args!("only {free} of `{}` are free; nothing was withdrawn", args.sku).to_string();
            Err(Fault::refused("not_enough", message).into())
        }
        other => Err(Error::bug(format_args!("no text for the outcome {other:?}")).into()),
    }
}
