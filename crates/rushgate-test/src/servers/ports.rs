use std::fs::{File, create_dir_all};
use std::net::TcpListener;
use std::ops::RangeInclusive;
use std::sync::Mutex;

/// Outside the range from which the system takes the ports of clients: a server that is restarted would find its port
/// taken by a connection.
const PORTS: RangeInclusive<u16> = 10_000..=29_999;

/// A port of 127.0.0.1 on which nothing listens, for a server that starts later. No other test process gets it while
/// this one runs.
pub fn free_port() -> u16 {
    /// The locked files of this process's ports. The system unlocks them when the process ends.
    static OURS: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let folder = std::env::temp_dir().join("rushgate-ports");
    create_dir_all(&folder).expect("a scratch folder can be made");
    loop {
        let port = rand::random_range(PORTS);
        let file = File::create(folder.join(port.to_string())).expect("the folder takes files");
        if file.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            OURS.lock().expect("nothing panics with it").push(file);
            return port;
        }
    }
}
