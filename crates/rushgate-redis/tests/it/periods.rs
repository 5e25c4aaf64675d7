//! The cost of uniqueness windows: no commands if they are not used, and memory only for recent ones.

use crate::common;
use std::time::Duration;

use rushgate_core::{ClientId, Enqueued, NewTask, Op, Payload, QueueName, TaskId, UniqueCleared, Verbs};
use rushgate_redis::RedisStore;
use rushgate_test::servers::{Kind, RedisServer, RedisSetup};

fn number(server: &RedisServer, command: &[&str]) -> i64 {
    let answer = server.command(command);
    answer.strip_prefix(':').and_then(|number| number.parse().ok()).expect("the server answers a number")
}

/// How often a command was executed.
fn calls(server: &RedisServer, command: &str) -> i64 {
    let script = "local stats = redis.call('INFO', 'commandstats')
        return tonumber(string.match(stats, 'cmdstat_' .. ARGV[1] .. ':calls=(%d+)') or 0)";
    number(server, &["EVAL", script, "0", command])
}

/// Enqueues tasks and returns how many were added.
async fn put(store: &RedisStore, op: u64, ids: std::ops::Range<u32>, period: Option<Duration>) -> usize {
    let task = |number: u32| NewTask {
        unique_for: period,
        ..NewTask::new(TaskId::new(format!("t{number}")).unwrap(), Payload::empty())
    };
    let (queue, op) = (QueueName::new("q").unwrap(), Op::new(ClientId::from_u64(1), op));
    let answers = store.enqueue(op, &queue, ids.map(task).collect()).await.unwrap();
    answers.iter().filter(|answer| matches!(answer, Enqueued::Added { .. })).count()
}

#[tokio::test]
async fn who_asks_for_no_uniqueness_pays_for_none() {
    let server = RedisSetup::new(Kind::Redis).start();
    let store = common::open(&server).await;
    assert_eq!(put(&store, 1, 0..100, None).await, 100);
    for command in ["zmscore", "zscore", "zremrangebyrank"] {
        assert_eq!(calls(&server, command), 0, "{command}");
    }
    assert_eq!(calls(&server, "zcount"), 1, "of the leases that ended");
    assert_eq!(put(&store, 2, 100..200, Some(Duration::from_secs(60))).await, 100);
    assert_eq!(calls(&server, "zmscore"), 0, "there is nothing to look for yet");
    assert_eq!(put(&store, 3, 150..250, None).await, 50);
    assert_eq!((calls(&server, "zmscore"), calls(&server, "zcount")), (1, 3 + 1), "one look for all");
}

#[tokio::test]
async fn a_set_that_was_empty_in_between_ends_like_the_first() {
    let server = RedisSetup::new(Kind::Redis).start();
    let store = common::open(&server).await;
    assert_eq!(put(&store, 1, 0..1, Some(Duration::from_secs(86_400))).await, 1);
    let (queue, op) = (QueueName::new("q").unwrap(), Op::new(ClientId::from_u64(1), 2));
    assert!(matches!(
        store.clear_unique(op, &queue, &TaskId::new("t0").unwrap()).await,
        Ok(UniqueCleared::Cleared { .. })
    ));
    assert_eq!(put(&store, 3, 1..2, Some(Duration::from_secs(1))).await, 1);
    assert!(number(&server, &["PTTL", "rg:{q:q}:unique"]) > 0);
}

#[tokio::test]
async fn periods_that_are_over_leave_nothing_behind() {
    let server = RedisSetup::new(Kind::Valkey).start();
    let store = common::open(&server).await;
    for turn in 0..20 {
        let ids = 500 * turn..500 * (turn + 1);
        assert_eq!(put(&store, turn.into(), ids, Some(Duration::from_millis(1))).await, 500);
        let kept = number(&server, &["ZCARD", "rg:{q:q}:unique"]);
        assert!((1..=1_500).contains(&kept), "{kept} after {turn}");
    }
    let left_ms = number(&server, &["PTTL", "rg:{q:q}:unique"]);
    assert!((1..=3_600_100).contains(&left_ms), "{left_ms}");
}
