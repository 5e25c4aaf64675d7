//! The client library, hidden behind one trait: nothing outside this file knows it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, Value};
use rushgate_core::{Error, Result};

use crate::command::Command;
use crate::fault;
use crate::reply::Reply;

/// How long a connection may take to come up.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// How long an answer may take. Then the connection is given up, and the step may have happened.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long the push connection may be silent before it is asked whether it is alive.
const SILENCE_MAX: Duration = Duration::from_secs(10);

pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a server said no to: its code word, such as `OOM`, and the rest.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) code: String,
    pub(crate) text: String,
}

/// What one command was answered.
pub(crate) type Answered = std::result::Result<Reply, Refusal>;

/// A connection that ended, was never made, or did not answer in time.
#[derive(Debug)]
pub(crate) struct Broken(pub(crate) redis::RedisError);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A connection for commands.
pub(crate) trait Conn: Send + Sync {
    /// Sends commands together, in order, and gives an answer for each. Sending begins at the first poll.
    fn send<'a>(&'a self, commands: &'a [Command]) -> Boxed<'a, std::result::Result<Vec<Answered>, Broken>>;
}

/// A server, and how to reach it.
#[derive(Clone)]
pub(crate) struct Server {
    client: Client,
    shown: String,
}

impl Server {
    /// Reads the URL. `valkey` is another word for `redis` in it.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let url = match url.split_once("://") {
            Some(("valkey", rest)) => format!("redis://{rest}"),
            Some(("valkeys", rest)) => format!("rediss://{rest}"),
            _ => url.to_owned(),
        };
        let wrong = |why: &str| {
            Error::invalid("the store's URL", why)
                .hint("write redis://[user[:password]@]host[:port][/database], or rediss:// for TLS")
        };
        // The library's own words may repeat the URL, and with it the password.
        let info = url.as_str().into_connection_info().map_err(|_| wrong("cannot be read"))?;
        // Fails if another part of the program has chosen a provider already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let shown = shown(&info);
        let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let client = Client::open(info).map_err(|_| wrong("cannot be used"))?;
        Ok(Self { client, shown })
    }

    /// The URL without secrets.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// A connection for commands.
    pub(crate) async fn connect(&self) -> Result<Commands> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_MAX))
            .set_response_timeout(Some(ANSWER_MAX));
        let connection = self.client.get_multiplexed_async_connection_with_config(&config).await;
        connection.map(Commands).map_err(|error| fault::not_connected(&self.shown, error))
    }

    /// A connection on which the pushes of one channel arrive.
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

/// One multiplexed connection.
pub(crate) struct Commands(MultiplexedConnection);

impl Conn for Commands {
    fn send<'a>(&'a self, commands: &'a [Command]) -> Boxed<'a, std::result::Result<Vec<Answered>, Broken>> {
        let mut pipeline = redis::Pipeline::with_capacity(commands.len());
        for command in commands {
            let mut cmd = redis::Cmd::new();
            for arg in command.args() {
                cmd.arg(arg);
            }
            pipeline.add_command(cmd);
        }
        let mut connection = self.0.clone();
        Box::pin(async move {
            let answers = connection.send_packed_commands(&pipeline, 0, commands.len()).await;
            Ok(answers.map_err(Broken)?.into_iter().map(answered).collect())
        })
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

/// The connection for pushes.
pub(crate) struct Pushes {
    sink: redis::aio::PubSubSink,
    stream: redis::aio::PubSubStream,
}

impl Pushes {
    /// The next push; `None` once the connection has ended, or does not answer any more.
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
}
