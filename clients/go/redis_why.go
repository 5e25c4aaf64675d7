package rushgate

import (
	"context"
	"strconv"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
)

// why gives the same reasons, in the same order, as the library and the HTTP API.
func (t *redisTransport) why(ctx context.Context, queue, id string) ([]Why, error) {
	asked := question{redisTransport: t, queue: queue}
	for tries := 0; tries < contract.WhyTries; tries++ {
		reasons, err := asked.once(ctx, id)
		if err != nil || len(reasons) > 0 {
			return reasons, err
		}
		// No reason found: the task changed its state between two reads.
	}
	return []Why{{Reason: "unknown"}}, nil
}

// question asks why a task of a queue is not running.
type question struct {
	*redisTransport
	queue string
	// now is the time of the store.
	now time.Time
}

func (q *question) once(ctx context.Context, id string) ([]Why, error) {
	now, tasks, err := q.tasks(ctx, q.queue, []string{id})
	q.now = now
	if err != nil {
		return nil, err
	}
	if len(tasks) == 0 || tasks[0].State == Done {
		return q.over(ctx, id)
	}
	task := tasks[0]
	reasons := []Why{q.running(task)}
	if task.State != Leased {
		reasons, err = q.waiting(ctx, task)
	}
	if len(reasons) > 0 && !task.Deadline.IsZero() {
		reasons = append(reasons, Why{Reason: "deadline", Deadline: task.Deadline, TimeLeft: q.left(task.Deadline)})
	}
	return reasons, err
}

// left is the time until a moment, in whole ms. 0 if it has passed.
func (q *question) left(at time.Time) time.Duration { return since(q.now, at) }

func since(from, to time.Time) time.Duration {
	if passed := to.Sub(from); passed > 0 {
		return passed.Truncate(time.Millisecond)
	}
	return 0
}

func (q *question) running(task TaskInfo) Why {
	return Why{
		Reason: "running", Worker: task.Worker, Attempt: task.Attempt, Fence: task.Fence, LeaseUntil: task.LeaseUntil,
		LeaseLeft: q.left(task.LeaseUntil), Canceled: task.Canceled, Replaced: task.Replaced,
	}
}

func (q *question) over(ctx context.Context, id string) ([]Why, error) {
	ended, err := q.ended(ctx, q.queue, id)
	if err != nil || ended.Outcome == EndPending {
		return nil, err
	}
	reasons, err := q.howItEnded(ctx, id, ended)
	if err != nil {
		return nil, err
	}
	reply, err := q.call(ctx, "queue_unique_until", []group{uniqueGroup(q.queue)}, arguments{[]byte(id)})
	if err != nil {
		return nil, err
	}
	until, err := numberOf(reply)
	if at := moment(until); at.After(q.now) {
		reasons = append(reasons, Why{Reason: "unique", Until: at, TimeLeft: q.left(at)})
	}
	if len(reasons) == 0 {
		reasons = []Why{{Reason: "unknown"}}
	}
	return reasons, err
}

func (q *question) howItEnded(ctx context.Context, id string, ended Ended) ([]Why, error) {
	switch ended.Outcome {
	case EndFinished:
		done := ended.Task
		return []Why{{Reason: "done", How: done.Finished.How, Finished: done.Finished.At, Worker: done.Worker}}, nil
	case EndDead:
		letter, err := q.deadLetter(ctx, q.queue, id)
		if err != nil || letter == nil {
			return nil, err
		}
		return []Why{{
			Reason: "dead", Attempts: letter.Attempts, MaxAttempts: letter.MaxAttempts, Error: letter.Error, Died: letter.Died,
		}}, nil
	default:
		return nil, nil
	}
}

func (q *question) waiting(ctx context.Context, task TaskInfo) ([]Why, error) {
	stats, err := q.stats(ctx, q.queue)
	if err != nil {
		return nil, err
	}
	reasons, err := q.ofQueue(ctx, stats)
	if err != nil {
		return nil, err
	}
	var own []Why
	switch {
	case task.State == Scheduled:
		own = []Why{q.notYet(task)}
	case task.State == Blocked && task.Waits:
		own, err = q.waitsFor(ctx, task)
	case task.State == Blocked:
		own, err = q.blocked(ctx, task, stats.Limits.PerKey)
	case len(reasons) == 0:
		own, err = q.ready(ctx, task, stats)
	}
	return append(reasons, own...), err
}

// ofQueue returns the reasons that concern all tasks of the queue.
func (q *question) ofQueue(ctx context.Context, stats *QueueStats) ([]Why, error) {
	var reasons []Why
	if stats.Paused {
		reasons = append(reasons, Why{Reason: "paused"})
	}
	if most := stats.Limits.Concurrency; most > 0 && stats.Leased >= uint64(most) {
		running, err := q.leased(ctx, contract.WhyRunning)
		if err != nil {
			return nil, err
		}
		reasons = append(reasons, Why{Reason: "queue_busy", Concurrency: most, Running: runningOf(running)})
	}
	if until := stats.RateUntil; !until.IsZero() {
		reasons = append(reasons, Why{Reason: "rate_limited", Until: until, Wait: q.left(until)})
	}
	return reasons, nil
}

// notYet is the reason of a scheduled task: it is not due, or the rate limit of its key does not allow it yet.
func (q *question) notYet(task TaskInfo) Why {
	if until := task.NotBefore; until.After(task.Due) {
		return Why{Reason: "rate_limited", Key: task.Key, Until: until, Wait: q.left(until)}
	}
	return Why{
		Reason: "not_due", Due: task.Due, Wait: q.left(task.Due), Attempts: task.Attempt, MaxAttempts: task.MaxAttempts,
		Error: task.Error,
	}
}

func (q *question) waitsFor(ctx context.Context, task TaskInfo) ([]Why, error) {
	answer, err := listFrom(q.ask(ctx, q.queue, "waits", arguments{[]byte(task.ID)}))
	if err != nil || !answer.more() {
		return nil, err
	}
	waits := Why{
		Reason: "waits_for", Open: answer.number() == 1, IfDead: IfDead(answer.word(contract.IfDead)), Left: answer.number(),
	}
	answer.number()
	waits.Dead = answer.number()
	for answer.more() {
		other, isDead, message := answer.text(), answer.number() == 1, answer.text()
		if !isDead {
			message = ""
		}
		waits.WaitsFor = append(waits.WaitsFor, WaitingOn{ID: other, Error: message})
	}
	var reasons []Why
	if waits.Open || waits.Left > 0 {
		reasons = append(reasons, waits)
	}
	if task.Due.After(q.now) {
		reasons = append(reasons, q.notYet(task))
	}
	return reasons, answer.err
}

func (q *question) blocked(ctx context.Context, task TaskInfo, limits KeyLimits) ([]Why, error) {
	most := limits.Concurrency
	if limits.FIFO {
		most = 1
	}
	if most > 0 {
		others, err := q.leased(ctx, contract.WhyListed)
		if err != nil {
			return nil, err
		}
		if others = ofKey(others, task.Key); len(others) >= most {
			return []Why{{Reason: "key_busy", Key: task.Key, Running: runningOf(others)}}, nil
		}
	}
	first, err := q.firstOfKey(ctx, task)
	return []Why{{Reason: "in_line", Key: task.Key, FirstInLine: first}}, err
}

func ofKey(tasks []TaskInfo, key string) []TaskInfo {
	var same []TaskInfo
	for _, task := range tasks {
		if task.Key == key {
			same = append(same, task)
		}
	}
	return same
}

// firstOfKey returns the ID of the first task with the key and priority of a task, or "" if it is not found.
func (q *question) firstOfKey(ctx context.Context, task TaskInfo) (string, error) {
	due, err := q.top(ctx, q.queue, contract.WhyAhead)
	if err != nil {
		return "", err
	}
	for _, other := range due {
		if other.Key == task.Key && other.Priority == task.Priority {
			return other.ID, nil
		}
	}
	// The first one may wait for its next attempt.
	ending := contract.WaitingKey + strconv.Itoa(task.Priority)
	waiting, err := q.members(ctx, ending, contract.WhyListed, contract.WaitingHeadBytes)
	for _, other := range ofKey(waiting, task.Key) {
		return other.ID, err
	}
	return "", err
}

func (q *question) ready(ctx context.Context, task TaskInfo, stats *QueueStats) ([]Why, error) {
	due, err := q.top(ctx, q.queue, contract.WhyAhead)
	if err != nil {
		return nil, err
	}
	reason := Why{
		Reason: "waiting", Leased: stats.Leased, DueFor: since(task.NotBefore, q.now), LastClaim: stats.LastClaim,
	}
	for at, other := range due {
		if other.ID == task.ID {
			reason.Ahead = Ptr(at)
			return []Why{reason}, nil
		}
	}
	if len(due) < contract.WhyAhead {
		return nil, nil
	}
	return []Why{reason}, nil
}

func (q *question) leased(ctx context.Context, most int) ([]TaskInfo, error) {
	tasks, err := q.members(ctx, contract.LeasesKey, most, contract.LeasesHeadBytes)
	var leased []TaskInfo
	for _, task := range tasks {
		if task.State == Leased {
			leased = append(leased, task)
		}
	}
	return leased, err
}

// members returns the first tasks of a sorted set, whose members end with the ID.
func (q *question) members(ctx context.Context, ending string, most, head int) ([]TaskInfo, error) {
	key := queueGroup(q.queue).key(ending)
	answer, err := listFrom(q.read(ctx, "ZRANGE", key, "0", strconv.Itoa(most-1)))
	if err != nil {
		return nil, err
	}
	var ids []string
	for answer.more() {
		member := packed{rest: answer.bytes()}
		member.take(head)
		ids = append(ids, string(member.rest))
	}
	var tasks []TaskInfo
	for batch := int(contract.Batch.Max); len(ids) > 0; ids = ids[min(batch, len(ids)):] {
		_, some, err := q.tasks(ctx, q.queue, ids[:min(batch, len(ids))])
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, some...)
	}
	return tasks, answer.err
}

func min[T int | time.Duration](one, other T) T {
	if one < other {
		return one
	}
	return other
}

func max[T int | time.Duration](one, other T) T { return one + other - min(one, other) }

func runningOf(tasks []TaskInfo) []Running {
	var running []Running
	for _, task := range tasks[:min(contract.WhyRunning, len(tasks))] {
		running = append(running, Running{ID: task.ID, Worker: task.Worker, LeaseUntil: task.LeaseUntil})
	}
	return running
}
