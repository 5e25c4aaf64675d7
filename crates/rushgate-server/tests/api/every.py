"""Calls every operation of the description through the package that openapi-python-client makes of it, on a server without data.

Fails if an answer has a status that its operation does not document, or if an operation was not called. Usage:
`every.py URL TOKEN`.
"""

import re
import sys
from typing import Any, TypeVar

import httpx
from rushgate_client import AuthenticatedClient
from rushgate_client.api.locks import acquire, extend_lock, force_release, list_locks, release, release_with, show_lock
from rushgate_client.api.queues import (
    announce, cancel, claim, clear_unique, close_batch, complete, dead, delete_dead, dependents, dequeue, end_worker, enqueue,
    enqueue_all, extend_tasks, find_schedule, limit, pause, pause_schedule, pop, queue_events, queue_history, queues,
    release_tasks, requeue_dead, reschedule, resume, resume_schedule, retry, run_schedule, schedule, schedules, set_worker,
    stats, task, tasks, top, unschedule, waited, waits, why, workers,
)
from rushgate_client.api.sales import (
    audit, cancel_hold, close_entry, close_room, confirm, create, draw, end, enter, failed_orders, halt_sale, join, metadata,
    open_, rebuild, reservation, reserve, restore, retry_orders, room, sale, sale_events, sale_history, sales, set_room, stock,
)
from rushgate_client.api.server import (
    audit_log, create_key, create_token, events, healthz, listen, metrics, openapi, readyz, revoke_token, step, store, tokens,
)
from rushgate_client import models as m
from rushgate_client.types import Response

URL, TOKEN = sys.argv[1:]
DESCRIPTION = httpx.get(f"{URL}/openapi.json").json()
OPERATIONS: dict[str, dict[str, Any]] = {
    operation["operationId"]: {**operation, "method": method.upper(), "path": path}
    for path, item in DESCRIPTION["paths"].items()
    for method, operation in item.items()
}

called: set[str] = set()
succeeded: set[str] = set()
faults: list[str] = []


def described(request: httpx.Request) -> str | None:
    """The operation of a request. A path without a parameter precedes one with it."""
    for name, operation in sorted(OPERATIONS.items(), key=lambda pair: str(pair[1]["path"]).count("{")):
        pattern = re.sub(r"\{\w+\}", "[^/]+", operation["path"])
        if request.method == operation["method"] and re.fullmatch(pattern, request.url.raw_path.decode().split("?")[0]):
            return name
    return None


def check(response: httpx.Response) -> None:
    """Compares the status with those that the operation documents."""
    name = described(response.request)
    if name is None:
        faults.append(f"{response.request.method} {response.request.url} is not described")
    elif str(response.status_code) not in OPERATIONS[name]["responses"]:
        faults.append(f"{name} answers {response.status_code}: {response.read().decode()}")
    elif response.is_success:
        succeeded.update({name} - called)
    elif response.status_code >= 500:
        faults.append(f"{name} answers {response.status_code}: {response.read().decode()}")
    else:
        response.read()
        print(f"{name}: {response.status_code} {response.json()['code']}")
    called.update({name} if name else ())


api = AuthenticatedClient(
    base_url=URL,
    token=TOKEN,
    timeout=httpx.Timeout(20),
    raise_on_unexpected_status=True,
    httpx_args={"event_hooks": {"response": [check]}},
)
T = TypeVar("T")


def had(answer: Response[Any], kind: type[T]) -> T:
    """What an operation answered, which must be of the type."""
    if not isinstance(answer.parsed, kind):
        raise TypeError(f"{kind.__name__} expected, not {answer.status_code} {answer.content.decode()}")
    return answer.parsed


def stream(request: dict[str, Any]) -> None:
    """Opens a stream of events and closes it. The generator reads an answer to its end, and these do not end."""
    with api.get_httpx_client().stream(**request) as response:
        if response.headers["content-type"] != "text/event-stream":
            faults.append(f"{request['url']} is not a stream: call its `sync_detailed`")


def the_server() -> None:
    healthz.sync_detailed(client=api)
    readyz.sync_detailed(client=api)
    metrics.sync_detailed(client=api)
    openapi.sync_detailed(client=api)
    audit_log.sync_detailed(client=api)
    stream(events._get_kwargs())
    store.sync_detailed(client=api)
    stream(listen._get_kwargs(body=m.ListenBody.from_dict({"Ready": "mail"})))
    step.sync_detailed("stats", client=api, body=m.StepBody.from_dict({"queue": "mail"}))
    tokens.sync_detailed(client=api)
    made = had(create_token.sync_detailed(client=api, body=m.TokenBody("a buyer", m.Role.BUYER, buyer="ann")), m.CreatedView)
    revoke_token.sync_detailed(made.id, client=api)
    create_key.sync_detailed(client=api, body=m.KeyBody("a shop"))


def the_locks() -> None:
    lock = "order:42"

    def token() -> str:
        return had(acquire.sync_detailed(lock, client=api, body=m.AcquireBody(lease_ms=60_000)), m.GrantView).token

    held = token()
    extend_lock.sync_detailed(lock, client=api, body=m.ExtendBody(token=held, lease_ms=60_000))
    list_locks.sync_detailed(client=api)
    show_lock.sync_detailed(lock, client=api)
    release.sync_detailed(lock, client=api, body=m.ReleaseBody(held))
    after = m.ReleaseWithBody(queue="mail", task=m.TaskSpec("after-the-lock"), token=token())
    release_with.sync_detailed(lock, client=api, body=after)
    token()
    force_release.sync_detailed(lock, client=api)


def the_queues() -> None:
    queue = "mail"

    def ticket() -> str:
        return had(claim.sync_detailed(queue, client=api, body=m.ClaimBody(n=1)), m.TasksView).tasks[0].ticket

    limit.sync_detailed(queue, client=api, body=m.QueueLimits(events=100, retention=m.Retention(age_ms=60_000, count=10)))
    pop.sync_detailed(queue, client=api, body=m.Many(n=10))
    enqueue.sync_detailed(queue, client=api, body=m.TaskSpec("a", payload={"to": "ann"}, unique_for_ms=60_000))
    batch = [m.TaskSpec("b"), m.TaskSpec("c"), m.TaskSpec("after-a", after=["a"]), m.TaskSpec("whole", held_open=True)]
    enqueue_all.sync_detailed(queue, client=api, body=m.BatchBody(batch))
    queues.sync_detailed(client=api)
    stats.sync_detailed(queue, client=api)
    tasks.sync_detailed(queue, client=api, state=m.TaskState.READY, limit=2)
    top.sync_detailed(queue, client=api, n=1)
    task.sync_detailed(queue, "a", client=api)
    why.sync_detailed(queue, "after-a", client=api)
    waits.sync_detailed(queue, "after-a", client=api)
    dependents.sync_detailed(queue, "a", client=api)
    close_batch.sync_detailed(queue, "whole", client=api)
    reschedule.sync_detailed(queue, "c", client=api, body=m.RescheduleBody(delay_ms=60_000))
    cancel.sync_detailed(queue, "whole", client=api)
    first = ticket()
    extend_tasks.sync_detailed(queue, client=api, body=m.ExtendTasksBody(ticket=first))
    complete.sync_detailed(queue, client=api, body=m.CompleteBody(ticket=first, result={"sent": True}))
    waited.sync_detailed(queue, "after-a", client=api)
    clear_unique.sync_detailed(queue, "a", client=api)
    release_tasks.sync_detailed(queue, client=api, body=m.ReleaseTasksBody(ticket=ticket()))
    retry.sync_detailed(queue, client=api, body=m.RetryBody(ticket=ticket(), error="connection refused", give_up=True))
    dead.sync_detailed(queue, client=api)
    requeue_dead.sync_detailed(queue, client=api, body=m.SelectionBody(all_=True))
    delete_dead.sync_detailed(queue, client=api, body=m.SelectionBody(all_=True))
    first_due = had(top.sync_detailed(queue, client=api, n=1), m.TasksView).tasks[0]
    dequeue.sync_detailed(queue, client=api, body=m.DequeueBody(first_due.ticket))
    pause.sync_detailed(queue, client=api)
    resume.sync_detailed(queue, client=api)
    queue_history.sync_detailed(queue, client=api)
    stream(queue_events._get_kwargs(queue))


def the_workers_and_schedules() -> None:
    queue, worker, nightly = "mail", "w1", "nightly"
    announce.sync_detailed(queue, worker, client=api, body=m.AnnounceBody(name="mailer", version="shop 1.2", concurrency=4))
    workers.sync_detailed(queue, client=api)
    set_worker.sync_detailed(queue, worker, client=api, body=m.ModeView(m.WorkerMode.QUIET))
    end_worker.sync_detailed(queue, worker, client=api)
    schedule.sync_detailed(queue, nightly, client=api, body=m.ScheduleBody(cron="30 3 * * *", missed=m.Missed.ONCE))
    schedules.sync_detailed(queue, client=api)
    find_schedule.sync_detailed(queue, nightly, client=api)
    run_schedule.sync_detailed(queue, nightly, client=api)
    pause_schedule.sync_detailed(queue, nightly, client=api)
    resume_schedule.sync_detailed(queue, nightly, client=api)
    unschedule.sync_detailed(queue, nightly, client=api)


def the_sales() -> None:
    phones = "phones"
    create.sync_detailed(client=api, body=m.SaleBody(id=phones, skus=[m.SkuSpec(sku="phone", units=10, per_buyer=5)]))
    open_.sync_detailed(phones, client=api)
    sales.sync_detailed(client=api)
    sale.sync_detailed(phones, client=api)
    metadata.sync_detailed(phones, client=api)

    def hold(click: str) -> m.HoldView:
        body = m.ReserveBody(buyer="ann", lines=[m.Line(sku="phone", quantity=1)])
        return had(reserve.sync_detailed(phones, client=api, body=body, idempotency_key=click), m.HoldView)

    paid, dropped = hold("click-1"), hold("click-2")
    reservation.sync_detailed(phones, paid.id, client=api)
    confirm.sync_detailed(phones, paid.id, client=api)
    cancel_hold.sync_detailed(phones, dropped.id, client=api)
    restore.sync_detailed(phones, client=api, body=m.RestoreBody(paid.receipt or ""))
    stock.sync_detailed(phones, client=api, body=m.StockBody(sku="phone", add=5), idempotency_key="more")
    failed_orders.sync_detailed(phones, client=api)
    retry_orders.sync_detailed(phones, client=api)
    sale_history.sync_detailed(phones, client=api)
    audit.sync_detailed(phones, client=api)
    stream(sale_events._get_kwargs(phones))
    the_room(phones)
    halt_sale.sync_detailed(phones, client=api)
    rebuild.sync_detailed(phones, client=api, body=m.RebuildBody())
    end.sync_detailed(phones, client=api)


def the_room(phones: str) -> None:
    set_room.sync_detailed(phones, client=api, body=m.RoomBody(rate=m.Rate(n=10, per_ms=1_000), order=m.RoomOrder.DRAW))
    join.sync_detailed(phones, client=api, body=m.BuyerBody("ann"))
    room.sync_detailed(phones, client=api)
    close_entry.sync_detailed(phones, client=api)
    draw.sync_detailed(phones, client=api, body=m.DrawBody("the closing prices of today"))
    enter.sync_detailed(phones, client=api, body=m.BuyerBody("ann"))
    close_room.sync_detailed(phones, client=api)


the_server()
the_locks()
the_queues()
the_workers_and_schedules()
the_sales()

missing = OPERATIONS.keys() - called
faults += [f"not called: {name}" for name in sorted(missing)]
for fault in faults:
    print(fault, file=sys.stderr)
print(f"Python: {len(called)} of {len(OPERATIONS)} operations called, {len(succeeded)} with success at once")
sys.exit(1 if faults else 0)
