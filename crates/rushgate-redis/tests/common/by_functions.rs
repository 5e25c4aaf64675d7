//! A relay that replaces scripts by functions: it changes `EVALSHA sha` to `FCALL name` between store and server, and
//! passes everything else on.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use rushgate_redis::functions::{self, Functions};
use rushgate_testkit::ManualClock;
use rushgate_testkit::servers::{Kind, Lent, RedisSetup};

use super::RedisHarness;

pub async fn redis() -> Arc<RedisHarness> {
    relayed(Kind::Redis).await.0
}

pub async fn valkey() -> Arc<RedisHarness> {
    relayed(Kind::Valkey).await.0
}

/// The harness of a server, and the port of that server behind the relay.
pub async fn relayed(kind: Kind) -> (Arc<RedisHarness>, u16) {
    let clock = ManualClock::default();
    let start = || RedisSetup::new(kind).on(clock.clone()).start();
    let server = Lent::take(&format!("functions-{kind:?}"), start);
    let library = Functions::connect(server.url()).await.expect("the server answers");
    library.install(false).await.expect("the library is taken");
    let (_, port) = server.url().rsplit_once(':').expect("a URL ends with the port");
    let port = port.parse().expect("a port is a number");
    let url = format!("redis://127.0.0.1:{}", relay(port));
    (super::harness(clock, server, &url).await, port)
}

/// Starts a relay to a port and returns the relay's port. It ends with the test process.
fn relay(to: u16) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let names: HashMap<_, _> = functions::scripts().into_iter().collect();
    let names = Arc::new(names);
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { continue };
            client.set_nodelay(true).expect("a socket has options");
            server.set_nodelay(true).expect("a socket has options");
            let (back_from, back_to) = (server.try_clone(), client.try_clone());
            thread::spawn(move || {
                let (mut from, mut to) = (back_from.expect("a socket"), back_to.expect("a socket"));
                let _ = io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            });
            let names = Arc::clone(&names);
            thread::spawn(move || {
                let _ = forward(BufReader::new(client), &server, &names);
                let _ = server.shutdown(Shutdown::Both);
            });
        }
    });
    port
}

/// Relays requests until the client disconnects.
fn forward(
    mut client: BufReader<TcpStream>,
    mut server: &TcpStream,
    names: &HashMap<&str, String>,
) -> io::Result<()> {
    loop {
        let mut words = request(&mut client)?;
        // Operations for order workers have no function.
        let for_orders = words.iter().any(|word| word.ends_with(b"}:m:orders"));
        if words.first().is_some_and(|word| word == b"EVALSHA") && !for_orders {
            let sha = String::from_utf8(words[1].clone()).expect("a hash is text");
            words[0] = b"FCALL".to_vec();
            words[1] = names.get(sha.as_str()).expect("every script is a function").clone().into_bytes();
        }
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend(format!("${}\r\n", word.len()).into_bytes());
            bytes.extend(word);
            bytes.extend(b"\r\n");
        }
        server.write_all(&bytes)?;
    }
}

fn request(client: &mut BufReader<TcpStream>) -> io::Result<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    for _ in 0..number(client)? {
        let mut word = vec![0; number(client)? + 2];
        client.read_exact(&mut word)?;
        word.truncate(word.len() - 2);
        words.push(word);
    }
    Ok(words)
}

/// The number in a line such as `$12`.
fn number(client: &mut BufReader<TcpStream>) -> io::Result<usize> {
    let mut line = String::new();
    client.read_line(&mut line)?;
    let digits = line.trim_end().get(1..).and_then(|digits| digits.parse().ok());
    digits.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}
