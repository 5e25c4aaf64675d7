//! The memory use of a waiting task, as the server reports it.

use crate::common;
use rushgate_core::{ClientId, ContentType, NewTask, Op, Payload, QueueName, TaskId, Verbs};
use rushgate_test::servers::{Kind, RedisServer, RedisSetup};

const TASKS: usize = 100_000;
const BYTES_MAX: usize = 250;

fn used_memory(server: &RedisServer) -> usize {
    let script = "return tonumber(string.match(redis.call('INFO', 'memory'), 'used_memory:(%d+)'))";
    let answer = server.command(&["EVAL", script, "0"]);
    answer.strip_prefix(':').and_then(|number| number.parse().ok()).expect("the server says how much it uses")
}

#[expect(clippy::print_stdout, reason = "the documentation states the figure")]
async fn a_task_is_light(kind: Kind) {
    let server = RedisSetup::new(kind).start();
    let store = common::open(&server).await;
    let queue = QueueName::new("q").unwrap();
    let task = |number: usize| {
        let payload = Payload::new(ContentType::json(), vec![b'x'; 100]).unwrap();
        NewTask::new(TaskId::new(format!("task:{number:017}")).unwrap(), payload)
    };
    let before = used_memory(&server);
    for batch in 0..TASKS / 1_000 {
        let tasks = (0..1_000).map(|at| task(1_000 * batch + at)).collect();
        store.enqueue(Op::new(ClientId::from_u64(1), batch as u64), &queue, tasks).await.unwrap();
    }
    let each = (used_memory(&server) - before) / TASKS;
    println!("a waiting task of 100 bytes takes {each} bytes");
    assert!(each <= BYTES_MAX, "a task with 100 bytes and an id of 22 weighs {each} bytes");
}

#[tokio::test]
async fn a_waiting_task_of_100_bytes_weighs_at_most_250_on_redis() {
    a_task_is_light(Kind::Redis).await;
}

#[tokio::test]
async fn a_waiting_task_of_100_bytes_weighs_at_most_250_on_valkey() {
    a_task_is_light(Kind::Valkey).await;
}
