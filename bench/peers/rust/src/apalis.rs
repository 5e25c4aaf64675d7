//! apalis with its Redis storage.

use std::task::Poll;
use std::time::Duration;

use anyhow::{Result, anyhow};
use apalis::prelude::*;
use apalis_redis::{Config, ConnectionManager, RedisStorage};

use crate::record::{Records, now};
use crate::{Content, Settings, together, url};

async fn storage(settings: &Settings) -> Result<RedisStorage<Content>> {
    let config = Config::default().queue("bench").batch_size(settings.get("batch").max(10) as usize);
    let connection = apalis_redis::connect(url()).await?;
    Ok(RedisStorage::<Content, ConnectionManager>::new(connection).with_config(config))
}

pub async fn put(settings: &Settings) -> Result<()> {
    let (mut storage, records) = (storage(settings).await?, Records::new()?);
    let (first, n, bulk) = (settings.get("first"), settings.get("n"), settings.get("bulk"));
    let (callers, gap) = (settings.get("callers").max(1), settings.millis("gap_ms"));
    let numbers = first..first + n;
    if bulk > 0 {
        for start in numbers.step_by(bulk as usize) {
            let numbers = start..(start + bulk).min(first + n);
            let asked = now();
            let tasks = numbers.clone().map(Content::new).collect();
            storage.push_bulk(tasks).await.map_err(|error| anyhow!("{error}"))?;
            records.add([start, asked, now(), numbers.end - numbers.start]);
        }
    } else {
        let start = tokio::time::Instant::now();
        together(callers, |caller| {
            let (mut storage, records, numbers) = (storage.clone(), records.clone(), numbers.clone());
            async move {
                for i in numbers.skip(caller as usize).step_by(callers as usize) {
                    if !gap.is_zero() {
                        tokio::time::sleep_until(start + gap * (i - first) as u32).await;
                    }
                    let asked = now();
                    storage.push(Content::new(i)).await.map_err(|error| anyhow!("{error}"))?;
                    records.add([i, asked, now(), 1]);
                }
                Ok(())
            }
        })
        .await?;
    }
    records.write()
}

async fn handle(task: Content, records: Data<Records>) -> Result<(), BoxDynError> {
    records.add([task.i, now(), 0, 0]);
    Ok(())
}

/// The worker polls every `poll_ms`. The library's own interval stops after some ticks, so this stream
/// replaces it.
fn ticks(every: Duration) -> impl futures::Stream<Item = ()> + Unpin + Send + 'static {
    let mut interval = tokio::time::interval(every);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    futures::stream::poll_fn(move |context| {
        let mut due = false;
        // Poll until pending, so that the interval wakes us again.
        while interval.poll_tick(context).is_ready() {
            due = true;
        }
        if due { Poll::Ready(Some(())) } else { Poll::Pending }
    })
}

/// Works until the process is killed.
pub async fn work(settings: &Settings) -> Result<()> {
    let records = Records::new()?;
    records.keep_writing();
    let backend = storage(settings).await?.poll_with_stream(ticks(settings.millis("poll_ms")));
    let worker = WorkerBuilder::new(format!("worker-{}", std::process::id()).as_str())
        .backend(backend)
        .concurrency(settings.get("concurrency") as usize)
        .parallelize(tokio::spawn)
        .data(records)
        .build(handle);
    worker.run().await.map_err(|error| anyhow!("{error}"))
}
