package rushgate

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
)

// Queue is a durable task queue. Delivery is at least once: make the work idempotent, or check the fencing token.
type Queue struct {
	queues queues
	name   string
	err    error
}

func newQueue(queues queues, name string) *Queue {
	name, err := checkName("queue", name, contract.NameBytes)
	return &Queue{queues: queues, name: name, err: err}
}

// Name returns the normalized name.
func (q *Queue) Name() string { return q.name }

// Enqueue enqueues one task.
func (q *Queue) Enqueue(ctx context.Context, task NewTask) (Enqueued, error) {
	outcomes, err := q.EnqueueAll(ctx, []NewTask{task})
	if err != nil {
		return Enqueued{}, err
	}
	return outcomes[0], nil
}

// EnqueueAll enqueues 1 to 1,000 tasks in one atomic step, in order. It returns one outcome per task.
func (q *Queue) EnqueueAll(ctx context.Context, tasks []NewTask) ([]Enqueued, error) {
	err := firstError(q.err, checkRange("tasks", int64(len(tasks)), contract.Batch))
	encoded := make([]encodedTask, len(tasks))
	for at := 0; at < len(tasks) && err == nil; at++ {
		encoded[at], err = tasks[at].encode()
	}
	if err != nil {
		return nil, err
	}
	return q.queues.enqueue(ctx, q.name, encoded)
}

// ClaimOptions are the settings of a claim. The zero value claims one task that is due.
type ClaimOptions struct {
	// N is the most tasks to claim: 1 to 1,000. Default: 1.
	N int
	// Lease of the claim: 10 ms to 24 h. Default: 30 s. If the client dies, the tasks can be claimed again after it.
	Lease time.Duration
	// Wait for the first task: 0 to 24 h. Default: 0.
	Wait time.Duration
	// Worker that operators see: at most 200 bytes. Default: host and process ID.
	Worker string
}

// Claim claims the first due tasks under a lease. It returns none if no task is due within the wait. If the context ends
// first, nothing stays claimed.
func (q *Queue) Claim(ctx context.Context, options ClaimOptions) ([]*Claimed, error) {
	if options.N == 0 {
		options.N = 1
	}
	options.Lease = orDefault(options.Lease, contract.DefaultLease)
	if options.Worker == "" {
		options.Worker = hostAndProcess()
	}
	err := firstError(
		q.err, checkRange("n", int64(options.N), contract.Batch), checkDuration("lease", options.Lease, contract.LeaseMicros),
		checkDuration("wait", options.Wait, contract.WaitMicros), checkLabel("worker", options.Worker),
	)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, interrupted(ctx.Err(), false)
	}
	request := claimRequest{n: options.N, lease: options.Lease, wait: options.Wait, worker: options.Worker}
	tasks, sent, err := q.queues.claim(ctx, q.name, request)
	claimed := make([]*Claimed, len(tasks))
	for at, task := range tasks {
		claimed[at] = &Claimed{Task: task, queue: q, lease: options.Lease, sent: sent}
	}
	return claimed, err
}

func hostAndProcess() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return cut(host, contract.LabelBytes/2) + ":" + strconv.Itoa(os.Getpid())
}

// Claimed is a claimed task. End it before its lease does: with Complete, Retry, Release or Discard.
type Claimed struct {
	Task
	queue *Queue
	lease time.Duration
	// sent is the time from which the lease counts.
	sent time.Time
}

// CompleteOutcome tells what happened to a task that was completed.
type CompleteOutcome string

// Outcomes of a completion. Stale: the claim is not valid any more, and nothing was changed.
const (
	Completed       CompleteOutcome = "done"
	CompleteRequeue CompleteOutcome = "requeued"
	CompleteStale   CompleteOutcome = "stale"
)

// Complete completes the task. The result is nil for none, bytes, or a value that becomes JSON: at most 64 KiB. A queue
// keeps results only if it has a retention. It fails with ErrClaimLost if the claim is not valid any more.
func (c *Claimed) Complete(ctx context.Context, result any) error {
	encoded, err := encodeResult(result)
	if err != nil {
		return err
	}
	return c.complete(ctx, completion{result: encoded})
}

// Discard ends the task without work, because there is nothing to do. It fails with ErrClaimLost as Complete does.
func (c *Claimed) Discard(ctx context.Context) error {
	return c.complete(ctx, completion{discarded: true})
}

func (c *Claimed) complete(ctx context.Context, end completion) error {
	end.ticket = readTicket(c.Ticket)
	outcomes, err := c.queue.queues.complete(ctx, c.queue.name, []completion{end})
	if err == nil && outcomes[0] == CompleteStale {
		return claimLost(c.ID)
	}
	return err
}

// RetryOptions are the settings of a retry. The zero value retries at once.
type RetryOptions struct {
	// Delay before the next attempt: 0 to 400 days.
	Delay time.Duration
	// GiveUp makes the task a dead letter now.
	GiveUp bool
}

// RetryOutcome tells what happened to a task whose attempt failed.
type RetryOutcome string

// Outcomes of a retry.
const (
	RetryScheduled RetryOutcome = "scheduled"
	RetryDead      RetryOutcome = "dead"
	RetryRequeued  RetryOutcome = "requeued"
	RetryCanceled  RetryOutcome = "cancelled"
	RetryStale     RetryOutcome = "stale"
)

// Retry fails the attempt: the task is due again after a delay, or becomes a dead letter after its last attempt. The
// message is cut to 2,000 bytes. It fails with ErrClaimLost if the claim is not valid any more.
func (c *Claimed) Retry(ctx context.Context, message string, options RetryOptions) (RetryOutcome, error) {
	if err := checkDuration("delay", options.Delay, contract.DelayMicros); err != nil {
		return "", err
	}
	end := failure{
		ticket: readTicket(c.Ticket), delay: options.Delay, giveUp: options.GiveUp, err: cut(message, contract.ErrorBytes),
	}
	outcomes, err := c.queue.queues.retry(ctx, c.queue.name, []failure{end})
	if err != nil {
		return "", err
	}
	if outcomes[0] == RetryStale {
		return RetryStale, claimLost(c.ID)
	}
	return outcomes[0], nil
}

// ReleaseOutcome tells what happened to a task that was returned to its queue.
type ReleaseOutcome string

// Outcomes of a release.
const (
	ReleaseWaiting  ReleaseOutcome = "waiting"
	ReleaseCanceled ReleaseOutcome = "cancelled"
	ReleaseStale    ReleaseOutcome = "stale"
)

// Release returns the task to the queue, due after a delay of 0 to 400 days. The attempt does not count. It fails with
// ErrClaimLost if the claim is not valid any more.
func (c *Claimed) Release(ctx context.Context, delay time.Duration) error {
	if err := checkDuration("delay", delay, contract.DelayMicros); err != nil {
		return err
	}
	end := release{ticket: readTicket(c.Ticket), delay: delay}
	outcomes, err := c.queue.queues.release(ctx, c.queue.name, []release{end})
	if err == nil && outcomes[0] == ReleaseStale {
		return claimLost(c.ID)
	}
	return err
}

// ExtendOutcome tells what happened to a claim whose lease was extended.
type ExtendOutcome string

// Outcomes of an extension.
const (
	Extended       ExtendOutcome = "extended"
	ExtendCanceled ExtendOutcome = "cancelled"
	ExtendLost     ExtendOutcome = "lost"
)

// ExtendOptions are the settings of an extension. The zero value extends by the lease of the claim.
type ExtendOptions struct {
	// Lease from now: 10 ms to 24 h. Default: the lease of the claim.
	Lease time.Duration
	// Progress that operators see. Default: unchanged.
	Progress *Progress
}

// Extend extends the lease of the claim. ExtendCanceled: it is extended, and a client asked to cancel the task. It fails
// with ErrClaimLost if the claim is not valid any more.
func (c *Claimed) Extend(ctx context.Context, options ExtendOptions) (ExtendOutcome, error) {
	if options.Lease == 0 {
		options.Lease = c.lease
	}
	err := firstError(checkDuration("lease", options.Lease, contract.LeaseMicros), options.Progress.check())
	if err != nil {
		return "", err
	}
	beats := []heartbeat{{ticket: readTicket(c.Ticket), progress: options.Progress}}
	outcomes, err := c.queue.queues.extend(ctx, c.queue.name, options.Lease, beats)
	if err != nil {
		return "", err
	}
	if outcomes[0] == ExtendLost {
		return ExtendLost, claimLost(c.ID)
	}
	return outcomes[0], nil
}

// CancelOutcome tells what happened to a task that was canceled.
type CancelOutcome string

// Outcomes of a cancellation.
const (
	// CancelRemoved: the task was removed.
	CancelRemoved CancelOutcome = "removed"
	// CancelMarked: the task runs, and its worker is asked to stop it.
	CancelMarked CancelOutcome = "marked"
	// CancelNotFound: there is no live task with the ID.
	CancelNotFound CancelOutcome = "not_found"
)

// Cancel cancels a task.
func (q *Queue) Cancel(ctx context.Context, id string) (CancelOutcome, error) {
	id, err := q.checkTask(id)
	if err != nil {
		return "", err
	}
	return q.queues.cancelTask(ctx, q.name, id)
}

// RescheduleOptions tell when a task is due. The zero value is now.
type RescheduleOptions struct {
	// Delay from now: 0 to 400 days. Over HTTP, it is rounded up to whole milliseconds.
	Delay time.Duration
	// DueAt is when the task is due, on the store's clock, instead of Delay.
	DueAt time.Time
}

func (o RescheduleOptions) check() error {
	if o.DueAt.IsZero() {
		return checkDuration("delay", o.Delay, contract.DelayMicros)
	}
	if o.Delay != 0 {
		return invalid("delay", "cannot be set together with dueAt")
	}
	return checkMoment("dueAt", o.DueAt)
}

// Rescheduled is the outcome of rescheduling a task.
type Rescheduled struct {
	Outcome RescheduleOutcome
	// Due is when the task is due, if it was rescheduled.
	Due time.Time
	// Deadline of the task, if the new due time is too late.
	Deadline time.Time
}

// RescheduleOutcome tells what happened to a task that was rescheduled.
type RescheduleOutcome string

// Outcomes of rescheduling.
const (
	// RescheduleDone: the task has a new due time.
	RescheduleDone RescheduleOutcome = "rescheduled"
	// RescheduleLeased: a worker runs the task. Nothing was changed.
	RescheduleLeased RescheduleOutcome = "leased"
	// RescheduleTooLate: the new due time is not before the deadline of the task. Nothing was changed.
	RescheduleTooLate RescheduleOutcome = "too_late"
	// RescheduleNotFound: there is no live task with the ID.
	RescheduleNotFound RescheduleOutcome = "not_found"
)

// Reschedule changes when a waiting task is due, earlier or later. Everything else about the task stays.
func (q *Queue) Reschedule(ctx context.Context, id string, options RescheduleOptions) (Rescheduled, error) {
	id, err := q.checkTask(id)
	if err = firstError(err, options.check()); err != nil {
		return Rescheduled{}, err
	}
	return q.queues.reschedule(ctx, q.name, id, options)
}

func (q *Queue) checkTask(id string) (string, error) {
	if q.err != nil {
		return "", q.err
	}
	return checkName("id", id, contract.NameBytes)
}

// Top returns the first due tasks without claiming them: at most n, 1 to 1,000.
func (q *Queue) Top(ctx context.Context, n int) ([]Task, error) {
	if err := firstError(q.err, checkRange("n", int64(n), contract.Batch)); err != nil {
		return nil, err
	}
	return q.queues.top(ctx, q.name, n)
}

// Pop removes the first due tasks and returns them: at most n, 1 to 1,000. They are lost if the program dies, so prefer Claim.
func (q *Queue) Pop(ctx context.Context, n int) ([]Task, error) {
	if err := firstError(q.err, checkRange("n", int64(n), contract.Batch)); err != nil {
		return nil, err
	}
	return q.queues.pop(ctx, q.name, n)
}

// Dequeue removes a task if it is unchanged since it was read with this ticket. False if it was changed, or a worker is running it.
func (q *Queue) Dequeue(ctx context.Context, ticket string) (bool, error) {
	read := readTicket(ticket)
	if q.err == nil && read.id == "" {
		return false, invalid("ticket", "is malformed")
	}
	if q.err != nil {
		return false, q.err
	}
	return q.queues.dequeue(ctx, q.name, read)
}

// Task returns a task that is live or retained. Nil if it is neither.
func (q *Queue) Task(ctx context.Context, id string) (*TaskInfo, error) {
	id, err := q.checkTask(id)
	if err != nil {
		return nil, err
	}
	return q.queues.task(ctx, q.name, id)
}

// WaitFor waits until a task has ended, for 0 to 24 h. EndPending: it is live when the wait ends. The queue needs a
// retention: otherwise a wait for a live task fails with ErrInvalid.
func (q *Queue) WaitFor(ctx context.Context, id string, wait time.Duration) (Ended, error) {
	id, err := q.checkTask(id)
	if err := firstError(err, checkDuration("wait", wait, contract.WaitMicros)); err != nil {
		return Ended{}, err
	}
	return q.queues.waitFor(ctx, q.name, id, wait)
}

// Why returns the reasons why a task is not running: at least one, and the reason that must end first comes first.
func (q *Queue) Why(ctx context.Context, id string) ([]Why, error) {
	id, err := q.checkTask(id)
	if err != nil {
		return nil, err
	}
	return q.queues.why(ctx, q.name, id)
}

// Closed is the outcome of closing a batch.
type Closed struct {
	// Outcome is closed, not_open or not_found.
	Outcome string
	// Left is the number of tasks that the batch still waits for.
	Left uint64
}

// CloseBatch closes the batch whose callback has the ID: the callback runs when all members have finished.
func (q *Queue) CloseBatch(ctx context.Context, id string) (Closed, error) {
	id, err := q.checkTask(id)
	if err != nil {
		return Closed{}, err
	}
	return q.queues.closeBatch(ctx, q.name, id)
}

// Page selects a part of a list that is ordered by ID. The zero value is its beginning.
type Page struct {
	// After is the ID after which the page begins. Default: the beginning.
	After string
	// Limit of the page. Default: its largest value.
	Limit int
}

func (q *Queue) checkPage(page Page, limits contract.Range) (Page, error) {
	if page.Limit == 0 {
		page.Limit = int(limits.Max)
	}
	err := firstError(q.err, checkRange("limit", int64(page.Limit), limits))
	if err == nil && page.After != "" {
		page.After, err = checkName("after", page.After, contract.NameBytes)
	}
	return page, err
}

// Dependents returns the IDs of at most n live tasks (1 to 1,000) that still wait for a task: by their policy for a dead
// dependency, IfDead, and then by arrival.
func (q *Queue) Dependents(ctx context.Context, id string, n int) ([]string, error) {
	id, err := q.checkTask(id)
	if err = firstError(err, checkRange("n", int64(n), contract.Batch)); err != nil {
		return nil, err
	}
	return q.queues.dependents(ctx, q.name, id, n)
}

// Waited returns the finished dependencies of a live task, with their results. A page has at most 100.
func (q *Queue) Waited(ctx context.Context, id string, page Page) ([]Waited, error) {
	id, err := q.checkTask(id)
	if err != nil {
		return nil, err
	}
	page, err = q.checkPage(page, contract.WaitedPage)
	if err != nil {
		return nil, err
	}
	return q.queues.waited(ctx, q.name, id, page)
}

// ClearUnique clears the uniqueness window of an ID, which may then be enqueued again. It returns when the window would have
// ended, or the zero time if there was none.
func (q *Queue) ClearUnique(ctx context.Context, id string) (time.Time, error) {
	id, err := q.checkTask(id)
	if err != nil {
		return time.Time{}, err
	}
	return q.queues.clearUnique(ctx, q.name, id)
}

// Dead returns dead letters. A page has at most 1,000.
func (q *Queue) Dead(ctx context.Context, page Page) ([]DeadLetter, error) {
	page, err := q.checkPage(page, contract.DeadPage)
	if err != nil {
		return nil, err
	}
	return q.queues.dead(ctx, q.name, page)
}

// Requeued counts the dead letters that were requeued and kept. Kept: the queue is full, or a task has the ID.
type Requeued struct{ Requeued, Kept int }

// RequeueDead requeues up to 1,000 dead letters, with all their attempts.
func (q *Queue) RequeueDead(ctx context.Context, ids ...string) (Requeued, error) {
	selected, err := q.selectDead(ids)
	if err != nil {
		return Requeued{}, err
	}
	return q.queues.requeueDead(ctx, q.name, selected)
}

// RequeueAllDead requeues all dead letters.
func (q *Queue) RequeueAllDead(ctx context.Context) (Requeued, error) {
	if q.err != nil {
		return Requeued{}, q.err
	}
	return q.queues.requeueDead(ctx, q.name, selection{all: true})
}

// DeleteDead deletes up to 1,000 dead letters, and returns how many there were.
func (q *Queue) DeleteDead(ctx context.Context, ids ...string) (int, error) {
	selected, err := q.selectDead(ids)
	if err != nil {
		return 0, err
	}
	return q.queues.deleteDead(ctx, q.name, selected)
}

// DeleteAllDead deletes all dead letters, and returns how many there were.
func (q *Queue) DeleteAllDead(ctx context.Context) (int, error) {
	if q.err != nil {
		return 0, q.err
	}
	return q.queues.deleteDead(ctx, q.name, selection{all: true})
}

// selectDead checks IDs, and sorts them without duplicates.
func (q *Queue) selectDead(ids []string) (selection, error) {
	err := firstError(q.err, checkRange("ids", int64(len(ids)), contract.Batch))
	names := make([]string, len(ids))
	for at := 0; at < len(ids) && err == nil; at++ {
		names[at], err = checkName("id", ids[at], contract.NameBytes)
	}
	return selection{ids: sortedUnique(names)}, err
}

// Pause stops the claims of a queue. Tasks that run continue.
func (q *Queue) Pause(ctx context.Context) error { return q.setPaused(ctx, true) }

// Resume ends a pause.
func (q *Queue) Resume(ctx context.Context) error { return q.setPaused(ctx, false) }

func (q *Queue) setPaused(ctx context.Context, paused bool) error {
	if q.err != nil {
		return q.err
	}
	return q.queues.setPaused(ctx, q.name, paused)
}

// ticket is the proof of a claim in its parts.
type ticket struct {
	text, id        string
	revision, claim uint64
}

var ticketPattern = regexp.MustCompile(`^([0-9a-f]+)\.([0-9a-f]+)\.[0-9a-f]+\.(.+)$`)

// readTicket reads a ticket. A ticket that is malformed has no ID.
func readTicket(text string) ticket {
	parts := ticketPattern.FindStringSubmatch(text)
	if parts == nil {
		return ticket{text: text}
	}
	revision, _ := strconv.ParseUint(parts[1], 16, 64)
	claim, _ := strconv.ParseUint(parts[2], 16, 64)
	return ticket{text: text, id: parts[3], revision: revision, claim: claim}
}

func writeTicket(revision, claim, due uint64, id string) string {
	return fmt.Sprintf("%x.%x.%x.%s", revision, claim, due, id)
}
