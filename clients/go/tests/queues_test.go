package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	rushgate "github.com/rushgate/rushgate/clients/go"
	"github.com/rushgate/rushgate/clients/go/internal/testenv"
)

// waitClaim is longer than any wait for a task should take.
var waitClaim = rushgate.ClaimOptions{Wait: testenv.Patience}

// eachQueue runs a test on a new queue of every target.
func eachQueue(t *testing.T, test func(t *testing.T, ctx context.Context, client *rushgate.Client, queue *rushgate.Queue)) {
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		client := target.Connect(t)
		test(t, testenv.Context(t), client, client.Queue(testenv.Unique("queue")))
	})
}

func TestContentArrivesAsItWasEnqueued(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, _ *rushgate.Client, queue *rushgate.Queue) {
		trace := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		for _, one := range []struct {
			task  rushgate.NewTask
			bytes string
			media string
		}{
			{rushgate.NewTask{}, "", "application/octet-stream"},
			{rushgate.NewTask{Payload: []byte("\x00\xff")}, "\x00\xff", "application/octet-stream"},
			{rushgate.NewTask{Payload: map[string]any{"to": "Zoë"}, Kind: "mail:welcome", Traceparent: trace}, `{"to":"Zoë"}`, "application/json"},
			{rushgate.NewTask{Payload: "text"}, `"text"`, "application/json"},
			{rushgate.NewTask{Payload: "für dich", ContentType: "text/plain; charset=utf-8"}, "für dich", "text/plain;charset=utf-8"},
			{rushgate.NewTask{Payload: []byte("not json"), ContentType: "application/json", Kind: "k"}, "not json", "application/json"},
		} {
			one.task.ID = testenv.Unique("task")
			enqueue(t, queue, one.task, rushgate.Added)
			task := claimOne(t, queue)
			if string(task.Payload) != one.bytes || task.ContentType != one.media || task.Kind != one.task.Kind ||
				task.Traceparent != one.task.Traceparent || task.ID != one.task.ID {
				t.Errorf("%+v", task.Task)
			}
			fail(t, task.Complete(ctx, nil))
		}
	})
}

func TestDuplicatesAreKeptReplacedOrDebounced(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, _ *rushgate.Client, queue *rushgate.Queue) {
		hour := time.Hour
		enqueue(t, queue, rushgate.NewTask{ID: "a", Payload: 1, Delay: hour}, rushgate.Added)
		enqueue(t, queue, rushgate.NewTask{ID: "a", Payload: 2}, rushgate.Kept)
		enqueue(t, queue, rushgate.NewTask{ID: "a", Payload: 3, OnDuplicate: rushgate.Replace, Delay: hour}, rushgate.Replaced)
		task := testenv.Must[*rushgate.TaskInfo](t)(queue.Task(ctx, "a"))
		if task == nil || task.State != rushgate.Scheduled || string(task.Payload) != "3" {
			t.Fatalf("%+v", task)
		}
		enqueue(t, queue, rushgate.NewTask{ID: "a", OnDuplicate: rushgate.Earliest}, rushgate.Replaced)
		if claimed := claimOne(t, queue); string(claimed.Payload) != "3" {
			t.Errorf("payload %s", claimed.Payload)
		}
		debounce := rushgate.NewTask{ID: "b", OnDuplicate: rushgate.Debounce, Delay: hour, MaxWait: 50 * time.Millisecond}
		enqueue(t, queue, debounce, rushgate.Added)
		debounce.Payload = "last"
		enqueue(t, queue, debounce, rushgate.Replaced)
		if claimed := claimOne(t, queue); claimed.ID != "b" || string(claimed.Payload) != `"last"` {
			t.Errorf("%+v", claimed.Task)
		}
	})
}

func TestTasksAreClaimedByPriorityAndKey(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, _ *rushgate.Client, queue *rushgate.Queue) {
		outcomes := testenv.Must[[]rushgate.Enqueued](t)(queue.EnqueueAll(ctx, []rushgate.NewTask{
			{ID: "low", Priority: rushgate.Ptr(9)}, {ID: "ann:1", Key: "ann"}, {ID: "ann:2", Key: "ann"}, {ID: "bob:1", Key: "bob"},
			{ID: "high", Priority: rushgate.Ptr(0), MaxAttempts: 3},
		}))
		for _, one := range outcomes {
			if one.Outcome != rushgate.Added || one.Revision == 0 {
				t.Errorf("%+v", one)
			}
		}
		tasks := testenv.Must[[]*rushgate.Claimed](t)(queue.Claim(ctx, rushgate.ClaimOptions{N: 10}))
		var ids []string
		fences := map[uint64]bool{}
		for _, task := range tasks {
			ids = append(ids, task.ID)
			fences[task.Fence] = true
		}
		if want := []string{"high", "ann:1", "bob:1", "ann:2", "low"}; !reflect.DeepEqual(ids, want) {
			t.Errorf("order %v", ids)
		}
		if len(fences) != 5 || tasks[0].MaxAttempts != 3 || tasks[0].Attempt != 1 || tasks[1].Key != "ann" {
			t.Errorf("%+v", tasks[0].Task)
		}
	})
}

func TestAFullQueueRefusesDropsOrDisplaces(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, _ *rushgate.Client, queue *rushgate.Queue) {
		limits := rushgate.Limits{Bound: rushgate.Ptr[uint64](1)}
		fail(t, queue.SetLimits(ctx, limits))
		enqueue(t, queue, rushgate.NewTask{ID: "a"}, rushgate.Added)
		if full := enqueue(t, queue, rushgate.NewTask{ID: "b"}, rushgate.Full); full.Bound != 1 {
			t.Errorf("%+v", full)
		}
		limits.Overflow = rushgate.DropNew
		fail(t, queue.SetLimits(ctx, limits))
		enqueue(t, queue, rushgate.NewTask{ID: "b"}, rushgate.Dropped)
		limits.Overflow = rushgate.DropOldest
		fail(t, queue.SetLimits(ctx, limits))
		if displaced := enqueue(t, queue, rushgate.NewTask{ID: "b"}, rushgate.Displaced); displaced.Dropped != "a" {
			t.Errorf("%+v", displaced)
		}
	})
}

func TestAnIDStaysUniqueAfterItsTaskIsDone(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, _ *rushgate.Client, queue *rushgate.Queue) {
		task := rushgate.NewTask{ID: "a", UniqueFor: time.Hour}
		enqueue(t, queue, task, rushgate.Added)
		fail(t, claimOne(t, queue).Complete(ctx, nil))
		recent := enqueue(t, queue, task, rushgate.Recent)
		if time.Until(recent.Until) < 50*time.Minute {
			t.Errorf("%+v", recent)
		}
		for _, want := range []time.Time{recent.Until, {}} {
			if until := testenv.Must[time.Time](t)(queue.ClearUnique(ctx, "a")); !until.Equal(want) {
				t.Errorf("window until %v, want %v", until, want)
			}
		}
		enqueue(t, queue, task, rushgate.Added)
	})
}

func TestDueTasksAreReadRemovedAndPopped(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, _ *rushgate.Client, queue *rushgate.Queue) {
		enqueue(t, queue, rushgate.NewTask{ID: "a", Payload: 1}, rushgate.Added)
		enqueue(t, queue, rushgate.NewTask{ID: "b", Payload: 2}, rushgate.Added)
		read := testenv.Must[[]rushgate.Task](t)(queue.Top(ctx, 1))
		if len(read) != 1 || read[0].ID != "a" || read[0].Fence != 0 {
			t.Fatalf("%+v", read)
		}
		enqueue(t, queue, rushgate.NewTask{ID: "a", Payload: 3, OnDuplicate: rushgate.Replace}, rushgate.Replaced)
		changed := testenv.Must[*rushgate.TaskInfo](t)(queue.Task(ctx, "a"))
		for ticket, want := range map[string]bool{read[0].Ticket: false, changed.Ticket: true} {
			if removed := testenv.Must[bool](t)(queue.Dequeue(ctx, ticket)); removed != want {
				t.Errorf("%s: removed %v", ticket, removed)
			}
		}
		popped := testenv.Must[[]rushgate.Task](t)(queue.Pop(ctx, 5))
		if len(popped) != 1 || popped[0].ID != "b" {
			t.Fatalf("%+v", popped)
		}
		if stats := testenv.Must[*rushgate.QueueStats](t)(queue.Stats(ctx)); stats.Ready != 0 {
			t.Errorf("%+v", stats)
		}
		for _, err := range []error{errorOf(queue.Top(ctx, 0)), errorOf(queue.Pop(ctx, 1_001)), errorOf(queue.Dequeue(ctx, "a"))} {
			if !errors.Is(err, rushgate.ErrInvalid) {
				t.Errorf("%v", err)
			}
		}
	})
}

func errorOf(_ any, err error) error { return err }

func TestAWaitingClaimIsWokenByATask(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, client *rushgate.Client, queue *rushgate.Queue) {
		const tasks = 5
		var all sync.WaitGroup
		for n := 0; n < tasks; n++ {
			all.Add(1)
			go func() {
				defer all.Done()
				claimed, err := client.Queue(queue.Name()).Claim(ctx, waitClaim)
				if err != nil || len(claimed) != 1 {
					t.Errorf("%v, %v", claimed, err)
					return
				}
				if err := claimed[0].Complete(ctx, nil); err != nil {
					t.Error(err)
				}
			}()
		}
		begun := time.Now()
		for n := 0; n < tasks; n++ {
			enqueue(t, queue, rushgate.NewTask{ID: fmt.Sprint(n)}, rushgate.Added)
		}
		all.Wait()
		// Without a notification a claim asks again after 5 s.
		if took := time.Since(begun); took > 4*time.Second {
			t.Errorf("the claims took %v", took)
		}
	})
}

func TestAWaitingClaimGetsADelayedTask(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, _ *rushgate.Client, queue *rushgate.Queue) {
		enqueue(t, queue, rushgate.NewTask{ID: "a", Delay: 300 * time.Millisecond}, rushgate.Added)
		begun := time.Now()
		task := claimOne(t, queue)
		if took := time.Since(begun); task.ID != "a" || took < 200*time.Millisecond || took > 4*time.Second {
			t.Errorf("%s after %v", task.ID, took)
		}
	})
}

func TestAnEndedContextLeavesNothingClaimed(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, _ *rushgate.Client, queue *rushgate.Queue) {
		for n := 0; n < 5; n++ {
			waiting, cancel := context.WithCancel(ctx)
			failed := make(chan error)
			go func() {
				claimed, err := queue.Claim(waiting, waitClaim)
				if len(claimed) > 0 {
					err = claimed[0].Release(ctx, 0)
				}
				failed <- err
			}()
			enqueue(t, queue, rushgate.NewTask{ID: "a"}, map[bool]rushgate.EnqueueOutcome{true: rushgate.Added, false: rushgate.Kept}[n == 0])
			cancel()
			if err := <-failed; err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		testenv.Until(t, "the task is ready", func() bool {
			task, err := queue.Task(ctx, "a")
			return err == nil && task.State == rushgate.Ready
		})
		if task := claimOne(t, queue); task.Attempt != 1 {
			t.Errorf("attempt %d", task.Attempt)
		}
	})
}

func TestAClientWaitsForAResult(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, _ *rushgate.Client, queue *rushgate.Queue) {
		enqueue(t, queue, rushgate.NewTask{ID: "a", Payload: 20}, rushgate.Added)
		if _, err := queue.WaitFor(ctx, "a", time.Second); !errors.Is(err, rushgate.ErrInvalid) {
			t.Fatalf("without a retention: %v", err)
		}
		fail(t, queue.SetLimits(ctx, rushgate.Limits{Retention: &rushgate.Retention{Age: time.Hour, Count: 10}}))
		if ended := testenv.Must[rushgate.Ended](t)(queue.WaitFor(ctx, "a", time.Millisecond)); ended.Outcome != rushgate.EndPending {
			t.Errorf("%+v", ended)
		}
		waited := make(chan rushgate.Ended)
		go func() {
			ended, err := queue.WaitFor(ctx, "a", testenv.Patience)
			if err != nil {
				t.Error(err)
			}
			waited <- ended
		}()
		fail(t, claimOne(t, queue).Complete(ctx, map[string]int{"sum": 42}))
		ended := <-waited
		if ended.Outcome != rushgate.EndFinished || ended.Task.Finished.How != "done" || ended.Task.State != rushgate.Done {
			t.Fatalf("%+v", ended)
		}
		var result struct{ Sum int }
		fail(t, ended.Task.Finished.Result.Decode(&result))
		if result.Sum != 42 || string(ended.Task.Payload) != "20" || ended.Task.Worker == "" {
			t.Errorf("%+v", ended.Task)
		}
		if gone := testenv.Must[rushgate.Ended](t)(queue.WaitFor(ctx, "never", time.Second)); gone.Outcome != rushgate.EndGone {
			t.Errorf("%+v", gone)
		}
	})
}

func TestAFailedTaskIsRetriedAndThenADeadLetter(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, _ *rushgate.Client, queue *rushgate.Queue) {
		enqueue(t, queue, rushgate.NewTask{ID: "a", Payload: "x", Kind: "k", MaxAttempts: 2, Key: "ann"}, rushgate.Added)
		retry(t, claimOne(t, queue), "first", rushgate.RetryOptions{}, rushgate.RetryScheduled)
		task := claimOne(t, queue)
		retry(t, task, "second", rushgate.RetryOptions{Delay: time.Hour}, rushgate.RetryDead)
		if _, err := task.Retry(ctx, "again", rushgate.RetryOptions{}); !errors.Is(err, rushgate.ErrClaimLost) {
			t.Errorf("error %v", err)
		}
		ended := testenv.Must[rushgate.Ended](t)(queue.WaitFor(ctx, "a", 0))
		if ended.Outcome != rushgate.EndDead || ended.Error != "second" || ended.Attempts != 2 || ended.Died.IsZero() {
			t.Errorf("%+v", ended)
		}
		letters := testenv.Must[[]rushgate.DeadLetter](t)(queue.Dead(ctx, rushgate.Page{}))
		if len(letters) != 1 || letters[0].ID != "a" || letters[0].Kind != "k" || string(letters[0].Payload) != `"x"` ||
			letters[0].Key != "ann" || len(letters[0].Past) != 2 || letters[0].Past[0].Error != "first" {
			t.Fatalf("%+v", letters)
		}
		if requeued := testenv.Must[rushgate.Requeued](t)(queue.RequeueDead(ctx, "a", "b", "a")); requeued.Requeued != 1 {
			t.Errorf("%+v", requeued)
		}
		retry(t, claimOne(t, queue), "third", rushgate.RetryOptions{GiveUp: true}, rushgate.RetryDead)
		if requeued := testenv.Must[rushgate.Requeued](t)(queue.RequeueAllDead(ctx)); requeued.Requeued != 1 {
			t.Errorf("%+v", requeued)
		}
		retry(t, claimOne(t, queue), "fourth", rushgate.RetryOptions{GiveUp: true}, rushgate.RetryDead)
		if deleted := testenv.Must[int](t)(queue.DeleteDead(ctx, "a")); deleted != 1 {
			t.Errorf("deleted %d", deleted)
		}
		if deleted := testenv.Must[int](t)(queue.DeleteAllDead(ctx)); deleted != 0 {
			t.Errorf("deleted %d", deleted)
		}
	})
}

func TestADeadlineMakesAWaitingTaskADeadLetter(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, _ *rushgate.Client, queue *rushgate.Queue) {
		enqueue(t, queue, rushgate.NewTask{ID: "a", DeadlineAfter: 50 * time.Millisecond}, rushgate.Added)
		testenv.Until(t, "the task is dead", func() bool {
			ended, err := queue.WaitFor(ctx, "a", 0)
			return err == nil && ended.Outcome == rushgate.EndDead
		})
	})
}

func TestAReleaseDoesNotCountTheAttempt(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, _ *rushgate.Client, queue *rushgate.Queue) {
		enqueue(t, queue, rushgate.NewTask{ID: "a"}, rushgate.Added)
		task := claimOne(t, queue)
		fail(t, task.Release(ctx, 0))
		if err := task.Complete(ctx, nil); !errors.Is(err, rushgate.ErrClaimLost) {
			t.Errorf("error %v", err)
		}
		if again := claimOne(t, queue); again.Attempt != 1 || again.Fence <= task.Fence {
			t.Errorf("%+v", again.Task)
		}
	})
}

func TestProgressAndCancellationPassThroughTheStore(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, _ *rushgate.Client, queue *rushgate.Queue) {
		enqueue(t, queue, rushgate.NewTask{ID: "a"}, rushgate.Added)
		claimed := claimOne(t, queue)
		progress := &rushgate.Progress{Percent: rushgate.Ptr(40), Note: "rendering"}
		extended := testenv.Must[rushgate.ExtendOutcome](t)(claimed.Extend(ctx, rushgate.ExtendOptions{Lease: time.Hour, Progress: progress}))
		task := testenv.Must[*rushgate.TaskInfo](t)(queue.Task(ctx, "a"))
		if extended != rushgate.Extended || task.State != rushgate.Leased || !reflect.DeepEqual(task.Progress, progress) ||
			time.Until(task.LeaseUntil) < 50*time.Minute || task.Worker == "" {
			t.Fatalf("%s %+v", extended, task)
		}
		for _, one := range []struct {
			id   string
			want rushgate.CancelOutcome
		}{{"a", rushgate.CancelMarked}, {"b", rushgate.CancelNotFound}} {
			if outcome := testenv.Must[rushgate.CancelOutcome](t)(queue.Cancel(ctx, one.id)); outcome != one.want {
				t.Errorf("%s: %s", one.id, outcome)
			}
		}
		extended = testenv.Must[rushgate.ExtendOutcome](t)(claimed.Extend(ctx, rushgate.ExtendOptions{}))
		if extended != rushgate.ExtendCanceled {
			t.Errorf("outcome %s", extended)
		}
		fail(t, claimed.Discard(ctx))
		enqueue(t, queue, rushgate.NewTask{ID: "c"}, rushgate.Added)
		if outcome := testenv.Must[rushgate.CancelOutcome](t)(queue.Cancel(ctx, "c")); outcome != rushgate.CancelRemoved {
			t.Errorf("outcome %s", outcome)
		}
	})
}

func TestATaskRunsAfterItsDependencies(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, _ *rushgate.Client, queue *rushgate.Queue) {
		outcomes := testenv.Must[[]rushgate.Enqueued](t)(queue.EnqueueAll(ctx, []rushgate.NewTask{
			{ID: "a"}, {ID: "b"}, {ID: "sum", After: []string{"a", "b"}, IfDead: rushgate.IfDeadRun}, {ID: "x", After: []string{"none"}},
		}))
		if refused := outcomes[3]; refused.Outcome != rushgate.Refused || refused.Task != "none" || refused.Why != "unknown" {
			t.Errorf("%+v", refused)
		}
		fail(t, claimOne(t, queue).Complete(ctx, 1))
		retry(t, claimOne(t, queue), "broken", rushgate.RetryOptions{GiveUp: true}, rushgate.RetryDead)
		sum := claimOne(t, queue)
		waited := testenv.Must[[]rushgate.Waited](t)(queue.Waited(ctx, "sum", rushgate.Page{}))
		if sum.ID != "sum" || len(waited) != 2 || waited[0].End != "done" || string(waited[0].Result.Payload) != "1" ||
			waited[1].End != "dead" || waited[1].Error != "broken" || waited[1].Result != nil {
			t.Fatalf("%+v", waited)
		}
	})
}

func TestAWaitingTaskIsRescheduled(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, _ *rushgate.Client, queue *rushgate.Queue) {
		expect := func(options rushgate.RescheduleOptions, want rushgate.RescheduleOutcome) rushgate.Rescheduled {
			t.Helper()
			rescheduled := testenv.Must[rushgate.Rescheduled](t)(queue.Reschedule(ctx, "a", options))
			if rescheduled.Outcome != want {
				t.Fatalf("%+v", rescheduled)
			}
			return rescheduled
		}
		enqueue(t, queue, rushgate.NewTask{ID: "a", Delay: 10 * time.Minute, DeadlineAfter: time.Hour}, rushgate.Added)
		moved := expect(rushgate.RescheduleOptions{Delay: time.Minute}, rushgate.RescheduleDone)
		task := testenv.Must[*rushgate.TaskInfo](t)(queue.Task(ctx, "a"))
		if left := task.Deadline.Sub(task.Due) - 59*time.Minute; !task.Due.Equal(moved.Due) || left < -time.Minute || left > time.Minute {
			t.Errorf("%+v and %+v", moved, task)
		}
		late := expect(rushgate.RescheduleOptions{Delay: 2 * time.Hour}, rushgate.RescheduleTooLate)
		if !late.Deadline.Equal(task.Deadline) || !late.Due.IsZero() {
			t.Errorf("%+v", late)
		}
		at := moved.Due.Add(1_000_001 * time.Microsecond)
		moved = expect(rushgate.RescheduleOptions{DueAt: at}, rushgate.RescheduleDone)
		if task := testenv.Must[*rushgate.TaskInfo](t)(queue.Task(ctx, "a")); !moved.Due.Equal(at) || !task.Due.Equal(at) {
			t.Errorf("%+v and %+v", moved, task)
		}
		expect(rushgate.RescheduleOptions{}, rushgate.RescheduleDone)
		claimed := claimOne(t, queue)
		if claimed.Attempt != 1 {
			t.Errorf("%+v", claimed.Task)
		}
		expect(rushgate.RescheduleOptions{}, rushgate.RescheduleLeased)
		fail(t, claimed.Complete(ctx, nil))
		expect(rushgate.RescheduleOptions{}, rushgate.RescheduleNotFound)
		for _, bad := range []rushgate.RescheduleOptions{
			{Delay: -1}, {Delay: 401 * 24 * time.Hour}, {DueAt: time.Unix(-1, 0)}, {Delay: 1, DueAt: at},
		} {
			if _, err := queue.Reschedule(ctx, "a", bad); !errors.Is(err, rushgate.ErrInvalid) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
	})
}

func TestATaskSaysWhenItWasClaimed(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, _ *rushgate.Client, queue *rushgate.Queue) {
		enqueue(t, queue, rushgate.NewTask{ID: "a"}, rushgate.Added)
		if task := testenv.Must[*rushgate.TaskInfo](t)(queue.Task(ctx, "a")); !task.ClaimedAt.IsZero() {
			t.Errorf("%+v", task)
		}
		claimed := claimOne(t, queue)
		task := testenv.Must[*rushgate.TaskInfo](t)(queue.Task(ctx, "a"))
		age := time.Since(claimed.ClaimedAt)
		if age < -time.Minute || age > time.Minute || !task.ClaimedAt.Equal(claimed.ClaimedAt) {
			t.Errorf("%v and %v", claimed.ClaimedAt, task.ClaimedAt)
		}
	})
}

func TestTheTasksThatWaitForATaskAreListed(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, _ *rushgate.Client, queue *rushgate.Queue) {
		expect := func(n int, want ...string) {
			t.Helper()
			if ids := testenv.Must[[]string](t)(queue.Dependents(ctx, "a", n)); len(ids) != len(want) || len(ids) > 0 && !reflect.DeepEqual(ids, want) {
				t.Errorf("%v", ids)
			}
		}
		expect(100)
		testenv.Must[[]rushgate.Enqueued](t)(queue.EnqueueAll(ctx, []rushgate.NewTask{
			{ID: "a"}, {ID: "z", After: []string{"a"}, IfDead: rushgate.IfDeadFail}, {ID: "y", After: []string{"a"}, IfDead: rushgate.IfDeadFail},
			{ID: "x", After: []string{"a"}},
		}))
		expect(100, "x", "z", "y")
		expect(2, "x", "z")
		for _, n := range []int{0, 1_001} {
			if _, err := queue.Dependents(ctx, "a", n); !errors.Is(err, rushgate.ErrInvalid) {
				t.Errorf("%d: %v", n, err)
			}
		}
	})
}

func TestABatchCallsBackWhenItIsClosedAndItsMembersAreDone(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, _ *rushgate.Client, queue *rushgate.Queue) {
		enqueue(t, queue, rushgate.NewTask{ID: "batch", HeldOpen: true}, rushgate.Added)
		enqueue(t, queue, rushgate.NewTask{ID: "member", PartOf: "batch"}, rushgate.Added)
		for _, one := range []struct {
			id   string
			want rushgate.Closed
		}{{"batch", rushgate.Closed{Outcome: "closed", Left: 1}}, {"batch", rushgate.Closed{Outcome: "not_open"}}, {"none", rushgate.Closed{Outcome: "not_found"}}} {
			if closed := testenv.Must[rushgate.Closed](t)(queue.CloseBatch(ctx, one.id)); closed != one.want {
				t.Errorf("%s: %+v", one.id, closed)
			}
		}
		fail(t, claimOne(t, queue).Complete(ctx, nil))
		if task := claimOne(t, queue); task.ID != "batch" {
			t.Errorf("%+v", task.Task)
		}
	})
}

func TestSchedulesAreSavedListedAndDeleted(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, _ *rushgate.Client, queue *rushgate.Queue) {
		nightly := rushgate.NewSchedule{ID: "nightly", Payload: 1, Kind: "report", Priority: rushgate.Ptr(0)}
		nightly.Cron, nightly.Zone = "30 3 * * mon-fri", "Europe/Berlin"
		often := rushgate.NewSchedule{ID: "often", Paused: rushgate.Ptr(true)}
		often.Every, often.Missed = time.Minute, rushgate.MissedAll
		for _, one := range []struct {
			schedule rushgate.NewSchedule
			want     rushgate.ScheduleOutcome
		}{{nightly, rushgate.ScheduleAdded}, {often, rushgate.ScheduleAdded}, {nightly, rushgate.ScheduleUnchanged}} {
			if outcome := testenv.Must[rushgate.ScheduleOutcome](t)(queue.SaveSchedule(ctx, one.schedule)); outcome != one.want {
				t.Errorf("%s: %s", one.schedule.ID, outcome)
			}
		}
		nightly.MaxAttempts = 3
		if outcome := testenv.Must[rushgate.ScheduleOutcome](t)(queue.SaveSchedule(ctx, nightly)); outcome != rushgate.ScheduleChanged {
			t.Errorf("outcome %s", outcome)
		}
		schedules := testenv.Must[[]rushgate.Schedule](t)(queue.Schedules(ctx, rushgate.Page{}))
		if len(schedules) != 2 || schedules[1].Recurrence != often.Recurrence || !schedules[1].Paused {
			t.Fatalf("%+v", schedules)
		}
		first := schedules[0]
		local := first.Next.In(testenv.Must[*time.Location](t)(time.LoadLocation("Europe/Berlin")))
		if local.Hour() != 3 || local.Minute() != 30 || local.Weekday() == time.Saturday || first.Kind != "report" ||
			first.Priority != 0 || first.MaxAttempts != 3 || first.Recurrence.Cron != nightly.Cron || first.Paused {
			t.Errorf("%+v", first)
		}
		if len(first.Upcoming) != 5 || !first.Upcoming[0].Equal(first.Next) || len(schedules[1].Upcoming) != 0 {
			t.Errorf("%v and %v", first.Upcoming, schedules[1].Upcoming)
		}
		often.Paused = rushgate.Ptr(false)
		testenv.Must[rushgate.ScheduleOutcome](t)(queue.SaveSchedule(ctx, often))
		page := testenv.Must[[]rushgate.Schedule](t)(queue.Schedules(ctx, rushgate.Page{After: "nightly"}))
		for at, moment := range page[0].Upcoming {
			if len(page[0].Upcoming) != 5 || !moment.Equal(page[0].Next.Add(time.Duration(at)*time.Minute)) {
				t.Errorf("%v", page[0].Upcoming)
			}
		}
		page = testenv.Must[[]rushgate.Schedule](t)(queue.Schedules(ctx, rushgate.Page{After: "nightly", Limit: 1}))
		if len(page) != 1 || page[0].ID != "often" {
			t.Errorf("%+v", page)
		}
		for _, want := range []bool{true, false} {
			if deleted := testenv.Must[bool](t)(queue.DeleteSchedule(ctx, "often")); deleted != want {
				t.Errorf("deleted %v", deleted)
			}
		}
	})
}

func TestStatsShowCountsAndLimits(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, _ *rushgate.Client, queue *rushgate.Queue) {
		limits := rushgate.Limits{
			Bound: rushgate.Ptr[uint64](100), Overflow: rushgate.DropOldest, Concurrency: 5, Rate: &rushgate.Rate{N: 10, Per: time.Second},
			PerKey:    rushgate.KeyLimits{Concurrency: 1, Rate: &rushgate.Rate{N: 3, Per: time.Minute}, FIFO: true},
			Retention: &rushgate.Retention{Age: time.Hour, Count: 7}, Events: 9,
		}
		fail(t, queue.SetLimits(ctx, limits))
		enqueue(t, queue, rushgate.NewTask{ID: "a"}, rushgate.Added)
		enqueue(t, queue, rushgate.NewTask{ID: "b", Delay: time.Hour}, rushgate.Added)
		claimOne(t, queue)
		enqueue(t, queue, rushgate.NewTask{ID: "c"}, rushgate.Added)
		fail(t, queue.Pause(ctx))
		stats := testenv.Must[*rushgate.QueueStats](t)(queue.Stats(ctx))
		if stats.Ready != 1 || stats.Scheduled != 1 || stats.Leased != 1 || !stats.Paused || stats.LastClaim.IsZero() {
			t.Errorf("%+v", stats)
		}
		if !reflect.DeepEqual(stats.Limits, limits) {
			t.Errorf("limits %+v", stats.Limits)
		}
		if claimed := testenv.Must[[]*rushgate.Claimed](t)(queue.Claim(ctx, rushgate.ClaimOptions{})); len(claimed) != 0 {
			t.Error("a paused queue")
		}
		fail(t, queue.Resume(ctx))
		if task := claimOne(t, queue); task.ID != "c" {
			t.Errorf("%+v", task.Task)
		}
		fail(t, queue.SetLimits(ctx, rushgate.Limits{}))
		stats = testenv.Must[*rushgate.QueueStats](t)(queue.Stats(ctx))
		if !reflect.DeepEqual(stats.Limits, rushgate.Limits{Overflow: rushgate.Refuse}) {
			t.Errorf("limits %+v", stats.Limits)
		}
	})
}

func TestWhyTellsWhatATaskWaitsFor(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, _ *rushgate.Client, queue *rushgate.Queue) {
		why := func(id string) []rushgate.Why {
			t.Helper()
			return testenv.Must[[]rushgate.Why](t)(queue.Why(ctx, id))
		}
		expect := func(id string, want ...string) []rushgate.Why {
			t.Helper()
			reasons := why(id)
			var words []string
			for _, one := range reasons {
				words = append(words, one.Reason)
			}
			if !reflect.DeepEqual(words, want) {
				t.Errorf("%s: %v, not %v", id, words, want)
				return make([]rushgate.Why, len(want))
			}
			return reasons
		}
		retention := &rushgate.Retention{Age: time.Hour, Count: 10}
		fail(t, queue.SetLimits(ctx, rushgate.Limits{Retention: retention, PerKey: rushgate.KeyLimits{FIFO: true}}))
		expect("never", "unknown")
		enqueue(t, queue, rushgate.NewTask{ID: "later", Delay: time.Hour, DeadlineAfter: 2 * time.Hour}, rushgate.Added)
		if later := expect("later", "not_due", "deadline"); later[0].Wait < 59*time.Minute || later[1].TimeLeft < 119*time.Minute {
			t.Errorf("%+v", later)
		}
		enqueue(t, queue, rushgate.NewTask{ID: "a", Key: "ann", UniqueFor: time.Hour}, rushgate.Added)
		enqueue(t, queue, rushgate.NewTask{ID: "b", Key: "ann"}, rushgate.Added)
		if waiting := expect("a", "waiting"); waiting[0].Ahead == nil || *waiting[0].Ahead != 0 || !waiting[0].LastClaim.IsZero() {
			t.Errorf("%+v", waiting)
		}
		if line := expect("b", "in_line"); line[0].FirstInLine != "a" || line[0].Key != "ann" {
			t.Errorf("%+v", line)
		}
		claimed := claimOne(t, queue)
		if running := expect("a", "running"); running[0].Fence != claimed.Fence || running[0].LeaseLeft <= 0 || running[0].Attempt != 1 {
			t.Errorf("%+v", running)
		}
		if busy := expect("b", "key_busy"); len(busy[0].Running) != 1 || busy[0].Running[0].ID != "a" {
			t.Errorf("%+v", busy)
		}
		enqueue(t, queue, rushgate.NewTask{ID: "next", After: []string{"a"}}, rushgate.Added)
		if waits := expect("next", "waits_for"); waits[0].Left != 1 || len(waits[0].WaitsFor) != 1 || waits[0].WaitsFor[0].ID != "a" {
			t.Errorf("%+v", waits)
		}
		fail(t, claimed.Complete(ctx, nil))
		if over := expect("a", "done", "unique"); over[0].How != "done" || over[1].TimeLeft < 50*time.Minute {
			t.Errorf("%+v", over)
		}
		fail(t, queue.Pause(ctx))
		expect("next", "paused")
		expect("later", "paused", "not_due", "deadline")
		fail(t, queue.Resume(ctx))
		fail(t, queue.SetLimits(ctx, rushgate.Limits{Retention: retention, Concurrency: 1, Rate: &rushgate.Rate{N: 1, Per: time.Hour}}))
		claimed = claimOne(t, queue)
		busy := expect("next", "queue_busy", "rate_limited")
		if busy[0].Concurrency != 1 || len(busy[0].Running) != 1 || busy[1].Wait < 50*time.Minute {
			t.Errorf("%+v", busy)
		}
		retry(t, claimed, "broken", rushgate.RetryOptions{GiveUp: true}, rushgate.RetryDead)
		if dead := expect(claimed.ID, "dead"); dead[0].Error != "broken" || dead[0].MaxAttempts != 20 || dead[0].Attempts != 1 {
			t.Errorf("%+v", dead)
		}
	})
}

func TestALargeBatchIsEnqueuedAndClaimedWhole(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, _ *rushgate.Client, queue *rushgate.Queue) {
		tasks := make([]rushgate.NewTask, 1_000)
		payload := bytes.Repeat([]byte("x"), 1_000)
		for n := range tasks {
			tasks[n] = rushgate.NewTask{ID: fmt.Sprint(n), Payload: payload}
		}
		outcomes := testenv.Must[[]rushgate.Enqueued](t)(queue.EnqueueAll(ctx, tasks))
		claimed := testenv.Must[[]*rushgate.Claimed](t)(queue.Claim(ctx, rushgate.ClaimOptions{N: 1_000}))
		if len(outcomes) != 1_000 || len(claimed) != 1_000 || !bytes.Equal(claimed[999].Payload, payload) {
			t.Errorf("%d of %d", len(claimed), len(outcomes))
		}
	})
}

func enqueue(t *testing.T, queue *rushgate.Queue, task rushgate.NewTask, want rushgate.EnqueueOutcome) rushgate.Enqueued {
	t.Helper()
	enqueued := testenv.Must[rushgate.Enqueued](t)(queue.Enqueue(context.Background(), task))
	if enqueued.Outcome != want {
		t.Fatalf("%s: %+v, not %s", task.ID, enqueued, want)
	}
	return enqueued
}

func claimOne(t *testing.T, queue *rushgate.Queue) *rushgate.Claimed {
	t.Helper()
	claimed := testenv.Must[[]*rushgate.Claimed](t)(queue.Claim(context.Background(), waitClaim))
	if len(claimed) != 1 {
		t.Fatalf("%d tasks", len(claimed))
	}
	return claimed[0]
}

func retry(t *testing.T, task *rushgate.Claimed, message string, options rushgate.RetryOptions, want rushgate.RetryOutcome) {
	t.Helper()
	outcome := testenv.Must[rushgate.RetryOutcome](t)(task.Retry(context.Background(), message, options))
	if outcome != want {
		t.Fatalf("outcome %s, not %s", outcome, want)
	}
}

func fail(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
