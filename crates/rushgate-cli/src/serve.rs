//! `rushgate serve`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rushgate::sale::{SaleId, SaleStatus};
use rushgate::{Ledger, Rushgate, SaleBuilder};
use rushgate_server::{Server, TokenFile};
use serde_json::json;

use crate::check::{self, PostCheck};
use crate::exit::{Exit, Fault};
use crate::files;
use crate::globals::{Globals, is_http};
use crate::log;
use crate::output::Output;
use crate::settings::{REFERENCE, Settings};
use crate::signals::Signals;

/// ID, SKU and number of units of the demo sale.
const DEMO: (&str, &str, u32) = ("demo", "phone", 5_000);
/// Hold time of the demo: short enough to watch holds expire.
const DEMO_HOLD: Duration = Duration::from_secs(10);

/// Prints the reference configuration.
pub(crate) fn print_config(output: Output) -> Result<Exit> {
    output.line(&json!({ "config": REFERENCE }), REFERENCE.trim_end())
}

pub(crate) async fn run(args: Settings, globals: &Globals) -> Result<Exit> {
    if is_http(globals.store_url()) {
        return Err(Fault::usage("`serve` requires a store, not another server")
            .hint("pass --store sqlite:PATH or --store redis://HOST:PORT")
            .into());
    }
    let telemetry = log::start(globals.output)?;
    raise_limit(&args, globals.output);
    // The data of a demo without a configured store is deleted at the end.
    let (globals, _folder) = match args.demo {
        true => globals.or_temporary("rushgate-demo-", false)?,
        false => (globals.clone(), None),
    };
    let served = globals.with_client(async |client| serve(client, args, &globals).await).await;
    telemetry.end().await;
    served
}

/// Raises the limit of open files. Each connection needs one; the store and the ledger need some too.
fn raise_limit(args: &Settings, output: Output) {
    const OTHERS: u64 = 100;
    let wanted = u64::from(args.connections.get()) + OTHERS;
    if let Some(limit) = files::raise_limit().filter(|limit| *limit < wanted) {
        output.detail(format_args!(
            "the limit of open files is {limit}, and {} connections need {wanted}: further connections wait",
            args.connections
        ));
    }
}

/// Creates and opens a demo sale, and returns its ID: the first of `demo`, `demo-2` and so on that has not
/// ended.
async fn open_demo(client: &Rushgate, has_ledger: bool) -> Result<SaleId> {
    let (name, sku, units) = DEMO;
    for number in 1.. {
        let name = if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
        let mut sale = SaleBuilder::new(&name).sku(sku, units, 1).hold(DEMO_HOLD);
        if has_ledger {
            sale = sale.ledger();
        }
        client.create_sale(sale).await?;
        let sale = client.sale(&name)?;
        if sale.open().await? == SaleStatus::Open {
            return Ok(sale.id().clone());
        }
    }
    unreachable!("names do not end")
}

async fn serve(client: Rushgate, args: Settings, globals: &Globals) -> Result<Exit> {
    let ledger = match globals.orders {
        Some(_) => Some(globals.ledger_when_it_can().await?),
        None => None,
    };
    let served = listen(client, args, ledger.clone(), globals.output).await;
    if let Some(ledger) = ledger {
        ledger.close().await?;
    }
    served
}

async fn listen(
    client: Rushgate,
    args: Settings,
    ledger: Option<Arc<dyn Ledger>>,
    output: Output,
) -> Result<Exit> {
    let (shutdown, second_signal) = Signals::listen().context("cannot listen for signals")?.cancels();
    let has_ledger = ledger.is_some();
    let bound = server(client.clone(), &args, ledger, output)?.bind(args.listen).await.map_err(misused)?;
    let demo = match args.demo {
        true => Some(open_demo(&client, has_ledger).await?),
        false => None,
    };
    let (url, info) = (args.url(bound.address()), client.info());
    let durability = info.durability.name();
    let said = json!({ "url": url, "store": info.url, "durability": durability, "sale": demo });
    output.line(&said, &url)?;
    if let Some(sale) = demo {
        output.remark(format_args!(
            "watch the sale at {url}, buy at {url}/shop/{sale}, or simulate buyers:\n  \
             rushgate rush --url {url} --join {sale} --buyers 100000"
        ));
    }
    if args.insecure && !args.listen.ip().is_loopback() {
        output.warn("every client that can reach this address is an operator");
    }
    tokio::select! {
        report = bound.run(shutdown) => Ok(Exit::done_if(report.is_orderly)),
        _ = second_signal => Ok(Exit::Refused),
    }
}

/// The store is already open, so a misconfiguration concerns the server: its address, files or options.
fn misused(error: rushgate::Error) -> anyhow::Error {
    if !error.is_misconfigured() {
        return error.into();
    }
    let fault = Fault::usage(&error);
    match error.hint_text() {
        Some(hint) => fault.hint(hint).into(),
        None => fault.into(),
    }
}

fn server(
    client: Rushgate,
    args: &Settings,
    ledger: Option<Arc<dyn Ledger>>,
    output: Output,
) -> Result<Server> {
    if let Some(path) = args.tokens.as_ref().filter(|path| !path.exists()) {
        output.warn(format_args!(
            "token file `{0}` does not exist, so every request is refused; create a token: rushgate token create NAME \
             --role ROLE --tokens {0}",
            path.display()
        ));
    }
    let check = match &args.check_url {
        Some(url) => Some(PostCheck::new(url, args.check_secret_file.as_deref())?),
        None => None,
    };
    if check.as_ref().is_some_and(|check| !check.is_signed()) {
        output.note(format_args!(
            "note: bot-check requests are not signed; set {} or --check-secret-file",
            check::SECRET
        ));
    }
    Ok(Server {
        ledger,
        tokens: args.tokens.as_ref().map(TokenFile::at),
        tls: args.tls_cert.clone().zip(args.tls_key.clone()),
        audit_log: args.audit_log.clone(),
        insecure: args.insecure,
        hosts: args.hosts.clone(),
        origins: args.origins.clone(),
        limit_buyer: args.limit_buyer,
        limit_address: args.limit_address,
        proxies: args.proxies.clone(),
        check: check.map(|check| (Arc::new(check) as _, args.check_rules())),
        check_page: args.check_page.clone(),
        longest_wait: args.longest_wait,
        arrival: args.arrival,
        grace: args.grace,
        connections: usize::try_from(args.connections.get()).unwrap_or(usize::MAX),
        ..Server::new(client)
    })
}
