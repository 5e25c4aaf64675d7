//! Checks the ledger: it must answer, and match the store.

use anyhow::Result;
use rushgate::Ledger;
use rushgate::sale::SaleState;

use super::findings::Findings;
use crate::globals::Globals;

pub(super) async fn look(globals: &Globals, open: &[SaleState], findings: &mut Findings) {
    if globals.orders.is_none() {
        if let Some(sale) = open.iter().find(|sale| sale.spec.ledger) {
            findings.warn(
                format!("sale {} has a ledger, which was not checked", sale.spec.id),
                "pass --orders URL, or set RUSHGATE_ORDERS or `orders` in rushgate.toml",
            );
        }
        return;
    }
    if let Err(error) = compare(globals, open, findings).await {
        let meanwhile = "restore the ledger; until then, reservations continue and orders wait in the store";
        findings.failed("cannot use the ledger", &error, meanwhile);
    }
}

async fn compare(globals: &Globals, open: &[SaleState], findings: &mut Findings) -> Result<()> {
    let ledger = globals.ledger_to_look_at().await?;
    let info = ledger.info();
    findings.ledger = Some(info.url);
    findings.ledger_server = Some(info.server);
    ledger.ping().await?;
    for sale in open.iter().filter(|sale| sale.spec.ledger) {
        look_at_sale(&*ledger, sale, findings).await?;
    }
    Ok(ledger.close().await?)
}

async fn look_at_sale(ledger: &dyn Ledger, sale: &SaleState, findings: &mut Findings) -> Result<()> {
    let id = &sale.spec.id;
    if ledger.find_sale(id).await?.is_some_and(|known| known.is_ahead_of(sale)) {
        findings.warn(
            format!("the store has lost writes of sale {id} that the ledger has"),
            format!("run `rushgate sale rebuild {id}` to rebuild it from the ledger"),
        );
    }
    Ok(())
}
