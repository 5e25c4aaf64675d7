//! Runs the examples on other stores: one environment variable selects a file or a Cluster.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rushgate_test::servers::{ClusterSetup, Kind, Lent};

/// Timeout for one example.
const RETRY_BUDGET: Duration = Duration::from_secs(60);

/// Directory of the example binaries, which the test build has compiled.
fn folder() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    test.parent().and_then(|deps| deps.parent()).expect("it is in a folder of the build").join("examples")
}

/// All examples except benchmarks.
fn examples() -> Vec<String> {
    let sources = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples");
    let files = std::fs::read_dir(sources).expect("there are examples").map(|file| file.unwrap().file_name());
    let names = files.filter_map(|name| Some(name.to_str()?.strip_suffix(".rs")?.to_owned()));
    names.filter(|name| !name.ends_with("_speed")).collect()
}

/// Runs an example to its end, with these variables.
fn run(name: &str, variables: &[(&str, &str)]) {
    let mut example = Command::new(folder().join(name))
        .env_remove("RUSHGATE_ORDERS")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{name} is not built ({error}): cargo build --workspace --examples"));
    let end = Instant::now() + RETRY_BUDGET;
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

#[test]
fn every_example_runs_on_a_cluster() {
    let examples = examples();
    assert!(examples.len() > 10, "{examples:?}");
    for name in examples {
        // The Cluster is empty again for each example, because some use the same names.
        let cluster = Lent::take("facade-cluster", || ClusterSetup::new(Kind::Redis).of(3, 0).start());
        run(&name, &[("RUSHGATE_STORE", cluster.url())]);
        assert!(cluster.keys() > 0, "{name} used another store");
    }
}

#[test]
fn every_example_runs_on_the_file_that_is_named() {
    for name in examples() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store.db");
        run(&name, &[("RUSHGATE_STORE", &url(&store))]);
        assert!(store.exists(), "{name} used another store");
    }
}

#[test]
fn the_sale_has_the_ledger_that_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (store, orders) = (dir.path().join("store.db"), dir.path().join("orders.db"));
    run("sale", &[("RUSHGATE_STORE", &url(&store)), ("RUSHGATE_ORDERS", &url(&orders))]);
    let ledger = rusqlite::Connection::open(orders).unwrap();
    let sold: u32 = ledger.query_row("SELECT count(*) FROM orders", (), |row| row.get(0)).unwrap();
    assert_eq!(sold, 10);
}

fn url(file: &Path) -> String {
    format!("sqlite:{}", file.display())
}
