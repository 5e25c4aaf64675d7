//! `rushgate queue`.

mod answer;
mod bulk;
mod cron;
mod dead;
mod delete;
mod enqueue;
mod events;
mod filter;
mod lines;
mod look;
mod rule;
mod shown;
mod take;
mod wait;
mod watch;
mod why;
mod worker;

use anyhow::Result;

pub(crate) use self::look::{all_queues, row};
pub(crate) use self::shown::{printable, rounded};

use crate::args::queue::{CronVerb, DeadVerb, QueueVerb};
use crate::exit::Exit;
use crate::globals::Globals;

pub(crate) async fn run(verb: QueueVerb, globals: &Globals) -> Result<Exit> {
    let out = globals.output();
    if let QueueVerb::Cron(CronVerb::Next(args)) = &verb {
        return cron::next(args, out);
    }
    globals
        .with_gate(async |gate| match verb {
            QueueVerb::Enqueue(args) => enqueue::enqueue(&gate, args, out).await,
            QueueVerb::Top(args) => take::top(&gate, args, out).await,
            QueueVerb::Pop(args) => take::pop(&gate, args, out).await,
            QueueVerb::Claim(args) => take::claim(&gate, args, out).await,
            QueueVerb::Complete(args) => answer::complete(&gate, args, out).await,
            QueueVerb::Retry(args) => answer::retry(&gate, args, out).await,
            QueueVerb::Release(args) => answer::release(&gate, args, out).await,
            QueueVerb::Extend(args) => answer::extend(&gate, args, out).await,
            QueueVerb::Dequeue(args) => answer::dequeue(&gate, args, out).await,
            QueueVerb::Reschedule(args) => answer::reschedule(&gate, args, out).await,
            QueueVerb::Cancel(args) => answer::cancel(&gate, args, out).await,
            QueueVerb::ClearUnique(args) => answer::clear_unique(&gate, args, out).await,
            QueueVerb::CloseBatch(args) => answer::close_batch(&gate, args, out).await,
            QueueVerb::Ls(args) => look::ls(&gate, args, out).await,
            QueueVerb::Stats(args) => look::stats(&gate, args, out).await,
            QueueVerb::Events(args) => events::events(&gate, args, out).await,
            QueueVerb::Watch(args) => watch::watch(&gate, args, out).await,
            QueueVerb::Export(args) => lines::export(&gate, args, out).await,
            QueueVerb::Import(args) => lines::import(&gate, args, out).await,
            QueueVerb::Show(args) => look::show(&gate, args, out).await,
            QueueVerb::Wait(args) => wait::wait(&gate, args, out).await,
            QueueVerb::Why(args) => why::why(&gate, args, out).await,
            QueueVerb::Pause(args) => rule::pause(&gate, args, true, out).await,
            QueueVerb::Resume(args) => rule::pause(&gate, args, false, out).await,
            QueueVerb::Limit(args) => rule::limit(&gate, args, out).await,
            QueueVerb::Delete(args) => delete::delete(&gate, args, out).await,
            QueueVerb::Dead(DeadVerb::Ls(args)) => dead::ls(&gate, args, out).await,
            QueueVerb::Dead(DeadVerb::Requeue(args)) => dead::requeue(&gate, args, out).await,
            QueueVerb::Dead(DeadVerb::Delete(args)) => dead::delete(&gate, args, out).await,
            QueueVerb::Cron(verb) => cron::run(&gate, verb, out).await,
            QueueVerb::Worker(verb) => worker::run(&gate, verb, out).await,
        })
        .await
}
