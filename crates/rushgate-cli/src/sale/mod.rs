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
    let out = globals.output();
    if let SaleVerb::Draw(DrawVerb::Verify(args)) = verb {
        return draw::verify(&args, out);
    }
    globals
        .with_gate(async |gate| match verb {
            SaleVerb::Create(args) => make::create(&gate, args, globals).await,
            SaleVerb::Open(args) => make::open(&gate, args, out).await,
            SaleVerb::Show(args) => look::show(&gate, args, out).await,
            SaleVerb::Reserve(args) => reserve::reserve(&gate, args, out).await,
            SaleVerb::Confirm(args) => reserve::confirm(&gate, args, out).await,
            SaleVerb::Cancel(args) => reserve::cancel(&gate, args, out).await,
            SaleVerb::Restore(args) => rebuild::restore(&gate, args, out).await,
            SaleVerb::Stock(StockVerb::Add(args)) => stock::add(&gate, args, out).await,
            SaleVerb::Stock(StockVerb::Withdraw(args)) => stock::withdraw(&gate, args, out).await,
            SaleVerb::Room(verb) => room::run(&gate, verb, out).await,
            SaleVerb::Draw(DrawVerb::Verify(args)) => draw::verify(&args, out),
            SaleVerb::End(args) => make::end(&gate, args, out).await,
            SaleVerb::Expire(args) => make::expire(&gate, args, out).await,
            SaleVerb::Events(args) => look::events(&gate, args, out).await,
            SaleVerb::Work(args) => carry::work(&gate, args, globals).await,
            SaleVerb::Orders(verb) => orders::run(&gate, verb, out).await,
            SaleVerb::Halt(args) => rebuild::halt(&gate, args, out).await,
            SaleVerb::Rebuild(args) => rebuild::rebuild(&gate, args, globals).await,
            SaleVerb::Audit(args) => audit::audit(&gate, args, globals).await,
            SaleVerb::Ls(args) => look::ls(&gate, args, out).await,
        })
        .await
}
