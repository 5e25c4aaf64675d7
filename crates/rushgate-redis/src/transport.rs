//! The adapter for the Redis client library. Outside this file, only `fault` knows the library, by its errors.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo,
    Value,
};
use rushgate_core::{Error, Result};
use tokio::time::Instant;

use crate::command::Command;
use crate::fault::{self, Broken};
use crate::reply::{Answered, Refusal, Reply};

/// Connect timeout.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// Response timeout. After it the connection is dropped, and the request may have been executed.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long several servers may all be silent when asked the same question, if an earlier answer is still of use.
pub(crate) const ASK_AGAIN_MAX: Duration = Duration::from_secs(1);
/// The same without an earlier answer: as long as for one server.
pub(crate) const ASK_FIRST_MAX: Duration = ANSWER_MAX;
/// How long to wait for more answers after the first one.
const ASK_MORE: Duration = Duration::from_millis(100);
/// How long the notification connection may be silent before it is pinged.
const SILENCE_MAX: Duration = Duration::from_secs(10);

pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// A server, and how to reach it.
#[derive(Clone)]
pub(crate) struct Server {
    client: Arc<Client>,
    shown: String,
    address: Address,
}

impl Server {
    /// Parses the URL of one server. Returns `None` on failure, because the library's error text may contain the URL
    /// and so the password.
    pub(crate) fn parse(url: &str) -> Option<Self> {
        // Fails if another part of the program has installed a provider, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self::of(url.into_connection_info().ok()?)
    }

    fn of(info: ConnectionInfo) -> Option<Self> {
        let (shown, address) = (shown(&info), address_of(info.addr())?);
        let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        Some(Self { client: Arc::new(Client::open(info).ok()?), shown, address })
    }

    /// Another server with the same user, password, database and encryption.
    pub(crate) fn at(&self, address: &Address) -> Result<Self> {
        let info = self.client.get_connection_info();
        let (host, port) = (address.host.clone(), address.port);
        let addr = match info.addr().clone() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        let server = Self::of(info.clone().set_addr(addr));
        server.ok_or_else(|| Error::unavailable(format_args!("cannot use the address `{address}`")))
    }

    /// The same server with the settings for a sentinel, which has no databases and usually needs no credentials.
    pub(crate) fn sentinel(&self, guarded: bool) -> Option<Self> {
        let info = self.client.get_connection_info().clone();
        let settings = match guarded {
            true => info.redis_settings().clone().set_db(0),
            false => RedisConnectionInfo::default(),
        };
        Self::of(info.set_redis_settings(settings))
    }

    /// The URL without secrets.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// A connection for commands.
    pub(crate) async fn connect(&self) -> Result<Commands> {
        self.connect_within(CONNECT_MAX, ANSWER_MAX).await
    }

    async fn connect_within(&self, connect: Duration, answer: Duration) -> Result<Commands> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(connect))
            .set_response_timeout(Some(answer));
        let connection = self.client.get_multiplexed_async_connection_with_config(&config).await;
        connection.map(Commands).map_err(|error| fault::not_connected(&self.shown, error))
    }

    /// Sends a few commands on a separate connection.
    async fn ask(&self, questions: &[Command], max: Duration) -> Result<Vec<Answered>> {
        let asked = async {
            let conn = self.connect_within(max, max).await?;
            conn.send(questions).await.map_err(|broken| fault::broken(&broken))
        };
        let in_time = tokio::time::timeout(max, asked).await;
        in_time.unwrap_or_else(|_| Err(Error::unavailable(format_args!("`{}` does not respond", self.shown))))
    }

    /// A connection that is subscribed to one channel.
    pub(crate) async fn listen(&self, channel: &str) -> Result<Pushes> {
        let listen = async {
            let mut pushes = self.client.get_async_pubsub().await?;
            pushes.subscribe(channel).await?;
            Ok(pushes)
        };
        let in_time = tokio::time::timeout(CONNECT_MAX, listen).await;
        let connection =
            in_time.unwrap_or_else(|_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()));
        let (sink, stream) = connection.map_err(|error| fault::not_connected(&self.shown, error))?.split();
        Ok(Pushes { sink, stream })
    }
}

/// Asks several servers concurrently. After the first answer, the others have a short time more.
pub(crate) async fn ask_each(
    servers: impl IntoIterator<Item = Server>,
    questions: &[Command],
    max: Duration,
) -> Result<Vec<(Server, Vec<Answered>)>> {
    let ask =
        |server: Server| async move { server.ask(questions, max).await.map(|answers| (server, answers)) };
    let mut asked: FuturesUnordered<_> = servers.into_iter().map(ask).collect();
    let (mut answers, mut until) = (Vec::new(), Instant::now() + max);
    let mut failed = Error::unavailable("no server is available");
    while let Ok(Some(answer)) = tokio::time::timeout_at(until, asked.next()).await {
        match answer {
            Ok(answer) => {
                until = until.min(Instant::now() + ASK_MORE);
                answers.push(answer);
            }
            Err(error) => failed = error,
        }
    }
    if answers.is_empty() { Err(failed) } else { Ok(answers) }
}

fn address_of(addr: &ConnectionAddr) -> Option<Address> {
    match addr {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            Some(Address { host: host.clone(), port: *port })
        }
        ConnectionAddr::Unix(path) => Some(Address { host: path.display().to_string(), port: 0 }),
        _ => None,
    }
}

fn shown(info: &ConnectionInfo) -> String {
    let (scheme, place) = match info.addr() {
        ConnectionAddr::Tcp(host, port) => ("redis", format!("{host}:{port}")),
        ConnectionAddr::TcpTls { host, port, .. } => ("rediss", format!("{host}:{port}")),
        ConnectionAddr::Unix(path) => ("redis+unix", path.display().to_string()),
        _ => ("redis", "?".to_owned()),
    };
    let settings = info.redis_settings();
    let user = settings.username().map_or(String::new(), |user| format!("{user}@"));
    let database = match settings.db() {
        0 => String::new(),
        number => format!("/{number}"),
    };
    format!("{scheme}://{user}{place}{database}")
}

/// A multiplexed connection for commands.
pub(crate) struct Commands(MultiplexedConnection);

impl Commands {
    /// Sends commands together, in order, and returns a reply for each. Sending begins at the first poll.
    pub(crate) async fn send(&self, commands: &[Command]) -> std::result::Result<Vec<Answered>, Broken> {
        let mut pipeline = redis::Pipeline::with_capacity(commands.len());
        for command in commands {
            let mut cmd = redis::Cmd::new();
            for arg in command.args() {
                cmd.arg(arg);
            }
            pipeline.add_command(cmd);
        }
        let answers = self.0.clone().send_packed_commands(&pipeline, 0, commands.len()).await;
        Ok(answers.map_err(Broken::Lost)?.into_iter().map(answered).collect())
    }
}

fn answered(value: Value) -> Answered {
    match value {
        Value::ServerError(error) => {
            let text = error.details().unwrap_or_default().to_owned();
            Err(Refusal { code: error.code().to_owned(), text })
        }
        other => Ok(reply(other)),
    }
}

fn reply(value: Value) -> Reply {
    match value {
        Value::Int(n) => Reply::Int(n),
        Value::BulkString(bytes) => Reply::Bytes(bytes),
        Value::SimpleString(text) => Reply::Status(text),
        Value::Okay => Reply::Status("OK".into()),
        Value::Array(list) | Value::Set(list) => Reply::List(list.into_iter().map(reply).collect()),
        Value::Map(pairs) => {
            Reply::List(pairs.into_iter().flat_map(|(key, value)| [reply(key), reply(value)]).collect())
        }
        _ => Reply::Nil,
    }
}

/// A connection for notifications.
pub(crate) struct Pushes {
    sink: redis::aio::PubSubSink,
    stream: redis::aio::PubSubStream,
}

impl Pushes {
    /// The next message. `None` once the connection has ended or no longer answers.
    pub(crate) async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            match tokio::time::timeout(SILENCE_MAX, self.stream.next()).await {
                Ok(message) => return message.map(|message| message.get_payload_bytes().to_vec()),
                Err(_silent) => {
                    let alive = tokio::time::timeout(ANSWER_MAX, self.sink.ping::<Value>()).await;
                    if !matches!(alive, Ok(Ok(_))) {
                        return None;
                    }
                }
            }
        }
    }

    /// Unsubscribes before the connection is dropped.
    pub(crate) async fn leave(&mut self, channel: &str) {
        // If the server does not answer, closing the connection has the same effect.
        let _ = tokio::time::timeout(ASK_AGAIN_MAX, self.sink.unsubscribe(channel)).await;
    }
}
