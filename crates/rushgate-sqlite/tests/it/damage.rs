//! Damaged files and failing disks: the store does not make things worse.

use crate::common;
use std::fs;
use std::process::Command;

use crate::common::{
    Process, claim, fresh, integrity, op, queue, refused, say, store, task, this_program, with_child,
};
use rushgate_core::{Page, Store, Verbs};

#[tokio::test]
async fn after_damage_was_found_nothing_is_written() {
    let (_folder, path) = fresh();
    let before = store(&path);
    for n in 0..50 {
        let tasks = (0..20).map(|m| task(&format!("t{n:02}-{m:02}"), 500)).collect();
        before.enqueue(op(n), &queue("q"), tasks).await.unwrap();
    }
    before.close().await.unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2 / 4_096 * 4_096;
    bytes[middle..middle + 5 * 4_096].fill(0xAB);
    fs::write(&path, &bytes).unwrap();

    let store = store(&path);
    refused(store.claim(op(1_000), &queue("q"), claim(1_000)).await, "corrupt", "is damaged");
    refused(store.enqueue(op(1_001), &queue("other"), vec![task("a", 1)]).await, "corrupt", "is damaged");
    // Readable data is still served.
    assert_eq!(store.queues(Page::default()).await.unwrap(), [queue("q")]);
    store.close().await.unwrap();
    assert!(fs::read(&path).unwrap() == bytes, "the file was changed");
}

#[tokio::test]
async fn a_file_that_was_moved_away_is_not_written_until_it_is_back() {
    let (folder, path) = fresh();
    let (store, elsewhere) = (store(&path), folder.path().join("elsewhere.db"));
    store.enqueue(op(1), &queue("q"), vec![task("a", 1)]).await.unwrap();
    fs::rename(&path, &elsewhere).unwrap();
    let answer = store.enqueue(op(2), &queue("q"), vec![task("b", 1)]).await;
    refused(answer, "misconfigured", "was moved, deleted or replaced");
    // Another process has created a new store: still a different file.
    fs::write(&path, "").unwrap();
    let answer = store.enqueue(op(3), &queue("q"), vec![task("b", 1)]).await;
    refused(answer, "misconfigured", "was moved, deleted or replaced");
    fs::rename(&elsewhere, &path).unwrap();
    store.enqueue(op(4), &queue("q"), vec![task("b", 1)]).await.unwrap();
    assert_eq!(store.stats(&queue("q")).await.unwrap().ready, 2);
}

/// Number of tasks that the child enqueues before the fault.
const BEFORE: u64 = 5;

#[tokio::test]
async fn after_a_failed_sync_the_process_writes_no_more_and_a_restart_is_well() {
    let (_folder, path) = fresh();
    store(&path).close().await.unwrap();
    let mut strace = Command::new("strace");
    // Counted per thread: the writer's first syncs succeed.
    let fault = format!("inject=fsync,fdatasync:error=EIO:when={}+", BEFORE + 3);
    let trace = path.with_extension("trace");
    strace
        .args(["-f", "-o"])
        .arg(&trace)
        .args(["-e", "trace=fsync,fdatasync", "-e", &fault])
        .arg(this_program());
    let said = Process::of(with_child(strace, "damage::child_writes_until_a_sync_fails", &path)).finish();
    let (acknowledged, faults) = said.split_at(said.len() - 2);
    assert!(acknowledged.len() as u64 >= BEFORE, "{said:?}");
    assert_eq!(faults[0], "unavailable, may have happened: true");
    assert_eq!(faults[1], "unavailable, may have happened: false");

    assert_eq!(integrity(&path), "ok");
    let ready = store(&path).stats(&queue("q")).await.unwrap().ready;
    // The unacknowledged one may or may not be there.
    let known = acknowledged.len() as u64;
    assert!(ready == known || ready == known + 1, "{ready} of {known}");
}

#[tokio::test]
#[ignore = "started by another test in a process of its own"]
async fn child_writes_until_a_sync_fails() {
    let Some(path) = common::named_file() else { return };
    let store = store(&path);
    for n in 0..100 {
        match store.enqueue(op(n), &queue("q"), vec![task(&format!("t{n}"), 100)]).await {
            Ok(_) => say(n),
            Err(error) => {
                say(format_args!("{}, may have happened: {}", error.code(), error.may_have_happened()));
                break;
            }
        }
    }
    let error = store.enqueue(op(1_000), &queue("q"), vec![task("late", 1)]).await.unwrap_err();
    say(format_args!("{}, may have happened: {}", error.code(), error.may_have_happened()));
    store.close().await.unwrap();
}

/// Number of concurrent callers, and of bursts. Large groups go through the sync thread.
const CROWD: u64 = 40;
const BURSTS: u64 = 5;

#[tokio::test]
async fn nobody_is_answered_before_the_log_was_synced() {
    let (_folder, path) = fresh();
    store(&path).close().await.unwrap();
    let trace = path.with_extension("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-o"]).arg(&trace);
    strace.args(["-e", "trace=fsync,fdatasync,pwrite64,write"]).arg(this_program());
    let said = Process::of(with_child(strace, "damage::child_writes_in_bursts", &path)).finish();
    assert_eq!(said.len() as u64, BURSTS);

    // Log writes before the start of a sync are on disk when that sync has ended.
    let (mut unsynced, mut syncing) = (false, false);
    let (mut answers, mut log_writes) = (0, 0);
    for line in fs::read_to_string(&trace).unwrap().lines() {
        if line.contains("pwrite64(") && line.contains("-wal>") {
            unsynced = true;
            log_writes += 1;
        } else if line.contains("sync(") && line.contains("-wal>") {
            unsynced = false;
            syncing = line.contains("<unfinished");
        } else if line.contains("sync resumed>") {
            syncing = false;
        } else if line.contains("write(1<") && line.contains("child: burst") {
            assert!(!unsynced && !syncing, "answered before the sync: {line}");
            answers += 1;
        }
    }
    assert_eq!(answers, BURSTS);
    assert!(log_writes > 0, "no commit was traced");
}

#[tokio::test]
#[ignore = "started by another test in a process of its own"]
async fn child_writes_in_bursts() {
    let Some(path) = common::named_file() else { return };
    let store = store(&path);
    for burst in 0..BURSTS {
        let sent: Vec<_> = (0..CROWD)
            .map(|n| {
                let n = burst * CROWD + n;
                store.enqueue(op(n), &queue("q"), vec![task(&format!("t{n}"), 100)])
            })
            .collect();
        for answer in sent {
            answer.await.unwrap();
        }
        say(format_args!("burst {burst}"));
    }
    store.close().await.unwrap();
}

#[tokio::test]
async fn after_a_failed_sync_none_of_a_crowd_is_told_that_it_was_done() {
    let (_folder, path) = fresh();
    store(&path).close().await.unwrap();
    let mut strace = Command::new("strace");
    strace.args(["-f", "-o"]).arg(path.with_extension("trace"));
    strace.args(["-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO"]).arg(this_program());
    let said = Process::of(with_child(strace, "damage::child_writes_as_a_crowd", &path)).finish();
    assert_eq!(said.len() as u64, CROWD + 1);
    for answer in &said[..CROWD as usize] {
        // Calls sent after the fault was known change nothing, and their errors say so.
        assert!(answer.starts_with("unavailable, may have happened: "), "{answer}");
    }
    assert_eq!(said[0], "unavailable, may have happened: true");
    assert_eq!(said[CROWD as usize], "a read was answered");
    assert_eq!(integrity(&path), "ok");
}

#[tokio::test]
#[ignore = "started by another test in a process of its own"]
async fn child_writes_as_a_crowd() {
    let Some(path) = common::named_file() else { return };
    let store = store(&path);
    let enqueue = |n| store.enqueue(op(n), &queue("q"), vec![task(&format!("t{n}"), 100)]);
    let sent: Vec<_> = (0..CROWD).map(enqueue).collect();
    for answer in sent {
        let error = answer.await.unwrap_err();
        say(format_args!("{}, may have happened: {}", error.code(), error.may_have_happened()));
    }
    store.queues(Page::default()).await.unwrap();
    say("a read was answered");
    store.close().await.unwrap();
}
