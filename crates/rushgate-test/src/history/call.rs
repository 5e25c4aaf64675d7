use rushgate_core::{
    Followed, Hold, Listing, OrderBatch, QueueName, Reply, Request, Reserved, Result, Schedule, Store, Task,
    TaskPage, Ticket, UnitRange, Verbs, verb,
};

/// An answer as text, for comparison, with the tickets, schedules, hold and orders in it, for later calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) tickets: Vec<Ticket>,
    pub(super) schedules: Vec<Schedule>,
    pub(super) hold: Option<Hold>,
    pub(super) orders: Option<OrderBatch>,
}

/// Sends a request. The same value is sent to the model, to the backend, and again after a lost reply.
pub(super) async fn send(store: &dyn Store, request: &Request) -> Answer {
    let answer = match request {
        Request::Tasks(verb::Tasks { queue, listing }) => {
            all_tasks(store, queue, listing.clone()).await.map(Reply::Tasks)
        }
        other => store.carry_out(other.clone()).await,
    };
    match answer {
        Ok(reply) => Answer::of(reply),
        Err(error) => Answer { text: format!("error: {}", error.code()), ..Answer::default() },
    }
}

/// All tasks of a listing by ID, because each store has its own order and pages.
async fn all_tasks(store: &dyn Store, queue: &QueueName, listing: Listing) -> Result<TaskPage> {
    let mut tasks = listing.read_all(|listing| store.tasks(queue, listing)).await?;
    tasks.sort_by(|a, b| a.task.ticket.id.cmp(&b.task.ticket.id));
    Ok(TaskPage { tasks, next: None })
}

impl Answer {
    fn of(reply: Reply) -> Self {
        let reply = in_order(reply);
        let tickets = |tasks: &[Task]| tasks.iter().map(|task| task.ticket.clone()).collect();
        let answer = Self { text: format!("{reply:?}"), ..Self::default() };
        match reply {
            Reply::Claim(claimed) => Self { tickets: tickets(&claimed.tasks), ..answer },
            Reply::Top(tasks) | Reply::Pop(tasks) => Self { tickets: tickets(&tasks), ..answer },
            Reply::Schedules(schedules) => Self { schedules, ..answer },
            Reply::DueSchedules(found) => Self { schedules: found.due, ..answer },
            Reply::FollowOrders(Followed::Batch(batch)) => Self { orders: Some(batch), ..answer },
            Reply::Reserve(Reserved::Reserved(hold)) => Self { hold: Some(hold), ..answer },
            _ => answer,
        }
    }
}

/// Sorts the rows of a snapshot, which have no order of their own.
fn in_order(reply: Reply) -> Reply {
    let Reply::Snapshot(mut snapshot) = reply else { return reply };
    snapshot.reservations.sort_by_key(|row| row.hold.id);
    snapshot.units.sort_by(|a, b| (&a.sku, a.unit).cmp(&(&b.sku, b.unit)));
    snapshot.buyers.sort();
    snapshot.deadlines.sort();
    for sku in &mut snapshot.skus {
        for ranges in [&mut sku.free, &mut sku.withdrawn] {
            ranges.sort_unstable();
            *ranges = UnitRange::gather(ranges.drain(..));
        }
    }
    Reply::Snapshot(snapshot)
}
