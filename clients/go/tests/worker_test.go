package tests

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rushgate "github.com/rushgate/rushgate/clients/go"
	"github.com/rushgate/rushgate/clients/go/internal/contract"
	"github.com/rushgate/rushgate/clients/go/internal/testenv"
)

func init() { contract.AnnounceEach = 100 * time.Millisecond }

// at once: a failed task is due again without a delay.
var atOnce = rushgate.Backoff{Base: time.Microsecond, Max: time.Microsecond}

// running is a worker that runs until stop.
type running struct {
	*rushgate.Worker
	t       *testing.T
	cancel  context.CancelFunc
	stopped chan error
}

func start(t *testing.T, worker *rushgate.Worker) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Worker: worker, t: t, cancel: cancel, stopped: make(chan error, 1)}
	go func() { r.stopped <- worker.Run(ctx) }()
	t.Cleanup(cancel)
	return r
}

// until waits for counters.
func (r *running) until(what string, isTrue func(rushgate.Report) bool) {
	r.t.Helper()
	testenv.Until(r.t, fmt.Sprintf("%s in %+v", what, r.Report()), func() bool { return isTrue(r.Report()) })
}

// stop stops the worker and returns its report.
func (r *running) stop() rushgate.Report {
	r.t.Helper()
	r.cancel()
	select {
	case err := <-r.stopped:
		if err != nil {
			r.t.Fatal(err)
		}
	case <-time.After(testenv.Patience):
		r.t.Fatal("the worker does not stop")
	}
	return r.Report()
}

func nothing(context.Context, *rushgate.Job) (any, error) { return nil, nil }

func TestAWorkerSelectsTheHandlerByKind(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, client *rushgate.Client, queue *rushgate.Queue) {
		fail(t, queue.SetLimits(ctx, rushgate.Limits{Retention: &rushgate.Retention{Age: time.Hour, Count: 10}}))
		worker := client.Worker(queue.Name(), rushgate.WorkerOptions{Concurrency: 2, Label: "test"})
		worker.Handle("add", rushgate.JSON(func(_ context.Context, numbers []int, job *rushgate.Job) (any, error) {
			if job.Attempt != 1 || job.Fence == 0 {
				return nil, fmt.Errorf("%+v", job.Task)
			}
			return numbers[0] + numbers[1], nil
		}))
		worker.Handle(rushgate.AnyKind, func(_ context.Context, job *rushgate.Job) (any, error) { return []byte(job.Kind), nil })
		r := start(t, worker)
		enqueue(t, queue, rushgate.NewTask{ID: "sum", Kind: "add", Payload: []int{20, 22}}, rushgate.Added)
		enqueue(t, queue, rushgate.NewTask{ID: "other", Kind: "other"}, rushgate.Added)
		for id, want := range map[string]string{"sum": "42", "other": "other"} {
			ended := testenv.Must[rushgate.Ended](t)(queue.WaitFor(ctx, id, testenv.Patience))
			if ended.Task == nil || string(ended.Task.Finished.Result.Payload) != want || ended.Task.Worker != "test" {
				t.Errorf("%s: %+v", id, ended)
			}
		}
		if report := r.stop(); report != (rushgate.Report{Claimed: 2, Done: 2}) {
			t.Errorf("%+v", report)
		}
	})
}

func TestAWorkerWithoutAHandlerForTheKindRetries(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, client *rushgate.Client, queue *rushgate.Queue) {
		worker := client.Worker(queue.Name(), rushgate.WorkerOptions{Backoff: atOnce})
		worker.Handle("known", nothing)
		r := start(t, worker)
		enqueue(t, queue, rushgate.NewTask{ID: "a", Kind: "unknown", MaxAttempts: 2}, rushgate.Added)
		r.until("a dead letter", func(report rushgate.Report) bool { return report.Dead == 1 })
		if report := r.stop(); report != (rushgate.Report{Claimed: 2, Retried: 1, Dead: 1}) {
			t.Errorf("%+v", report)
		}
	})
}

func TestFailuresPanicsAndPayloadsThatCannotBeDecodedBecomeDeadLetters(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, client *rushgate.Client, queue *rushgate.Queue) {
		worker := client.Worker(queue.Name(), rushgate.WorkerOptions{Backoff: atOnce})
		worker.Handle("fail", func(context.Context, *rushgate.Job) (any, error) { return nil, errors.New("no ink") })
		worker.Handle("panic", func(context.Context, *rushgate.Job) (any, error) { panic("paper jam") })
		worker.Handle("decode", rushgate.JSON(func(context.Context, struct{ To string }, *rushgate.Job) (any, error) { return nil, nil }))
		worker.Handle("result", func(context.Context, *rushgate.Job) (any, error) { return make(chan int), nil })
		r := start(t, worker)
		for _, kind := range []string{"fail", "panic", "decode", "result"} {
			task := rushgate.NewTask{ID: kind, Kind: kind, MaxAttempts: 2, Payload: []byte("{not json"), ContentType: "application/json"}
			enqueue(t, queue, task, rushgate.Added)
		}
		r.until("four dead letters", func(report rushgate.Report) bool { return report.Dead == 4 })
		if report := r.stop(); report != (rushgate.Report{Claimed: 7, Retried: 3, Dead: 4}) {
			t.Errorf("%+v", report)
		}
		texts := map[string]string{"fail": "no ink", "panic": "worker_test.go", "decode": "cannot be decoded", "result": "JSON"}
		for _, letter := range testenv.Must[[]rushgate.DeadLetter](t)(queue.Dead(ctx, rushgate.Page{})) {
			if !strings.Contains(letter.Error, texts[letter.ID]) || string(letter.Payload) != "{not json" || len(letter.Error) > 2_000 {
				t.Errorf("%s: %s", letter.ID, letter.Error)
			}
		}
	})
}

func TestAHandlerDecidesWhatHappensToItsTask(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, client *rushgate.Client, queue *rushgate.Queue) {
		own := errors.New("reason")
		verdicts := map[string]error{
			"give up": rushgate.GiveUp(own), "discard": fmt.Errorf("wrapped: %w", rushgate.Discard(own)),
			"snooze": rushgate.Snooze(time.Hour), "later": rushgate.RetryAfter(time.Hour, own),
		}
		worker := client.Worker(queue.Name(), rushgate.WorkerOptions{})
		worker.Handle(rushgate.AnyKind, func(_ context.Context, job *rushgate.Job) (any, error) {
			return nil, verdicts[strings.ReplaceAll(job.ID, "-", " ")]
		})
		for id := range verdicts {
			enqueue(t, queue, rushgate.NewTask{ID: strings.ReplaceAll(id, " ", "-")}, rushgate.Added)
		}
		r := start(t, worker)
		r.until("all ended", func(report rushgate.Report) bool {
			return report.Dead+report.Discarded+report.Released+report.Retried == 4
		})
		if report := r.stop(); report != (rushgate.Report{Claimed: 4, Dead: 1, Discarded: 1, Released: 1, Retried: 1}) {
			t.Errorf("%+v", report)
		}
		for id, attempt := range map[string]int{"snooze": 0, "later": 1} {
			task := testenv.Must[*rushgate.TaskInfo](t)(queue.Task(ctx, id))
			if task.State != rushgate.Scheduled || task.Attempt != attempt || time.Until(task.Due) < 50*time.Minute {
				t.Errorf("%s: %+v", id, task)
			}
		}
	})
}

func TestATimeoutOrADeadlineFailsTheAttempt(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, client *rushgate.Client, queue *rushgate.Queue) {
		worker := client.Worker(queue.Name(), rushgate.WorkerOptions{Timeout: 300 * time.Millisecond, Backoff: atOnce})
		reasons := make(chan error, 2)
		worker.Handle("polite", func(ctx context.Context, _ *rushgate.Job) (any, error) {
			<-ctx.Done()
			reasons <- cause(ctx)
			return nil, ctx.Err()
		})
		forever := make(chan struct{})
		t.Cleanup(func() { close(forever) })
		worker.Handle("stuck", func(context.Context, *rushgate.Job) (any, error) { <-forever; return nil, nil })
		r := start(t, worker)
		enqueue(t, queue, rushgate.NewTask{ID: "a", Kind: "polite", MaxAttempts: 1}, rushgate.Added)
		enqueue(t, queue, rushgate.NewTask{ID: "b", Kind: "stuck", MaxAttempts: 1}, rushgate.Added)
		enqueue(t, queue, rushgate.NewTask{ID: "c", Kind: "polite", MaxAttempts: 1, DeadlineAfter: 200 * time.Millisecond}, rushgate.Added)
		r.until("three dead letters", func(report rushgate.Report) bool { return report.Dead == 3 })
		for _, letter := range testenv.Must[[]rushgate.DeadLetter](t)(queue.Dead(ctx, rushgate.Page{})) {
			if !strings.Contains(letter.Error, "did not end within") {
				t.Errorf("%s: %s", letter.ID, letter.Error)
			}
		}
		if reason := <-reasons; reason != nil && !errors.Is(reason, rushgate.ErrTaskTimeout) {
			t.Errorf("reason %v", reason)
		}
		r.stop()
	})
}

func TestHeartbeatsKeepTheClaimAndCarryProgress(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, client *rushgate.Client, queue *rushgate.Queue) {
		end := make(chan struct{})
		worker := client.Worker(queue.Name(), rushgate.WorkerOptions{Lease: 900 * time.Millisecond})
		worker.Handle(rushgate.AnyKind, func(ctx context.Context, job *rushgate.Job) (any, error) {
			if err := job.Report(rushgate.Progress{Percent: rushgate.Ptr(50), Note: "half"}); err != nil {
				return nil, err
			}
			<-end
			return nil, ctx.Err()
		})
		r := start(t, worker)
		enqueue(t, queue, rushgate.NewTask{ID: "a"}, rushgate.Added)
		var first time.Time
		testenv.Until(t, "the lease is a second longer", func() bool {
			task, err := queue.Task(ctx, "a")
			if err != nil || task.State != rushgate.Leased {
				return false
			}
			if first.IsZero() {
				first = task.LeaseUntil
			}
			return task.LeaseUntil.Sub(first) > time.Second && task.Progress != nil && *task.Progress.Percent == 50
		})
		close(end)
		r.until("done", func(report rushgate.Report) bool { return report.Done == 1 })
		if report := r.stop(); report != (rushgate.Report{Claimed: 1, Done: 1}) {
			t.Errorf("%+v", report)
		}
	})
}

func TestACanceledTaskStopsItsHandler(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, client *rushgate.Client, queue *rushgate.Queue) {
		started, reasons := make(chan bool, 1), make(chan error, 1)
		worker := client.Worker(queue.Name(), rushgate.WorkerOptions{Lease: 300 * time.Millisecond})
		worker.Handle(rushgate.AnyKind, func(ctx context.Context, _ *rushgate.Job) (any, error) {
			started <- true
			<-ctx.Done()
			reasons <- cause(ctx)
			return nil, ctx.Err()
		})
		r := start(t, worker)
		enqueue(t, queue, rushgate.NewTask{ID: "a"}, rushgate.Added)
		<-started
		if outcome := testenv.Must[rushgate.CancelOutcome](t)(queue.Cancel(ctx, "a")); outcome != rushgate.CancelMarked {
			t.Errorf("outcome %s", outcome)
		}
		if reason := <-reasons; reason != nil && !errors.Is(reason, rushgate.ErrTaskCanceled) {
			t.Errorf("reason %v", reason)
		}
		r.until("canceled", func(report rushgate.Report) bool { return report.Canceled == 1 })
		if report := r.stop(); report != (rushgate.Report{Claimed: 1, Canceled: 1}) {
			t.Errorf("%+v", report)
		}
	})
}

func TestALostClaimStopsItsHandler(t *testing.T) {
	testenv.Each(t, testenv.Single, func(t *testing.T, target testenv.Target) {
		proxy := testenv.NewProxy(t, target.URL)
		client := testenv.ConnectWith(t, proxy.URL, testenv.Options(target.URL))
		queue := target.Connect(t).Queue(testenv.Unique("queue"))
		started, reasons := make(chan bool, 1), make(chan error, 1)
		worker := client.Worker(queue.Name(), rushgate.WorkerOptions{Lease: 300 * time.Millisecond})
		worker.Handle(rushgate.AnyKind, func(ctx context.Context, _ *rushgate.Job) (any, error) {
			started <- true
			<-ctx.Done()
			reasons <- cause(ctx)
			return nil, nil
		})
		enqueue(t, queue, rushgate.NewTask{ID: "a"}, rushgate.Added)
		r := start(t, worker)
		<-started
		proxy.Stop()
		if reason := <-reasons; reason != nil && !errors.Is(reason, rushgate.ErrClaimLost) {
			t.Errorf("reason %v", reason)
		}
		if task := claimOne(t, queue); task.Attempt != 2 {
			t.Errorf("%+v", task.Task)
		}
		r.until("lost", func(report rushgate.Report) bool { return report.Lost == 1 })
		r.stop()
	})
}

func TestAStopLetsHandlersEndWithinTheGrace(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, client *rushgate.Client, queue *rushgate.Queue) {
		started, end := make(chan bool, 1), make(chan struct{})
		worker := client.Worker(queue.Name(), rushgate.WorkerOptions{Concurrency: 1, Grace: testenv.Patience})
		worker.Handle(rushgate.AnyKind, func(ctx context.Context, _ *rushgate.Job) (any, error) {
			started <- true
			<-end
			return nil, ctx.Err()
		})
		r := start(t, worker)
		enqueue(t, queue, rushgate.NewTask{ID: "a"}, rushgate.Added)
		enqueue(t, queue, rushgate.NewTask{ID: "b"}, rushgate.Added)
		<-started
		r.cancel()
		close(end)
		if report := r.stop(); report != (rushgate.Report{Claimed: 1, Done: 1}) {
			t.Errorf("%+v", report)
		}
		if task := claimOne(t, queue); task.ID != "b" || task.Attempt != 1 {
			t.Errorf("%+v", task.Task)
		}
	})
}

func TestTheEndOfTheGraceReturnsTheTasks(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, client *rushgate.Client, queue *rushgate.Queue) {
		started, reasons := make(chan bool, 1), make(chan error, 1)
		worker := client.Worker(queue.Name(), rushgate.WorkerOptions{Grace: 50 * time.Millisecond})
		worker.Handle(rushgate.AnyKind, func(ctx context.Context, _ *rushgate.Job) (any, error) {
			started <- true
			<-ctx.Done()
			reasons <- cause(ctx)
			return nil, ctx.Err()
		})
		r := start(t, worker)
		enqueue(t, queue, rushgate.NewTask{ID: "a"}, rushgate.Added)
		<-started
		if report := r.stop(); report != (rushgate.Report{Claimed: 1, Released: 1}) {
			t.Errorf("%+v", report)
		}
		if reason := <-reasons; reason != nil && !errors.Is(reason, rushgate.ErrWorkerStopped) {
			t.Errorf("reason %v", reason)
		}
		if task := claimOne(t, queue); task.Attempt != 1 {
			t.Errorf("%+v", task.Task)
		}
	})
}

func TestAWorkerRunsAsManyHandlersAsItsConcurrency(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, client *rushgate.Client, queue *rushgate.Queue) {
		const tasks, concurrency = 40, 4
		var now, most atomic.Int64
		full := make(chan struct{})
		worker := client.Worker(queue.Name(), rushgate.WorkerOptions{Concurrency: concurrency})
		worker.Handle(rushgate.AnyKind, func(context.Context, *rushgate.Job) (any, error) {
			n := now.Add(1)
			defer now.Add(-1)
			if n > concurrency {
				return nil, rushgate.GiveUp(errors.New("too many handlers"))
			}
			if n == concurrency && most.Swap(n) < n {
				close(full)
			}
			<-full
			return nil, nil
		})
		batch := make([]rushgate.NewTask, tasks)
		for n := range batch {
			batch[n].ID = fmt.Sprint(n)
		}
		testenv.Must[[]rushgate.Enqueued](t)(queue.EnqueueAll(ctx, batch))
		r := start(t, worker)
		r.until("all done", func(report rushgate.Report) bool { return report.Done == tasks })
		if report := r.stop(); report != (rushgate.Report{Claimed: tasks, Done: tasks}) {
			t.Errorf("%+v", report)
		}
	})
}

func TestAJobReadsTheResultsThatItWaitedFor(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, client *rushgate.Client, queue *rushgate.Queue) {
		const parts = 120
		sums := make(chan int, 1)
		worker := client.Worker(queue.Name(), rushgate.WorkerOptions{})
		worker.Handle("part", func(_ context.Context, job *rushgate.Job) (any, error) { return 1, nil })
		worker.Handle("sum", func(ctx context.Context, job *rushgate.Job) (any, error) {
			waited, err := job.Waited(ctx)
			sum := 0
			for _, one := range waited {
				var number int
				if decodeErr := one.Result.Decode(&number); decodeErr != nil {
					err = decodeErr
				}
				sum += number
			}
			sums <- sum
			return nil, err
		})
		batch := []rushgate.NewTask{}
		after := []string{}
		for n := 0; n < parts; n++ {
			after = append(after, fmt.Sprint(n))
			batch = append(batch, rushgate.NewTask{ID: after[n], Kind: "part"})
		}
		batch = append(batch, rushgate.NewTask{ID: "sum", Kind: "sum", After: after})
		testenv.Must[[]rushgate.Enqueued](t)(queue.EnqueueAll(ctx, batch))
		r := start(t, worker)
		if sum := <-sums; sum != parts {
			t.Errorf("sum %d", sum)
		}
		r.stop()
	})
}

func TestAWorkerIsRefusedWithoutHandlersAndASecondTime(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, client *rushgate.Client, queue *rushgate.Queue) {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		none := client.Worker(queue.Name(), rushgate.WorkerOptions{})
		twice := client.Worker(queue.Name(), rushgate.WorkerOptions{})
		twice.Handle("a", nothing)
		fail(t, twice.Run(ended))
		double := client.Worker(queue.Name(), rushgate.WorkerOptions{})
		double.Handle("a", nothing)
		double.Handle("a", nothing)
		wrong := client.Worker(queue.Name(), rushgate.WorkerOptions{Concurrency: -1})
		wrong.Handle("a", nothing)
		for _, worker := range []*rushgate.Worker{none, twice, double, wrong} {
			if err := worker.Run(ended); !errors.Is(err, rushgate.ErrInvalid) {
				t.Errorf("error %v", err)
			}
		}
	})
}

func TestAnOperatorSeesQuietsAndStopsAWorker(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, client *rushgate.Client, queue *rushgate.Queue) {
		worker := client.Worker(queue.Name(), rushgate.WorkerOptions{Label: "shop", Concurrency: 3})
		worker.Handle(rushgate.AnyKind, nothing)
		r := start(t, worker)
		// seen returns the worker once it has announced itself after a time.
		seen := func(after time.Time) (info rushgate.WorkerInfo) {
			testenv.Until(t, "the worker announces itself", func() bool {
				workers, err := queue.Workers(ctx, rushgate.Page{})
				fail(t, err)
				if len(workers) == 1 {
					info = workers[0]
				}
				return len(workers) == 1 && info.Seen.After(after)
			})
			return info
		}
		set := func(id string, mode rushgate.WorkerMode) {
			if found, err := queue.SetWorker(ctx, id, mode); err != nil || !found {
				t.Fatal(found, err)
			}
		}
		info := seen(time.Time{})
		if info.Name != "shop" || info.Concurrency != 3 || info.Running != 0 || info.Mode != rushgate.WorkerWork ||
			info.Version != "rushgate-go "+rushgate.Version || len(info.ID) != 16 {
			t.Fatalf("%+v", info)
		}
		if lease := info.LeaseUntil.Sub(info.Seen); lease < 29*time.Second || lease > 31*time.Second {
			t.Fatal(lease)
		}
		set(info.ID, rushgate.WorkerQuiet)
		// After the second announcement, the worker has the answer of the first.
		info = seen(seen(seen(info.Seen).Seen).Seen)
		if info.Mode != rushgate.WorkerQuiet {
			t.Fatalf("%+v", info)
		}
		_, err := queue.Enqueue(ctx, rushgate.NewTask{ID: "a"})
		fail(t, err)
		time.Sleep(200 * time.Millisecond)
		if worker.Report().Claimed != 0 {
			t.Fatal("a quiet worker claimed a task")
		}
		set(info.ID, rushgate.WorkerWork)
		r.until("the task has run", func(report rushgate.Report) bool { return report.Done == 1 })
		set(info.ID, rushgate.WorkerStop)
		select {
		case err := <-r.stopped:
			fail(t, err)
		case <-time.After(testenv.Patience):
			t.Fatal("the worker does not stop")
		}
		workers, err := queue.Workers(ctx, rushgate.Page{})
		if fail(t, err); len(workers) != 0 {
			t.Fatalf("%+v", workers)
		}
		if found, err := queue.SetWorker(ctx, info.ID, rushgate.WorkerWork); err != nil || found {
			t.Fatal(found, err)
		}
		if _, err := queue.SetWorker(ctx, info.ID, "sleep"); !errors.Is(err, rushgate.ErrInvalid) {
			t.Fatal(err)
		}
	})
}

func TestAServerWithoutAnnouncementsStopsNoWorkerAndIsReportedOnce(t *testing.T) {
	testenv.Each(t, testenv.Single, func(t *testing.T, target testenv.Target) {
		proxy := testenv.NewProxy(t, target.URL)
		// As an older server answers: it has no such function, and no such route.
		proxy.Replace("queue_announce", "queue_unknownn", "/workers/", "/unknown/")
		client := testenv.ConnectWith(t, proxy.URL, testenv.Options(target.URL))
		queue := target.Connect(t).Queue(testenv.Unique("queue"))
		var mu sync.Mutex
		var reported []string
		worker := client.Worker(queue.Name(), rushgate.WorkerOptions{OnError: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			reported = append(reported, err.Error())
		}})
		worker.Handle(rushgate.AnyKind, func(context.Context, *rushgate.Job) (any, error) {
			testenv.Until(t, "the worker announces itself again", func() bool { return proxy.Replaced() >= 3 })
			return nil, nil
		})
		r := start(t, worker)
		enqueue(t, queue, rushgate.NewTask{ID: "a"}, rushgate.Added)
		r.until("the task has run", func(report rushgate.Report) bool { return report.Done == 1 })
		r.stop()
		mu.Lock()
		defer mu.Unlock()
		if len(reported) == 1 && !strings.HasPrefix(target.URL, "http") && !strings.Contains(reported[0], "or older than this package") {
			t.Errorf("%q", reported)
		}
		if len(reported) != 1 || !strings.HasPrefix(reported[0], "cannot announce the worker to the queue "+queue.Name()+": ") {
			t.Errorf("%q", reported)
		}
	})
}
