//! Rushgate, called as an application would.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rushgate::{
    BuyerId, CancellationToken, Enqueued, IdempotencyKey, Job, Line, Reserved, Rushgate, SaleBuilder, Sku,
    Worker,
};

use crate::record::{Records, now};
use crate::{Content, Settings, pause, together, url};

pub async fn lock(settings: &Settings) -> Result<()> {
    let (client, records) = (Rushgate::connect(&url()).await?, Records::new()?);
    let (end, hot) = (settings.end(), settings.get("hot") == 1);
    let (hold, think) = (settings.millis("hold_ms"), settings.millis("think_ms"));
    together(settings.get("callers"), |n| {
        let (client, records) = (client.clone(), records.clone());
        async move {
            for cycle in 0.. {
                if Instant::now() >= end {
                    break;
                }
                let asked = now();
                let outcome = if hot {
                    client.lock("hot")?.wait(Duration::from_secs(60)).acquire().await?
                } else {
                    client.lock(format!("lock:{n}:{cycle}"))?.try_acquire().await?
                };
                let guard = outcome.held().context("the wait was long enough")?;
                let got = now();
                pause(hold).await;
                let leaving = now();
                guard.release().await?;
                records.add(if hot { [n, asked, got, leaving] } else { [n, asked, now(), 0] });
                pause(think).await;
            }
            Ok(())
        }
    })
    .await?;
    client.close().await?;
    records.write()
}

pub async fn put(settings: &Settings) -> Result<()> {
    let (client, records) = (Rushgate::connect(&url()).await?, Records::new()?);
    let queue = client.queue_of::<Content>("bench")?;
    let (first, n, bulk) = (settings.get("first"), settings.get("n"), settings.get("bulk"));
    let (callers, gap) = (settings.get("callers").max(1), settings.millis("gap_ms"));
    let delay = settings.millis("delay_ms");
    let numbers = first..first + n;
    if bulk > 0 {
        for start in numbers.step_by(bulk as usize) {
            let numbers = start..(start + bulk).min(first + n);
            let asked = now();
            let tasks = numbers.clone().map(|i| queue.new_task(format!("task:{i}"), Content::new(i)));
            let answers = queue.enqueue_all(tasks.collect::<rushgate::Result<_>>()?).await?;
            ensure!(answers.iter().all(|answer| matches!(answer, Enqueued::Added { .. })), "all are new");
            records.add([start, asked, now(), numbers.end - numbers.start]);
        }
    } else {
        let start = tokio::time::Instant::now();
        together(callers, |caller| {
            let (queue, records, numbers) = (queue.clone(), records.clone(), numbers.clone());
            async move {
                for i in numbers.skip(caller as usize).step_by(callers as usize) {
                    if !gap.is_zero() {
                        tokio::time::sleep_until(start + gap * (i - first) as u32).await;
                    }
                    let asked = now();
                    let task = queue.enqueue(format!("task:{i}"), Content::new(i));
                    let task = if delay.is_zero() { task } else { task.delay(delay) };
                    task.send().await?;
                    records.add([i, asked + delay.as_nanos() as u64, now(), 1]);
                }
                Ok(())
            }
        })
        .await?;
    }
    client.close().await?;
    records.write()
}

/// Works until the process is killed.
pub async fn work(settings: &Settings) -> Result<()> {
    let (client, records) = (Rushgate::connect(&url()).await?, Records::new()?);
    records.keep_writing();
    let queue = client.queue_of::<Content>("bench")?;
    let handler = move |job: Job<Content>| {
        records.add([job.payload.i, now(), 0, 0]);
        async { Ok::<_, std::io::Error>(()) }
    };
    let worker = Worker::new(&queue).register("*", handler).concurrency(settings.get("concurrency") as u32);
    let worker = worker.prefetch(settings.get("prefetch") as u32);
    worker.run(CancellationToken::new()).await?;
    Ok(())
}

pub async fn sale(settings: &Settings) -> Result<()> {
    let (client, records) = (Rushgate::connect(&url()).await?, Records::new()?);
    let (callers, buyers) = (settings.get("callers"), settings.get("n"));
    client.create_sale(SaleBuilder::new("sale").sku("unit", settings.get("units") as u32, 1)).await?;
    let sale = client.sale("sale")?;
    sale.open().await?;
    let cart: Arc<[Line]> = Arc::new([Line { sku: Sku::new("unit")?, quantity: 1 }]);
    together(callers, |n| {
        let (sale, cart, records) = (sale.clone(), Arc::clone(&cart), records.clone());
        async move {
            for n in (n..buyers).step_by(callers as usize) {
                let asked = now();
                let buyer = BuyerId::new(format!("buyer:{n}"))?;
                let answer = sale.reserve(&buyer, &cart, &IdempotencyKey::new("1")?).await?;
                records.add([n, asked, now(), matches!(answer, Reserved::Reserved(_)).into()]);
            }
            Ok(())
        }
    })
    .await?;
    client.close().await?;
    records.write()
}
