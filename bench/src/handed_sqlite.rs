//! The raw statements for concurrent callers, each of which waits for its answer.
//!
//! A writer executes all calls that wait in one transaction. Another thread syncs the log and answers them, so that
//! the writer executes the next calls meanwhile. Rushgate works like this too. Here, calls have no limits, errors or
//! notifications, and a repeated call is executed again.

use std::fs::File;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::ours::together;
use crate::raw_sqlite::{self, Queue, Sale};

/// Most calls per transaction, as in Rushgate.
const GROUP_MAX: usize = 512;

/// What a caller sends to the writer.
struct Asked<C, A> {
    call: C,
    reply: oneshot::Sender<A>,
}

/// Answers to a transaction, to be sent once it is on the disk.
type Committed<A> = Vec<(oneshot::Sender<A>, A)>;

/// What a transaction does before its calls, for the call of a number, and after the last one.
trait Statements {
    type Call: Send + 'static;
    type Answer: Send + 'static;

    fn begin(&self) -> Result<()>;
    fn run(&self, call: Self::Call, n: u64) -> Result<Self::Answer>;
    fn end(&self, n: u64) -> Result<()>;
}

enum Step {
    Enqueue(String),
    Claim,
    Complete(String, u64),
}

impl Statements for Queue<'_> {
    type Call = Step;
    /// ID and number of the claim; otherwise empty.
    type Answer = (String, u64);

    fn begin(&self) -> Result<()> {
        Ok(())
    }

    fn run(&self, call: Step, n: u64) -> Result<(String, u64)> {
        match call {
            Step::Enqueue(id) => self.enqueue(&id, n)?,
            Step::Claim => return Ok((self.claim(n + 1)?, n + 1)),
            Step::Complete(id, number) => self.complete(&id, number)?,
        }
        Ok((String::new(), 0))
    }

    fn end(&self, n: u64) -> Result<()> {
        self.store(n)
    }
}

impl Statements for Sale<'_> {
    type Call = ();
    type Answer = ();

    fn begin(&self) -> Result<()> {
        self.load()
    }

    fn run(&self, (): (), n: u64) -> Result<()> {
        self.reserve(n)
    }

    fn end(&self, n: u64) -> Result<()> {
        self.store(n)
    }
}

/// The writer, until no caller is left.
fn write<S: Statements>(
    conn: &Connection,
    of: &S,
    calls: &Receiver<Asked<S::Call, S::Answer>>,
    done: &Sender<Committed<S::Answer>>,
) -> Result<()> {
    let mut n = 0;
    while let Ok(first) = calls.recv() {
        let group = std::iter::once(first).chain(calls.try_iter().take(GROUP_MAX - 1));
        let mut answers = Vec::new();
        raw_sqlite::transaction(conn, || {
            of.begin()?;
            for Asked { call, reply } in group {
                answers.push((reply, of.run(call, n)?));
                n += 1;
            }
            of.end(n)
        })?;
        done.send(answers).ok().context("the other thread has stopped")?;
    }
    Ok(())
}

fn sync<A>(log: &File, done: &Receiver<Committed<A>>) -> Result<()> {
    while let Ok(first) = done.recv() {
        let mut together = vec![first];
        together.extend(done.try_iter());
        log.sync_data()?;
        for (reply, answer) in together.into_iter().flatten() {
            // A caller that has stopped is not told.
            let _ = reply.send(answer);
        }
    }
    Ok(())
}

type Serve<C, A> = fn(&Connection, &Receiver<Asked<C, A>>, &Sender<Committed<A>>) -> Result<()>;

/// Runs callers until the time is up, and returns the sum of what they have done per second.
async fn handed<C: Send + 'static, A: Send + 'static, F>(
    path: &Path,
    (callers, length): (u64, Duration),
    serve: Serve<C, A>,
    caller: impl Fn(Client<C, A>, u64, Instant) -> F,
) -> Result<f64>
where
    F: Future<Output = Result<u64>> + Send + 'static,
{
    let conn = raw_sqlite::open(path)?;
    // The other thread syncs.
    conn.pragma_update(None, "synchronous", "NORMAL")?;
    let log = File::open(format!("{}-wal", path.display()))?;
    let ((calls, asked), (done, committed)) = (channel(), channel());
    let syncer = thread::spawn(move || sync(&log, &committed));
    let writer = thread::spawn(move || serve(&conn, &asked, &done));
    let client = Client(calls);
    let rate = together(callers, length, |n, end| caller(client.clone(), n, end)).await?;
    drop(client);
    writer.join().expect("the writer does not panic")?;
    syncer.join().expect("the other thread does not panic")?;
    Ok(rate)
}

struct Client<C, A>(Sender<Asked<C, A>>);

impl<C, A> Clone for Client<C, A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C, A> Client<C, A> {
    async fn ask(&self, call: C) -> Result<A> {
        let (reply, answer) = oneshot::channel();
        self.0.send(Asked { call, reply }).ok().context("the writer has failed")?;
        answer.await.context("the writer has failed")
    }
}

/// Enqueue, claim one, and complete: cycles per second.
pub async fn queue(path: &Path, callers: u64, length: Duration) -> Result<f64> {
    let serve: Serve<_, _> = |conn, asked, done| write(conn, &Queue::create(conn)?, asked, done);
    handed(path, (callers, length), serve, |client, n, end| async move {
        let mut done = 0;
        while Instant::now() < end {
            client.ask(Step::Enqueue(format!("task:{n}:{done}"))).await?;
            let (id, number) = client.ask(Step::Claim).await?;
            client.ask(Step::Complete(id, number)).await?;
            done += 1;
        }
        Ok(done)
    })
    .await
}

/// Reservations of one unit each by new buyers: reservations per second.
pub async fn reserve(path: &Path, callers: u64, length: Duration) -> Result<f64> {
    let serve: Serve<_, _> = |conn, asked, done| write(conn, &Sale::create(conn)?, asked, done);
    handed(path, (callers, length), serve, |client, _, end| async move {
        let mut done = 0;
        while Instant::now() < end {
            client.ask(()).await?;
            done += 1;
        }
        Ok(done)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn every_handed_row_runs() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let length = Duration::from_millis(50);
        assert!(queue(&folder.path().join("queue"), 64, length).await? > 0.0);
        assert!(reserve(&folder.path().join("reserve"), 64, length).await? > 0.0);
        Ok(())
    }
}
