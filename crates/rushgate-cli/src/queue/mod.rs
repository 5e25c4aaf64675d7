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
    let out = globals.output;
    if let QueueVerb::Cron(CronVerb::Next(args)) = &verb {
        return cron::next(args, out);
    }
    globals
        .with_client(async |client| match verb {
            QueueVerb::Enqueue(args) => enqueue::enqueue(&client, args, out).await,
            QueueVerb::Top(args) => take::top(&client, args, out).await,
            QueueVerb::Pop(args) => take::pop(&client, args, out).await,
            QueueVerb::Claim(args) => take::claim(&client, args, out).await,
            QueueVerb::Complete(args) => answer::complete(&client, args, out).await,
            QueueVerb::Retry(args) => answer::retry(&client, args, out).await,
            QueueVerb::Release(args) => answer::release(&client, args, out).await,
            QueueVerb::Extend(args) => answer::extend(&client, args, out).await,
            QueueVerb::Dequeue(args) => answer::dequeue(&client, args, out).await,
            QueueVerb::Reschedule(args) => answer::reschedule(&client, args, out).await,
            QueueVerb::Cancel(args) => answer::cancel(&client, args, out).await,
            QueueVerb::ClearUnique(args) => answer::clear_unique(&client, args, out).await,
            QueueVerb::CloseBatch(args) => answer::close_batch(&client, args, out).await,
            QueueVerb::Ls(args) => look::ls(&client, args, out).await,
            QueueVerb::Stats(args) => look::stats(&client, args, out).await,
            QueueVerb::Events(args) => events::events(&client, args, out).await,
            QueueVerb::Watch(args) => watch::watch(&client, args, out).await,
            QueueVerb::Export(args) => lines::export(&client, args, out).await,
            QueueVerb::Import(args) => lines::import(&client, args, out).await,
            QueueVerb::Show(args) => look::show(&client, args, out).await,
            QueueVerb::Wait(args) => wait::wait(&client, args, out).await,
            QueueVerb::Why(args) => why::why(&client, args, out).await,
            QueueVerb::Pause(args) => rule::pause(&client, args, true, out).await,
            QueueVerb::Resume(args) => rule::pause(&client, args, false, out).await,
            QueueVerb::Limit(args) => rule::limit(&client, args, out).await,
            QueueVerb::Delete(args) => delete::delete(&client, args, out).await,
            QueueVerb::Dead(DeadVerb::Ls(args)) => dead::ls(&client, args, out).await,
            QueueVerb::Dead(DeadVerb::Requeue(args)) => dead::requeue(&client, args, out).await,
            QueueVerb::Dead(DeadVerb::Delete(args)) => dead::delete(&client, args, out).await,
            QueueVerb::Cron(verb) => cron::run(&client, verb, out).await,
            QueueVerb::Worker(verb) => worker::run(&client, verb, out).await,
        })
        .await
}
