//! `rushgate doctor`: checks configuration, durability and health, and suggests fixes.

mod content;
mod file;
mod findings;
mod ledger;
mod server;
mod write;

use anyhow::Result;
use rushgate::store::{Durability, StoreInfo, Warning};
use rushgate_redis::UNSEEN_SETTINGS;

use crate::args::tools::DoctorArgs;
use crate::exit::Exit;
use crate::globals::{Globals, file_of, is_http};
use crate::output::{Output, Paint, counted};
use findings::{Finding, Findings, bytes};

pub(crate) async fn run(args: DoctorArgs, globals: &Globals) -> Result<Exit> {
    let output = globals.output;
    let file = file_of(globals.store_url());
    globals
        .with_client(async |client| {
            let warnings = client.warnings();
            let mut findings = findings(&client.info(), warnings.contains(&UNSEEN_SETTINGS));
            for Warning { what, fix } in warnings {
                findings.warn(what, fix);
            }
            write::attempt(&client, &mut findings).await;
            let sales = content::look(&client, &mut findings).await;
            ledger::look(globals, &sales, &mut findings).await;
            match file {
                Some(file) => file::look(&file, &mut findings),
                None => server::look_at_functions(globals.store_url(), &mut findings).await,
            }
            server::look(args.serve, &mut findings);
            output.data(&findings, text(&findings, output))?;
            Ok(Exit::done_if(!args.strict || findings.warnings.is_empty()))
        })
        .await
}

fn findings(info: &StoreInfo, has_unseen_settings: bool) -> Findings {
    let mut findings = Findings {
        store: info.url.clone(),
        server: info.server.clone(),
        durability: info.durability.name().to_owned(),
        promise: promise(info.durability),
        ..Findings::default()
    };
    if let Some(fix) = more_durable(info, has_unseen_settings) {
        findings.warn(format!("an acknowledged write survives {}", findings.promise), fix);
    }
    findings
}

/// The setting that makes acknowledged writes survive a power failure. Where `appendfsync` cannot be read, it
/// may already be set; a separate warning covers that.
fn more_durable(info: &StoreInfo, has_unseen_settings: bool) -> Option<&'static str> {
    let is_sqlite = info.url.starts_with("sqlite:");
    match info.durability {
        Durability::D0 | Durability::D1 if is_http(&info.url) => {
            Some("run `rushgate doctor` on the server: it names the setting of its store")
        }
        Durability::D0 if is_sqlite => Some("use a file: --store sqlite:PATH"),
        Durability::D0 => Some("set `appendonly yes`, and `appendfsync always` to survive a power failure"),
        Durability::D1 if is_sqlite => Some("remove `durability=process` from the URL"),
        Durability::D1 if has_unseen_settings => None,
        Durability::D1 => Some("set `appendfsync always`, or `min-replicas-to-write` with replicas"),
        Durability::D2 | Durability::D3 => None,
    }
}

fn promise(durability: Durability) -> &'static str {
    match durability {
        Durability::D0 => "nothing: it is lost if the process or the server stops",
        Durability::D1 => "a process crash, but not a power failure",
        Durability::D2 => "a power failure of this machine",
        Durability::D3 => "the loss of a machine",
    }
}

fn text(findings: &Findings, output: Output) -> String {
    let size = |n: Option<u64>| n.map_or("none".to_owned(), bytes);
    let mut lines = vec![
        ("store", findings.store.clone()),
        ("server", findings.server.clone()),
        (
            "durability",
            format!("{}: an acknowledged write survives {}", findings.durability, findings.promise),
        ),
    ];
    if findings.file.is_some() {
        lines.push(("schema", findings.schema.map_or("up to date".to_owned(), |schema| schema.to_string())));
        lines.push(("file", format!("{}, log {}", size(findings.file_bytes), size(findings.log_bytes))));
        lines.push(("free disk", size(findings.free_bytes)));
    }
    lines.extend([
        (
            "queues",
            format!(
                "{}, {}, {}",
                findings.queues,
                counted(findings.tasks, "task"),
                counted(findings.dead_letters, "dead letter")
            ),
        ),
        ("locks", format!("{} held, {} with waiters", findings.locks_held, findings.locks_waited_for)),
        ("sales", findings.sales.to_string()),
    ]);
    lines.extend(
        findings
            .ledger
            .iter()
            .zip(&findings.ledger_server)
            .map(|(url, server)| ("ledger", format!("{url}, {server}"))),
    );
    lines.extend(findings.functions_in_words.clone().map(|state| ("functions", state)));
    let mut text: String = lines.iter().map(|(name, value)| format!("{name:<11} {value}\n")).collect();
    for Finding { what, fix } in &findings.warnings {
        text += &format!("{}     {what}\n{:<11} {fix}\n", output.paint(Paint::Notice, "warning"), "");
    }
    if findings.warnings.is_empty() {
        text += &format!("{}\n", output.paint(Paint::Good, "no problems found"));
    }
    text
}
