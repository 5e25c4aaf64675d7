package rushgate

import (
	"context"
	"time"
)

// transport carries out the verbs: by the function library of a Redis server, or by the HTTP API. Arguments are checked
// and names are normalized before.
type transport interface {
	locks
	queues
	sales
	close()
}

// locks has the verbs of locks.
type locks interface {
	// acquireLock fails with ErrLockBusy if the wait timed out.
	acquireLock(ctx context.Context, name string, request acquireRequest) (grant, error)
	// extendLock and releaseLock fail with ErrLockLost if the token does not hold the lock.
	extendLock(ctx context.Context, name, token string, lease time.Duration) (grant, error)
	releaseLock(ctx context.Context, name, token string) error
	// watchLock calls lost if the store tells that the token lost the lock, until stop is called.
	watchLock(token string, lost func()) (stop func())
	lockState(ctx context.Context, name string) (*LockState, error)
	// forceReleaseLock returns nil if the lock was free.
	forceReleaseLock(ctx context.Context, name string) (*LockHolder, error)
}

type acquireRequest struct {
	lease, wait time.Duration
	barging     bool
	label       string
}

// grant is a lease. It certainly lasts until then, on the monotonic clock of this process.
type grant struct {
	token string
	fence uint64
	until time.Time
}

// queues has the verbs of queues. Answers have one outcome per entry, in order.
type queues interface {
	enqueue(ctx context.Context, queue string, tasks []encodedTask) ([]Enqueued, error)
	// claim waits for the first task. The leases count from the time that it returns. If the context ends meanwhile, it
	// releases what it has claimed.
	claim(ctx context.Context, queue string, request claimRequest) ([]Task, time.Time, error)
	complete(ctx context.Context, queue string, completions []completion) ([]CompleteOutcome, error)
	retry(ctx context.Context, queue string, failures []failure) ([]RetryOutcome, error)
	release(ctx context.Context, queue string, releases []release) ([]ReleaseOutcome, error)
	extend(ctx context.Context, queue string, lease time.Duration, heartbeats []heartbeat) ([]ExtendOutcome, error)
	cancelTask(ctx context.Context, queue, id string) (CancelOutcome, error)
	// top and pop return at most n due tasks.
	top(ctx context.Context, queue string, n int) ([]Task, error)
	pop(ctx context.Context, queue string, n int) ([]Task, error)
	// dequeue reports whether it removed the task.
	dequeue(ctx context.Context, queue string, ticket ticket) (bool, error)
	reschedule(ctx context.Context, queue, id string, options RescheduleOptions) (Rescheduled, error)
	// task returns nil if the task is neither live nor retained.
	task(ctx context.Context, queue, id string) (*TaskInfo, error)
	waitFor(ctx context.Context, queue, id string, wait time.Duration) (Ended, error)
	why(ctx context.Context, queue, id string) ([]Why, error)
	closeBatch(ctx context.Context, queue, id string) (Closed, error)
	dependents(ctx context.Context, queue, id string, n int) ([]string, error)
	waited(ctx context.Context, queue, id string, page Page) ([]Waited, error)
	// clearUnique returns when the window of the ID would have ended. The zero time if there was none.
	clearUnique(ctx context.Context, queue, id string) (time.Time, error)
	stats(ctx context.Context, queue string) (*QueueStats, error)
	setLimits(ctx context.Context, queue string, limits Limits) error
	setPaused(ctx context.Context, queue string, paused bool) error
	dead(ctx context.Context, queue string, page Page) ([]DeadLetter, error)
	requeueDead(ctx context.Context, queue string, selected selection) (Requeued, error)
	deleteDead(ctx context.Context, queue string, selected selection) (int, error)
	saveSchedule(ctx context.Context, queue string, schedule encodedSchedule) (ScheduleOutcome, error)
	schedules(ctx context.Context, queue string, page Page) ([]Schedule, error)
	// deleteSchedule reports whether there was one.
	deleteSchedule(ctx context.Context, queue, id string) (bool, error)
	// announce announces a worker, and returns what an operator asked of it.
	announce(ctx context.Context, queue string, worker announcement) (WorkerMode, error)
	endWorker(ctx context.Context, queue, id string) error
	workers(ctx context.Context, queue string, page Page) ([]WorkerInfo, error)
	// setWorker reports whether the worker is listed.
	setWorker(ctx context.Context, queue, id string, mode WorkerMode) (bool, error)
}

// scheduler is a transport over which workers fire schedules. A Rushgate server fires those of its store itself.
type scheduler interface {
	// fireSchedules fires due schedules, and returns the time until the next look. It calls warn for a schedule that it
	// cannot read.
	fireSchedules(ctx context.Context, queue string, warn func(Schedule, error)) (time.Duration, error)
}

type claimRequest struct {
	n           int
	lease, wait time.Duration
	worker      string
}

// announcement is what a worker says of itself.
type announcement struct {
	id, name, version    string
	concurrency, running int
	lease                time.Duration
}

type completion struct {
	ticket    ticket
	result    *Content
	discarded bool
}

type failure struct {
	ticket ticket
	delay  time.Duration
	giveUp bool
	err    string
}

type release struct {
	ticket ticket
	delay  time.Duration
}

type heartbeat struct {
	ticket   ticket
	progress *Progress
}

// selection is a list of dead letters, or all of them.
type selection struct {
	ids []string
	all bool
}

// sales has the verbs of sales.
type sales interface {
	// createSale reports whether the sale was created. False: another sale has the ID.
	createSale(ctx context.Context, sale NewSale) (bool, error)
	openSale(ctx context.Context, id string) (SaleStatus, error)
	endSale(ctx context.Context, id string) (SaleStatus, error)
	saleState(ctx context.Context, id string) (*SaleState, error)
	reserve(ctx context.Context, id string, reservation Reservation) (Reserved, error)
	confirmHold(ctx context.Context, id, reservation string) (Decision, error)
	cancelHold(ctx context.Context, id, reservation string) (Decision, error)
	// hold returns nil if there is no such reservation.
	hold(ctx context.Context, id, reservation string) (*Hold, error)
	waitFinal(ctx context.Context, id, reservation string, wait time.Duration) (*Hold, error)
	restore(ctx context.Context, id, receipt string) (Restored, error)
}
