use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

/// The word in every step that changes or asks something, and in nothing by which a client introduces itself.
const STEP: &[u8] = b"EVALSHA";

/// A way to a server of Redis or Valkey on which the answers to steps can be lost, and their connections with them.
/// What is sent always arrives.
pub struct Wire {
    port: u16,
    weather: Arc<Weather>,
}

#[derive(Default)]
struct Weather {
    loses: AtomicBool,
    lost: AtomicU64,
    is_over: AtomicBool,
}

impl Wire {
    /// A way to the server on that port of 127.0.0.1. Nothing is lost at first.
    pub fn to(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let weather = Arc::new(Weather::default());
        let of_wire = Arc::clone(&weather);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if of_wire.is_over.load(SeqCst) {
                    return;
                }
                // A server that is gone hangs up.
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server)) {
                    forward(client, server, &of_wire);
                }
            }
        });
        Self { port, weather }
    }

    /// Where it begins.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Whether answers to steps are lost from now on.
    pub fn lose_answers(&self, loses: bool) {
        self.weather.loses.store(loses, SeqCst);
    }

    /// How many answers were lost so far.
    pub fn lost(&self) -> u64 {
        self.weather.lost.load(SeqCst)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.weather.is_over.store(true, SeqCst);
        // Whoever waits for the next client looks.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn forward(client: TcpStream, server: TcpStream, weather: &Arc<Weather>) {
    let clone = |stream: &TcpStream| stream.try_clone().expect("a connection has another end");
    let is_doomed = Arc::new(AtomicBool::new(false));
    thread::spawn({
        let (from, to, weather, is_doomed) =
            (clone(&client), clone(&server), Arc::clone(weather), Arc::clone(&is_doomed));
        move || {
            pass(from, to, |bytes| {
                let is_step = bytes.windows(STEP.len()).any(|word| word == STEP);
                if is_step && weather.loses.load(SeqCst) {
                    is_doomed.store(true, SeqCst);
                }
                true
            });
        }
    });
    let weather = Arc::clone(weather);
    thread::spawn(move || {
        pass(server, client, |_| {
            let is_lost = is_doomed.load(SeqCst);
            weather.lost.fetch_add(is_lost.into(), SeqCst);
            !is_lost
        });
    });
}

/// Hands on what comes, as long as it may. Then both ends are told that the other has gone.
fn pass(mut from: TcpStream, mut to: TcpStream, mut may: impl FnMut(&[u8]) -> bool) {
    let mut bytes = vec![0; 65_536];
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        if !may(&bytes[..n]) || to.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    for stream in [from, to] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}
