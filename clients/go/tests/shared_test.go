package tests

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	rushgate "github.com/rushgate/rushgate/clients/go"
	"github.com/rushgate/rushgate/clients/go/internal/testenv"
)

// bothSides returns clients of one store: over Redis, and over HTTP.
func bothSides(t *testing.T) (direct, server *rushgate.Client) {
	t.Helper()
	for _, target := range testenv.Targets() {
		switch target.Name {
		case "redis":
			direct = target.Connect(t)
		case "http_redis":
			server = target.Connect(t)
		}
	}
	if direct == nil || server == nil {
		t.Skip("needs a Redis server, and a Rushgate server on it")
	}
	return direct, server
}

// same fails the test if two answers differ.
func same[V any](t *testing.T, what string, one V, oneErr error, other V, otherErr error) {
	t.Helper()
	if oneErr != nil || otherErr != nil || !reflect.DeepEqual(one, other) {
		t.Errorf("%s:\n%+v, %v\n%+v, %v", what, one, oneErr, other, otherErr)
	}
}

func TestBothSidesSeeTheSameTasksSchedulesStatsAndReasons(t *testing.T) {
	direct, server := bothSides(t)
	ctx, name := testenv.Context(t), testenv.Unique("queue")
	ours, theirs := direct.Queue(name), server.Queue(name)
	check := func(id string) {
		t.Helper()
		task, err := ours.Task(ctx, id)
		other, otherErr := theirs.Task(ctx, id)
		same(t, "task "+id, plainTask(task), err, plainTask(other), otherErr)
		why, err := ours.Why(ctx, id)
		otherWhy, otherErr := theirs.Why(ctx, id)
		same(t, "why "+id, plainReasons(why), err, plainReasons(otherWhy), otherErr)
	}
	fail(t, ours.SetLimits(ctx, rushgate.Limits{
		Retention: &rushgate.Retention{Age: time.Hour, Count: 10}, PerKey: rushgate.KeyLimits{FIFO: true},
	}))
	testenv.Must[[]rushgate.Enqueued](t)(ours.EnqueueAll(ctx, []rushgate.NewTask{
		{ID: "a", Payload: map[string]int{"n": 1}, Kind: "k", Key: "x", DeadlineAfter: time.Hour}, {ID: "b", Key: "x"},
		{ID: "c", Delay: time.Hour}, {ID: "d", After: []string{"a"}}, {ID: "e", Payload: "text", ContentType: "text/plain"},
	}))
	claimed := testenv.Must[[]*rushgate.Claimed](t)(theirs.Claim(ctx, rushgate.ClaimOptions{}))[0]
	progress := &rushgate.Progress{Percent: rushgate.Ptr(1), Note: "n"}
	testenv.Must[rushgate.ExtendOutcome](t)(claimed.Extend(ctx, rushgate.ExtendOptions{Progress: progress}))
	for _, id := range []string{"a", "b", "c", "d", "e", "none"} {
		check(id)
	}
	schedule := rushgate.NewSchedule{ID: "s", Payload: 1, Recurrence: rushgate.Recurrence{Cron: "0 3 * * *", Zone: "Europe/Berlin"}}
	for _, save := range []struct {
		queue *rushgate.Queue
		want  rushgate.ScheduleOutcome
	}{{theirs, rushgate.ScheduleAdded}, {ours, rushgate.ScheduleUnchanged}} {
		if outcome := testenv.Must[rushgate.ScheduleOutcome](t)(save.queue.SaveSchedule(ctx, schedule)); outcome != save.want {
			t.Errorf("outcome %s", outcome)
		}
	}
	schedules, err := ours.Schedules(ctx, rushgate.Page{})
	otherSchedules, otherErr := theirs.Schedules(ctx, rushgate.Page{})
	same(t, "schedules", schedules, err, otherSchedules, otherErr)
	// A ticket of one side is valid on the other.
	mine := testenv.Must[[]*rushgate.Claimed](t)(ours.Claim(ctx, rushgate.ClaimOptions{}))[0]
	if mine.ID != "e" {
		t.Fatalf("%+v", mine.Task)
	}
	retry(t, mine, "broken", rushgate.RetryOptions{GiveUp: true}, rushgate.RetryDead)
	fail(t, claimed.Complete(ctx, map[string]int{"sent": 1}))
	for _, id := range []string{"a", "b", "d", "e"} {
		check(id)
	}
	letters, err := ours.Dead(ctx, rushgate.Page{})
	otherLetters, otherErr := theirs.Dead(ctx, rushgate.Page{})
	same(t, "dead letters", letters, err, otherLetters, otherErr)
	waited, err := ours.Waited(ctx, "d", rushgate.Page{})
	otherWaited, otherErr := theirs.Waited(ctx, "d", rushgate.Page{})
	same(t, "waited", waited, err, otherWaited, otherErr)
	stats, err := ours.Stats(ctx)
	otherStats, otherErr := theirs.Stats(ctx)
	stats.Lag, otherStats.Lag = 0, 0
	same(t, "stats", stats, err, otherStats, otherErr)
}

// plainTask makes tasks comparable: a list without entries may be nil or empty.
func plainTask(task *rushgate.TaskInfo) *rushgate.TaskInfo {
	if task != nil && len(task.Past) == 0 {
		task.Past = nil
	}
	return task
}

// plainReasons makes reasons comparable: durations pass between two questions.
func plainReasons(reasons []rushgate.Why) []rushgate.Why {
	for at := range reasons {
		one := &reasons[at]
		one.LeaseLeft, one.Wait, one.DueFor, one.TimeLeft = 0, 0, 0, 0
		if len(one.Running) == 0 {
			one.Running = nil
		}
	}
	return reasons
}

func TestALockIsOneLockOverRedisAndHTTP(t *testing.T) {
	direct, server := bothSides(t)
	ctx, name := testenv.Context(t), testenv.Unique("lock")
	lock, other := direct.Lock(name, rushgate.LockOptions{Label: "ours"}), server.Lock(name, rushgate.LockOptions{})
	held := acquire(t, lock, rushgate.AcquireOptions{})
	next := make(chan *rushgate.Held)
	go func() {
		held, err := other.Acquire(context.Background(), wait)
		if err != nil {
			t.Error(err)
		}
		next <- held
	}()
	untilWaiters(t, lock, 1)
	state, err := lock.State(ctx)
	otherState, otherErr := other.State(ctx)
	same(t, "state", state, err, otherState, otherErr)
	release(t, held)
	if got := <-next; got == nil || got.Fence() <= held.Fence() {
		t.Fatalf("fences %v and %v", held, got)
	} else {
		release(t, got)
	}
}

func TestASaleIsOneSaleOverRedisAndHTTP(t *testing.T) {
	direct, server := bothSides(t)
	ctx := testenv.Context(t)
	sale := newSale(t, direct, rushgate.NewSale{ID: testenv.Unique("sale"), SKUs: []rushgate.NewSKU{{SKU: "phone", Units: 5}}})
	other := server.Sale(sale.ID())
	ann := reserve(t, sale, buyer("ann"), rushgate.HoldReserved)
	again := reserve(t, other, buyer("ann"), rushgate.HoldReplayed)
	same(t, "hold", ann.Hold, nil, again.Hold, nil)
	bob := reserve(t, other, buyer("bob"), rushgate.HoldReserved)
	for _, hold := range []struct {
		side    *rushgate.Sale
		receipt string
	}{{sale, bob.Hold.Receipt}, {other, ann.Hold.Receipt}} {
		if known := testenv.Must[rushgate.Restored](t)(hold.side.Restore(ctx, hold.receipt)); known.Outcome != rushgate.HoldKnown {
			t.Errorf("%+v", known)
		}
	}
	state, err := sale.State(ctx)
	otherState, otherErr := other.State(ctx)
	state.Now, otherState.Now = time.Time{}, time.Time{}
	same(t, "state", state, err, otherState, otherErr)
	for _, side := range []*rushgate.Sale{sale, other} {
		if _, err := side.Reserve(ctx, buyer("eve", rushgate.Line{SKU: "none"})); !errors.Is(err, rushgate.ErrNotFound) {
			t.Errorf("error %v", err)
		}
	}
}
