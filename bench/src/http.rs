//! Rushgate over HTTP compared with the bare HTTP library, which answers the same requests with a constant of
//! the same length. In both cases server and clients share this process.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rushgate::{BuyerId, CancellationToken, IdempotencyKey, Line, Reserved, Rushgate, SaleBuilder, Sku};
use rushgate_server::{ServeReport, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::{JoinHandle, JoinSet};

use crate::table::{LENGTH, Table};

/// Each connection sends its next request as soon as it has the answer.
const CONNECTIONS: usize = 64;
/// A sold-out sale and an open one with more units than requests, with their expected status codes.
const SOLD_OUT: (&str, u16) = ("gone", 409);
const OPEN: (&str, u16) = ("open", 202);
const UNITS: u32 = 10_000_000;

pub fn measure(table: &Table, runtime: &Runtime) -> Result<()> {
    table.head(&format!(
        "HTTP, {CONNECTIONS} connections, a store in a file; raw: hyper answers a constant of the same length"
    ));
    let buyers = Arc::new(AtomicU64::new(0));
    for (name, (sale, status), synced) in [
        ("HTTP: sold-out answers/s", SOLD_OUT, true),
        ("HTTP: reservations/s", OPEN, true),
        ("HTTP: reservations/s, the disk not waited for", OPEN, false),
    ] {
        if !table.wants(name) {
            continue;
        }
        let folder = tempfile::tempdir_in(".")?;
        let durability = if synced { "" } else { "?durability=process" };
        let url = format!("sqlite:{}{durability}", folder.path().join("store.db").display());
        let site = runtime.block_on(Site::open(&url))?;
        let answer = runtime.block_on(first_answer(site.address, sale, &buyers))?;
        ensure!(answer.status == status, "{}", String::from_utf8_lossy(&answer.body));
        let constant = runtime.block_on(constant(answer))?;
        let rate = |address| runtime.block_on(rate(address, sale, status, &buyers, LENGTH));
        table.row(name, || rate(site.address), || rate(constant))?;
        runtime.block_on(site.close())?;
    }
    Ok(())
}

/// A server with both sales.
struct Site {
    client: Rushgate,
    address: SocketAddr,
    shutdown: CancellationToken,
    serving: JoinHandle<ServeReport>,
}

impl Site {
    async fn open(url: &str) -> Result<Self> {
        let client = Rushgate::connect(url).await?;
        for (sale, units) in [(SOLD_OUT.0, 1), (OPEN.0, UNITS)] {
            client.create_sale(SaleBuilder::new(sale).sku("unit", units, 1)).await?;
            client.sale(sale)?.open().await?;
        }
        let (gone, cart) = (client.sale(SOLD_OUT.0)?, [Line { sku: Sku::new("unit")?, quantity: 1 }]);
        let reserved = gone.reserve(&BuyerId::new("first")?, &cart, &IdempotencyKey::new("k")?).await?;
        let Reserved::Reserved(hold) = reserved else { anyhow::bail!("there is one: {reserved:?}") };
        gone.confirm(hold.id).await?;
        let bound = Server::new(client.clone()).bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let (address, shutdown) = (bound.address(), CancellationToken::new());
        let serving = tokio::spawn(bound.run(shutdown.clone()));
        Ok(Self { client, address, shutdown, serving })
    }

    async fn close(self) -> Result<()> {
        self.shutdown.cancel();
        self.serving.await?;
        Ok(self.client.close().await?)
    }
}

fn request(sale: &str, buyer: u64) -> Vec<u8> {
    let body = format!(r#"{{"buyer":"b{buyer}","lines":[{{"sku":"unit"}}]}}"#);
    let length = body.len();
    format!(
        "POST /v1/sales/{sale}/reservations HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         idempotency-key: k\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// First answer of the server.
async fn first_answer(address: SocketAddr, sale: &str, buyers: &AtomicU64) -> Result<Answer> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(&request(sale, buyers.fetch_add(1, Ordering::Relaxed))).await?;
    let mut buffer = Vec::new();
    let status = read_answer(&mut stream, &mut buffer).await?;
    let at = buffer.windows(4).position(|part| part == b"\r\n\r\n").context("an answer has a head")?;
    Ok(Answer { status, body: Bytes::copy_from_slice(&buffer[at + 4..]) })
}

#[derive(Clone)]
struct Answer {
    status: u16,
    body: Bytes,
}

/// Reads one complete answer, and returns its status code.
async fn read_answer(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<u16> {
    buffer.clear();
    loop {
        ensure!(stream.read_buf(buffer).await? > 0, "the connection is there");
        let Some(at) = buffer.windows(4).position(|part| part == b"\r\n\r\n") else { continue };
        let head = std::str::from_utf8(&buffer[..at])?.to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        let length: usize = length.context("an answer says how long it is")?.parse()?;
        let status = head.split(' ').nth(1).context("an answer has a status")?.parse()?;
        while buffer.len() < at + 4 + length {
            ensure!(stream.read_buf(buffer).await? > 0, "the connection is there");
        }
        return Ok(status);
    }
}

/// hyper alone, which sends this answer to every request.
async fn constant(answer: Answer) -> Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            let answer = answer.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let Answer { status, body } = answer.clone();
                async move {
                    let _ = request.into_body().collect().await;
                    let mut response = Response::new(Full::new(body));
                    *response.status_mut() = status.try_into().unwrap_or_default();
                    Ok::<_, Infallible>(response)
                }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    Ok(address)
}

/// Answers per second, all with this status code.
async fn rate(
    address: SocketAddr,
    sale: &'static str,
    status: u16,
    buyers: &Arc<AtomicU64>,
    length: Duration,
) -> Result<f64> {
    let (mut callers, began) = (JoinSet::new(), Instant::now());
    for _ in 0..CONNECTIONS {
        let buyers = Arc::clone(buyers);
        callers.spawn(async move {
            let mut stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let (mut buffer, mut answered) = (Vec::with_capacity(4_096), 0_u64);
            while began.elapsed() < length {
                let buyer = buyers.fetch_add(1, Ordering::Relaxed);
                stream.write_all(&request(sale, buyer)).await?;
                let said = read_answer(&mut stream, &mut buffer).await?;
                ensure!(said == status, "{said}: {}", String::from_utf8_lossy(&buffer));
                answered += 1;
            }
            Ok(answered)
        });
    }
    let mut answered = 0;
    while let Some(caller) = callers.join_next().await {
        answered += caller??;
    }
    Ok(answered as f64 / began.elapsed().as_secs_f64())
}
