//! `rushgate sale`.

mod audit;
mod carry;
mod draw;
mod look;
mod make;
mod orders;
mod rebuild;
mod reserve;
mod room;
mod stock;

pub(crate) use audit::audit_text;
pub(crate) use look::{standing, units};

use anyhow::Result;

use crate::args::room::DrawVerb;
use crate::args::sale::{SaleVerb, StockVerb};
use crate::exit::Exit;
use crate::globals::Globals;

pub(crate) async fn run(verb: SaleVerb, globals: &Globals) -> Result<Exit> {
    let out = globals.output;
    if let SaleVerb::Draw(DrawVerb::Verify(args)) = verb {
        return draw::verify(&args, out);
    }
    globals
        .with_client(async |client| match verb {
            SaleVerb::Create(args) => make::create(&client, args, globals).await,
            SaleVerb::Open(args) => make::open(&client, args, out).await,
            SaleVerb::Show(args) => look::show(&client, args, out).await,
            SaleVerb::Reserve(args) => reserve::reserve(&client, args, out).await,
            SaleVerb::Confirm(args) => reserve::confirm(&client, args, out).await,
            SaleVerb::Cancel(args) => reserve::cancel(&client, args, out).await,
            SaleVerb::Restore(args) => rebuild::restore(&client, args, out).await,
            SaleVerb::Stock(StockVerb::Add(args)) => stock::add(&client, args, out).await,
            SaleVerb::Stock(StockVerb::Withdraw(args)) => stock::withdraw(&client, args, out).await,
            SaleVerb::Room(verb) => room::run(&client, verb, out).await,
            SaleVerb::Draw(DrawVerb::Verify(args)) => draw::verify(&args, out),
            SaleVerb::End(args) => make::end(&client, args, out).await,
            SaleVerb::Expire(args) => make::expire(&client, args, out).await,
            SaleVerb::Events(args) => look::events(&client, args, out).await,
            SaleVerb::Work(args) => carry::work(&client, args, globals).await,
            SaleVerb::Orders(verb) => orders::run(&client, verb, out).await,
            SaleVerb::Halt(args) => rebuild::halt(&client, args, out).await,
            SaleVerb::Rebuild(args) => rebuild::rebuild(&client, args, globals).await,
            SaleVerb::Audit(args) => audit::audit(&client, args, globals).await,
            SaleVerb::Ls(args) => look::ls(&client, args, out).await,
        })
        .await
}
