//! The [`Store`] of a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use hyper::Method;
use hyper::body::Bytes;
use rushgate_core::{
    Answer, Effect, Error, Notification, Reply, Request, Result, SteppedView, Store, StoreCalls, StoreInfo,
    StoreView, Topic, WIRE_VERSION, Warning,
};
use serde_json::Value;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::Api;
use crate::order::{Order, Position};
use crate::url::Address;

/// How long closing waits for answers.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// The store of a Rushgate server.
///
/// Requests run on a thread of this store, so a call needs no runtime.
pub struct HttpStore {
    api: Arc<Api>,
    order: Order,
    info: StoreInfo,
    handle: Handle,
    steps: TaskTracker,
    end: CancellationToken,
    is_closed: AtomicBool,
    calls: AtomicU64,
}

impl HttpStore {
    /// Opens the store of the server at `http[s]://[TOKEN@]HOST[:PORT][/PATH]`. Without a token in the URL, the
    /// variable `RUSHGATE_TOKEN` may have one.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for an unusable URL or token. [`is_forbidden`](Error::is_forbidden) if the
    /// server refuses the token. [`is_misconfigured`](Error::is_misconfigured) if it speaks another version of the
    /// store API.
    /// [`is_unavailable`](Error::is_unavailable) if it cannot be reached.
    pub async fn open(url: &str) -> Result<Self> {
        let api = Arc::new(Api::new(Address::of(url)?)?);
        let (end, steps) = (CancellationToken::new(), TaskTracker::new());
        let handle = start(end.clone(), steps.clone())?;
        let described = {
            let api = Arc::clone(&api);
            handle.spawn(async move { describe(&api).await })
        };
        let described = described.await.unwrap_or_else(|error| Err(Error::bug(error)));
        let info = described.inspect_err(|_| end.cancel()).map_err(|error| error.doing("open the store"))?;
        Ok(Self {
            api,
            order: Order::default(),
            info,
            handle,
            steps,
            end,
            is_closed: AtomicBool::new(false),
            calls: AtomicU64::new(0),
        })
    }

    fn must_be_open(&self) -> Result<()> {
        match self.is_closed.load(Ordering::SeqCst) {
            true => Err(Error::unavailable("the store is closed")),
            false => Ok(()),
        }
    }
}

/// Starts the thread. It ends when the store is closed or dropped and its requests are answered.
fn start(end: CancellationToken, steps: TaskTracker) -> Result<Handle> {
    let no_thread = |error| Error::unavailable("cannot start a thread for the store").caused_by(error);
    let runtime = Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
    let handle = runtime.handle().clone();
    let run = move || {
        runtime.block_on(async {
            end.cancelled().await;
            steps.close();
            // After that time, the answers are lost.
            let _ = timeout(CLOSE_WITHIN, steps.wait()).await;
        });
    };
    thread::Builder::new().name("rushgate-http".into()).spawn(run).map_err(no_thread)?;
    Ok(handle)
}

async fn describe(api: &Api) -> Result<StoreInfo> {
    let json = api.ask(Method::GET, "/v1/store", Bytes::new(), Effect::Read).await;
    let json = json.map_err(|error| if error.is_not_found() { api.no_store_api() } else { error })?;
    let StoreView { protocol, version, server, durability } =
        serde_json::from_value(json).map_err(|_| api.no_store_api())?;
    if protocol != WIRE_VERSION {
        return Err(Error::misconfigured(format_args!(
            "{} speaks version {protocol} of the store API, and this program version {WIRE_VERSION}",
            api.base()
        ))
        .hint(format_args!("upgrade the older one; the server is Rushgate {version}")));
    }
    let server = format!("{server} behind Rushgate {version}");
    Ok(StoreInfo { url: api.base().to_owned(), server, durability })
}

impl Store for HttpStore {
    fn step(&self, request: Request) -> Answer<'static, Reply> {
        if let Err(error) = self.must_be_open() {
            return Box::pin(async { Err(error) });
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        let (api, position) = (Arc::clone(&self.api), self.order.position(&request));
        let (reply, answer) = oneshot::channel();
        let step = self.steps.track_future(async move {
            // Nobody receives the answer if the caller has dropped its future.
            let _ = reply.send(carry_out(&api, position, request).await);
        });
        self.handle.spawn(step);
        Box::pin(async move {
            let ended = || Error::unavailable("the store was closed before the answer came").maybe_happened();
            answer.await.unwrap_or_else(|_| Err(ended()))
        })
    }

    fn listen(&self, topic: Topic) -> Answer<'static, Option<Notification>> {
        if let Err(error) = self.must_be_open() {
            return Box::pin(async { Err(error) });
        }
        let (api, opening) = (Arc::clone(&self.api), self.order.opening());
        let (tell, told) = oneshot::channel();
        let task = self.handle.spawn(self.end.clone().run_until_cancelled_owned(async move {
            // Nobody waits any more.
            let heard = api.listen(&topic, opening).await;
            let _ = tell.send(heard.map_err(|error| plain(error, topic.doing())));
        }));
        let task = EndsWithItsWaiter(task.abort_handle());
        Box::pin(async move {
            let heard = told.await;
            drop(task);
            heard.unwrap_or_else(|_| Err(Error::unavailable("the store is closed")))
        })
    }

    fn info(&self) -> StoreInfo {
        self.info.clone()
    }

    fn warnings(&self) -> Vec<Warning> {
        let exposed = Warning {
            what: "the API token is sent to another machine without encryption",
            fix: "serve HTTPS (--tls-cert and --tls-key, or a proxy), and use an https:// URL",
        };
        self.api.is_exposed().then_some(exposed).into_iter().collect()
    }

    fn incarnation(&self) -> String {
        self.api.incarnation()
    }

    /// Transactions and statements are those of the server, which counts them for all its clients.
    fn calls(&self) -> StoreCalls {
        StoreCalls { calls: self.calls.load(Ordering::Relaxed), ..StoreCalls::default() }
    }

    fn close(&self) -> Answer<'_, ()> {
        self.is_closed.store(true, Ordering::SeqCst);
        self.end.cancel();
        self.steps.close();
        let ended = self.steps.wait();
        Box::pin(async move {
            // What is not answered by then is lost.
            let _ = timeout(CLOSE_WITHIN, ended).await;
            Ok(())
        })
    }
}

impl Drop for HttpStore {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// A task that ends when this is dropped.
struct EndsWithItsWaiter(AbortHandle);

impl Drop for EndsWithItsWaiter {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Carries out one request. A page may take several requests, because the server limits the size of an answer.
async fn carry_out(api: &Api, mut position: Position, mut request: Request) -> Result<Reply> {
    position.comes().await;
    let name = request.name();
    let mut items = Vec::new();
    loop {
        let SteppedView { answer, next } = step(api, &request).await?;
        let (Some(page), Value::Array(some)) = (request.page_mut(), &answer) else {
            return Reply::from_wire(name, answer);
        };
        page.limit = page.limit.saturating_sub(u32::try_from(some.len()).unwrap_or(u32::MAX));
        let is_last = page.limit == 0;
        let Value::Array(some) = answer else { unreachable!("it was matched before") };
        items.extend(some);
        match next {
            Some(next) if !is_last => page.after = next,
            _ => return Reply::from_wire(name, Value::Array(items)),
        }
    }
}

async fn step(api: &Api, request: &Request) -> Result<SteppedView> {
    let body = Bytes::from(request.to_wire().to_string());
    let path = format!("/v1/store/{}", request.name());
    let json = api.ask(Method::POST, &path, body, request.effect()).await;
    let json = json.map_err(|error| plain(error, request.doing()))?;
    serde_json::from_value(json)
        .map_err(|error| Error::bug("cannot read an answer of the server").caused_by(error))
}

/// The server's message says what was being done, and so will the caller's.
fn plain(error: Error, doing: &str) -> Error {
    let text = error.to_string();
    let is_refusal = error.is_invalid() || error.is_not_found();
    match text.strip_prefix(doing).and_then(|rest| rest.strip_prefix(": ")) {
        Some(why) if is_refusal => {
            let mut plain = Error::reported(error.code(), why);
            if error.may_have_happened() {
                plain = plain.maybe_happened();
            }
            match error.hint_text() {
                Some(hint) => plain.hint(hint),
                None => plain,
            }
        }
        _ => error,
    }
}
