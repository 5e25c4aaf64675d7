//! Cost of an idle store. Runs in a separate process, because it counts the process's threads.

use std::fs;
use std::time::Duration;

use crate::common::{fresh, queue, store};
use rushgate_core::Verbs;

/// How often each watcher thread of this process has gone to sleep.
fn naps_of_the_watcher() -> Vec<String> {
    let threads = fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().path());
    let watchers = threads.filter(|thread| {
        // The system truncates a thread's name to 15 bytes.
        fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim() == "rushgate-watche")
    });
    let naps =
        |status: String| status.lines().find(|line| line.starts_with("voluntary_ctxt")).map(str::to_owned);
    watchers.filter_map(|thread| naps(fs::read_to_string(thread.join("status")).ok()?)).collect()
}

#[tokio::test]
async fn a_store_on_which_nobody_listens_polls_for_nothing() {
    let (_folder, path) = fresh();
    let store = store(&path);
    // There was a listener, and it is gone.
    drop(store.ready(&queue("q")));
    let pause = Duration::from_millis(300);
    tokio::time::sleep(pause).await;
    let before = naps_of_the_watcher();
    assert_eq!(before.len(), 1);
    tokio::time::sleep(pause).await;
    assert_eq!(naps_of_the_watcher(), before);
}
