//! Dead letters.

use anyhow::Result;
use rushgate::queue::Selection;
use rushgate::store::Page;
use rushgate::{Rushgate, TaskId};
use serde_json::json;

use super::bulk::{self, Dead};
use super::shown::dead;
use crate::args::queue::{PageArgs, Which};
use crate::exit::Exit;
use crate::output::Output;

pub(super) async fn ls(client: &Rushgate, args: PageArgs, output: Output) -> Result<Exit> {
    let letters = client.queue(&args.queue)?.dead(Page::after(args.after, args.n)).await?;
    let none = format_args!("no dead letters in `{}`", args.queue);
    output.page_end(&letters, args.n, |letter| &letter.id, none);
    output.data(&letters, dead(&letters))
}

pub(super) async fn requeue(client: &Rushgate, which: Which, output: Output) -> Result<Exit> {
    if which.is_filtered() {
        return bulk::dead(client, Dead::Requeue, &which, output).await;
    }
    let requeued = client.queue(&which.queue)?.requeue_dead(selection(&which)?).await?;
    let kept = match requeued.kept {
        0 => String::new(),
        kept => format!(", kept {kept} whose ID is live or for which the queue is full"),
    };
    output.line(&requeued, format_args!("requeued {}{kept}", requeued.requeued))?;
    Ok(exit(&which, requeued.requeued))
}

pub(super) async fn delete(client: &Rushgate, which: Which, output: Output) -> Result<Exit> {
    if which.is_filtered() {
        return bulk::dead(client, Dead::Delete, &which, output).await;
    }
    let deleted = client.queue(&which.queue)?.delete_dead(selection(&which)?).await?;
    output.line(&json!({ "deleted": deleted }), format_args!("deleted {deleted}"))?;
    Ok(exit(&which, deleted))
}

impl Which {
    /// True if each dead letter must be read first.
    fn is_filtered(&self) -> bool {
        self.filter.is_set() || self.dry_run
    }
}

fn selection(which: &Which) -> Result<Selection> {
    if which.all {
        return Ok(Selection::All);
    }
    let ids = which.ids.iter().map(TaskId::new).collect::<rushgate::Result<_>>()?;
    Ok(Selection::Ids(ids))
}

/// Selecting all succeeds even if there are none; selecting IDs fails if none exists.
fn exit(which: &Which, n: u64) -> Exit {
    Exit::done_if(which.all || n > 0)
}
