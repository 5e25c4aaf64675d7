use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

/// Texts of the requests that are steps: of a Redis or Valkey server, and of a Rushgate server. Requests that open a
/// connection have neither.
const STEPS: [&[u8]; 2] = [b"FCALL", b"POST /v1/store/"];

/// A proxy to a Redis, Valkey or Rushgate server that can drop the answers to steps, and the connections with them. Requests
/// always arrive.
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
    /// Creates a proxy to the server on that port of 127.0.0.1. At first it drops nothing.
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
                // If the server is gone, the client's connection is closed.
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server)) {
                    forward(client, server, &of_wire);
                }
            }
        });
        Self { port, weather }
    }

    /// The port of the proxy.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of the proxy to a Redis or Valkey server.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Sets whether answers to steps are dropped.
    pub fn lose_answers(&self, loses: bool) {
        self.weather.loses.store(loses, SeqCst);
    }

    /// Number of dropped answers.
    pub fn lost(&self) -> u64 {
        self.weather.lost.load(SeqCst)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.weather.is_over.store(true, SeqCst);
        // Wake the thread that waits for the next client.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn forward(client: TcpStream, server: TcpStream, weather: &Arc<Weather>) {
    let clone = |stream: &TcpStream| stream.try_clone().expect("a stream can be cloned");
    let is_doomed = Arc::new(AtomicBool::new(false));
    thread::spawn({
        let (from, to, weather, is_doomed) =
            (clone(&client), clone(&server), Arc::clone(weather), Arc::clone(&is_doomed));
        move || {
            pass(from, to, |bytes| {
                let is_step = STEPS.iter().any(|step| bytes.windows(step.len()).any(|word| word == *step));
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

/// Forwards data while `may` permits, then closes both ends.
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
