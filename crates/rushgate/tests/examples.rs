//! The examples on another store: one variable moves each of them from a file to a Cluster.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rushgate_testkit::servers::{ClusterSetup, Kind, Lent};

/// Longer than any of them takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The tests' build has built them beside.
fn folder() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    test.parent().and_then(|deps| deps.parent()).expect("it is in a folder of the build").join("examples")
}

/// Every example but measurements.
fn examples() -> Vec<String> {
    let sources = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples");
    let files = std::fs::read_dir(sources).expect("there are examples").map(|file| file.unwrap().file_name());
    let names = files.filter_map(|name| Some(name.to_str()?.strip_suffix(".rs")?.to_owned()));
    names.filter(|name| !name.ends_with("_speed")).collect()
}

#[test]
fn every_example_runs_on_a_cluster() {
    let examples = examples();
    assert!(examples.len() > 10, "{examples:?}");
    for name in examples {
        // Empty again for each: some use the same names.
        let cluster = Lent::take("facade-cluster", || ClusterSetup::new(Kind::Redis).of(3, 0).start());
        let mut example = Command::new(folder().join(&name))
            .env("RUSHGATE_STORE", cluster.url())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("{name} is not built ({error}): cargo build --workspace --examples")
            });
        let end = Instant::now() + PATIENCE;
        let status = loop {
            match example.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > end => {
                    let _ = example.kill();
                    let _ = example.wait();
                    panic!("{name} did not end");
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        assert!(status.success(), "{name}: {status}");
    }
}
