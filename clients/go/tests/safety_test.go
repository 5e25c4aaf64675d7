package tests

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	rushgate "github.com/rushgate/rushgate/clients/go"
	"github.com/rushgate/rushgate/clients/go/internal/testenv"
)

// proxied returns a client that reaches the target through a proxy.
func proxied(t *testing.T, target testenv.Target) (*testenv.Proxy, *rushgate.Client) {
	t.Helper()
	proxy := testenv.NewProxy(t, target.URL)
	return proxy, testenv.ConnectWith(t, proxy.URL, proxiedOptions(target))
}

func proxiedOptions(target testenv.Target) rushgate.Options {
	options := testenv.Options(target.URL)
	options.Timeout = time.Second
	return options
}

// verb is what a request contains.
func verb(target testenv.Target, function, path string) string {
	if target.IsHTTP() {
		return path
	}
	return "rushgate_1_" + function
}

// losing runs a call whose answer is lost, with its connection or with all that follows on it.
func losing(t *testing.T, lost <-chan struct{}, call func()) {
	t.Helper()
	call()
	select {
	case <-lost:
	case <-time.After(testenv.Patience):
		t.Fatal("no answer was lost")
	}
}

func TestACallWhoseAnswerIsLostTakesEffectOnce(t *testing.T) {
	testenv.Each(t, testenv.Single, func(t *testing.T, target testenv.Target) {
		proxy, client := proxied(t, target)
		direct, ctx := target.Connect(t), testenv.Context(t)
		queue, lock := client.Queue(testenv.Unique("queue")), client.Lock(testenv.Unique("lock"), rushgate.LockOptions{})
		losing(t, proxy.Lose(verb(target, "queue_enqueue", "/batch")), func() {
			enqueue(t, queue, rushgate.NewTask{ID: "a"}, rushgate.Added)
		})
		var task *rushgate.Claimed
		losing(t, proxy.Lose(verb(target, "queue_claim", "/claim")), func() { task = claimOne(t, queue) })
		losing(t, proxy.Lose(verb(target, "queue_retry", "/retry")), func() {
			retry(t, task, "x", rushgate.RetryOptions{}, rushgate.RetryScheduled)
		})
		if task = claimOne(t, queue); task.Attempt != 2 {
			t.Errorf("attempt %d", task.Attempt)
		}
		losing(t, proxy.Lose(verb(target, "queue_release", "/release")), func() { fail(t, task.Release(ctx, 0)) })
		if task = claimOne(t, queue); task.Attempt != 2 {
			t.Errorf("attempt %d", task.Attempt)
		}
		losing(t, proxy.Lose(verb(target, "queue_complete", "/complete")), func() { fail(t, task.Complete(ctx, nil)) })
		var held *rushgate.Held
		losing(t, proxy.Lose(verb(target, "lock_acquire", "/acquire")), func() { held = acquire(t, lock, wait) })
		state := testenv.Must[*rushgate.LockState](t)(direct.Lock(lock.Name(), rushgate.LockOptions{}).State(ctx))
		if state.Holder == nil || state.Holder.Fence != held.Fence() {
			t.Errorf("%+v", state)
		}
		losing(t, proxy.Lose(verb(target, "lock_release", "/release")), func() { release(t, held) })
	})
}

func TestAReservationWhoseAnswerIsLostTakesItsUnitsOnce(t *testing.T) {
	testenv.Each(t, testenv.Single, func(t *testing.T, target testenv.Target) {
		proxy, client := proxied(t, target)
		sale := newSale(t, client, rushgate.NewSale{
			ID: testenv.Unique("sale"), SKUs: []rushgate.NewSKU{{SKU: "phone", Units: 3, PerBuyer: 3}}, Ledger: rushgate.Ptr(false),
		})
		var reserved rushgate.Reserved
		losing(t, proxy.Lose(verb(target, "sale_reserve", "/reservations")), func() {
			reserved = testenv.Must[rushgate.Reserved](t)(sale.Reserve(context.Background(), buyer("ann")))
		})
		state := testenv.Must[*rushgate.SaleState](t)(sale.State(testenv.Context(t)))
		if reserved.Hold == nil || state.SKUs[0].Held != 1 {
			t.Errorf("%+v, %+v", reserved, state)
		}
	})
}

func TestAConnectionThatStallsIsReplaced(t *testing.T) {
	testenv.Each(t, testenv.Single, func(t *testing.T, target testenv.Target) {
		proxy, client := proxied(t, target)
		queue := client.Queue(testenv.Unique("queue"))
		losing(t, proxy.Stall(verb(target, "queue_enqueue", "/batch")), func() {
			enqueue(t, queue, rushgate.NewTask{ID: "a"}, rushgate.Added)
		})
		claimOne(t, queue)
	})
}

func TestAFailedExtensionIsRepeatedBeforeTheLeaseEnds(t *testing.T) {
	testenv.Each(t, testenv.Single, func(t *testing.T, target testenv.Target) {
		proxy, options := testenv.NewProxy(t, target.URL), proxiedOptions(target)
		options.RetryFor = 500 * time.Millisecond
		name := testenv.Unique("lock")
		held := acquire(t, testenv.ConnectWith(t, proxy.URL, options).Lock(name, rushgate.LockOptions{}), rushgate.AcquireOptions{})
		direct := target.Connect(t).Lock(name, rushgate.LockOptions{})
		before := leaseUntil(t, direct)
		proxy.Pause()
		if err := held.Extend(testenv.Context(t), 4*time.Second); !errors.Is(err, rushgate.ErrUnavailable) {
			t.Fatal(err)
		}
		proxy.Resume()
		// A third of the old lease would be after the end of the new one.
		testenv.Until(t, "the lease is extended", func() bool { return held.Err() != nil || leaseUntil(t, direct).Before(before) })
		fail(t, held.Err())
		release(t, held)
	})
}

func TestAHeldLockAndAWaiterSurviveTheEndOfAllConnections(t *testing.T) {
	testenv.Each(t, testenv.Single, func(t *testing.T, target testenv.Target) {
		proxy, client := proxied(t, target)
		name := testenv.Unique("lock")
		options := rushgate.LockOptions{Lease: 1500 * time.Millisecond}
		direct := target.Connect(t).Lock(name, options)
		held := acquire(t, client.Lock(name, options), rushgate.AcquireOptions{})
		next := make(chan *rushgate.Held)
		go func() {
			got, err := client.Lock(name, options).Acquire(context.Background(), wait)
			if err != nil {
				t.Error(err)
			}
			next <- got
		}()
		untilWaiters(t, direct, 1)
		before := leaseUntil(t, direct)
		proxy.Cut()
		testenv.Until(t, "the lease is renewed", func() bool { return leaseUntil(t, direct).After(before) })
		untilWaiters(t, direct, 1)
		if held.Err() != nil {
			t.Fatal(held.Err())
		}
		release(t, held)
		if got := <-next; got != nil {
			release(t, got)
		}
	})
}

func TestAWaitingClientSurvivesTheDeathOfItsConnections(t *testing.T) {
	testenv.Each(t, func(target testenv.Target) bool { return target.Name == "redis" }, func(t *testing.T, target testenv.Target) {
		client, ctx := target.Connect(t), testenv.Context(t)
		queue := client.Queue(testenv.Unique("queue"))
		claimed := make(chan string)
		go func() {
			tasks, err := queue.Claim(ctx, waitClaim)
			if err != nil || len(tasks) != 1 {
				t.Errorf("%v, %v", tasks, err)
				close(claimed)
				return
			}
			claimed <- tasks[0].ID
		}()
		listeners := "rg:{q:" + queue.Name() + "}:listeners"
		testenv.Until(t, "the client listens", func() bool { return testenv.Command(t, target, "EXISTS", listeners) == int64(1) })
		for _, kind := range []string{"normal", "pubsub"} {
			testenv.Command(t, target, "CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
		}
		enqueue(t, queue, rushgate.NewTask{ID: "a"}, rushgate.Added)
		if id := <-claimed; id != "a" {
			t.Errorf("claimed %q", id)
		}
	})
}

func TestAWorkerContinuesAfterTheEndOfItsConnections(t *testing.T) {
	testenv.Each(t, testenv.Single, func(t *testing.T, target testenv.Target) {
		proxy, client := proxied(t, target)
		queue := target.Connect(t).Queue(testenv.Unique("queue"))
		worker := client.Worker(queue.Name(), rushgate.WorkerOptions{})
		worker.Handle(rushgate.AnyKind, nothing)
		r := start(t, worker)
		for n, id := range []string{"a", "b", "c"} {
			enqueue(t, queue, rushgate.NewTask{ID: id}, rushgate.Added)
			r.until("done", func(report rushgate.Report) bool { return report.Done == n+1 })
			proxy.Cut()
		}
		if report := r.stop(); report.Done != 3 || report.Unanswered != 0 {
			t.Errorf("%+v", report)
		}
	})
}

func TestAnInvalidArgumentIsRefusedAndNothingIsSent(t *testing.T) {
	testenv.Each(t, testenv.Single, func(t *testing.T, target testenv.Target) {
		proxy, client := proxied(t, target)
		ctx, before := testenv.Context(t), proxy.Sent()
		queue, sale := client.Queue("q"), client.Sale("s")
		enqueued := func(task rushgate.NewTask) error {
			_, err := queue.Enqueue(ctx, task)
			return err
		}
		acquired := func(name string, options rushgate.LockOptions, wait time.Duration) error {
			_, err := client.Lock(name, options).Acquire(ctx, rushgate.AcquireOptions{Wait: wait})
			return err
		}
		claimed := func(options rushgate.ClaimOptions) error {
			_, err := queue.Claim(ctx, options)
			return err
		}
		reserved := func(reservation rushgate.Reservation) error {
			_, err := sale.Reserve(ctx, reservation)
			return err
		}
		scheduled := func(recurrence rushgate.Recurrence) error {
			_, err := queue.SaveSchedule(ctx, rushgate.NewSchedule{ID: "s", Recurrence: recurrence})
			return err
		}
		_, created := client.CreateSale(ctx, rushgate.NewSale{ID: "s"})
		_, decided := sale.Confirm(ctx, "12")
		_, many := queue.EnqueueAll(ctx, make([]rushgate.NewTask, 1_001))
		_, none := queue.EnqueueAll(ctx, nil)
		_, page := queue.Dead(ctx, rushgate.Page{Limit: 1_001})
		for what, err := range map[string]error{
			"empty name":       acquired("", rushgate.LockOptions{}, 0),
			"white space":      acquired("a b", rushgate.LockOptions{}, 0),
			"brace":            acquired("{a}", rushgate.LockOptions{}, 0),
			"invisible":        acquired("a\u200bb", rushgate.LockOptions{}, 0),
			"dots":             acquired("..", rushgate.LockOptions{}, 0),
			"bytes":            acquired("\xff", rushgate.LockOptions{}, 0),
			"long name":        acquired(strings.Repeat("é", 101), rushgate.LockOptions{}, 0),
			"short lease":      acquired("l", rushgate.LockOptions{Lease: time.Millisecond}, 0),
			"lease of decades": acquired("l", rushgate.LockOptions{Lease: 1_700_000_000 * time.Second}, 0),
			"negative wait":    acquired("l", rushgate.LockOptions{}, -1),
			"label":            acquired("l", rushgate.LockOptions{Label: "a\nb"}, 0),
			"task":             enqueued(rushgate.NewTask{ID: "a b"}),
			"large payload":    enqueued(rushgate.NewTask{ID: "a", Payload: make([]byte, 1<<20+1)}),
			"not JSON":         enqueued(rushgate.NewTask{ID: "a", Payload: func() {}}),
			"kind":             enqueued(rushgate.NewTask{ID: "a", Kind: "two words"}),
			"trace":            enqueued(rushgate.NewTask{ID: "a", Traceparent: "00"}),
			"content type":     enqueued(rushgate.NewTask{ID: "a", ContentType: "text"}),
			"priority":         enqueued(rushgate.NewTask{ID: "a", Priority: rushgate.Ptr(10)}),
			"attempts":         enqueued(rushgate.NewTask{ID: "a", MaxAttempts: 1_001}),
			"delay":            enqueued(rushgate.NewTask{ID: "a", Delay: 401 * 24 * time.Hour}),
			"delay and time":   enqueued(rushgate.NewTask{ID: "a", Delay: 1, DueAt: time.Now()}),
			"duplicate":        enqueued(rushgate.NewTask{ID: "a", OnDuplicate: "maybe"}),
			"debounce":         enqueued(rushgate.NewTask{ID: "a", OnDuplicate: rushgate.Debounce}),
			"batch and after":  enqueued(rushgate.NewTask{ID: "a", PartOf: "b", After: []string{"c"}}),
			"too many tasks":   many,
			"no task":          none,
			"claims":           claimed(rushgate.ClaimOptions{N: 1_001}),
			"negative claims":  claimed(rushgate.ClaimOptions{N: -1}),
			"page":             page,
			"limits":           queue.SetLimits(ctx, rushgate.Limits{Rate: &rushgate.Rate{N: 1}}),
			"concurrency":      queue.SetLimits(ctx, rushgate.Limits{PerKey: rushgate.KeyLimits{Concurrency: 2, FIFO: true}}),
			"no recurrence":    scheduled(rushgate.Recurrence{}),
			"missed":           scheduled(rushgate.Recurrence{Every: time.Minute, Missed: "maybe"}),
			"interval":         scheduled(rushgate.Recurrence{Every: time.Millisecond}),
			"no key":           reserved(rushgate.Reservation{Buyer: "a", Lines: []rushgate.Line{{SKU: "x"}}}),
			"no line":          reserved(rushgate.Reservation{Buyer: "a", Key: "k"}),
			"SKU twice":        reserved(rushgate.Reservation{Buyer: "a", Key: "k", Lines: []rushgate.Line{{SKU: "x"}, {SKU: "x"}}}),
			"quantity":         reserved(rushgate.Reservation{Buyer: "a", Key: "k", Lines: []rushgate.Line{{SKU: "x", Quantity: 1_001}}}),
			"no SKU":           created,
			"reservation":      decided,
		} {
			var refusal *rushgate.Error
			if !errors.Is(err, rushgate.ErrInvalid) || !errors.As(err, &refusal) || refusal.Field == "" {
				t.Errorf("%s: %v", what, err)
			}
		}
		if sent := proxy.Sent() - before; sent != 0 {
			t.Errorf("%d bytes were sent", sent)
		}
	})
}

func TestARecurrenceThatNeverOccursIsRefused(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, _ *rushgate.Client, queue *rushgate.Queue) {
		for _, wrong := range []rushgate.Recurrence{
			{Cron: "61 * * * *"}, {Cron: "0 0 30 2 *"}, {Cron: "5/20 * * * *"}, {Cron: "0 0 * * *", Zone: "Mars/Base"},
		} {
			_, err := queue.SaveSchedule(ctx, rushgate.NewSchedule{ID: "s", Recurrence: wrong})
			if !errors.Is(err, rushgate.ErrInvalid) {
				t.Errorf("%+v: %v", wrong, err)
			}
		}
		if saved := testenv.Must[[]rushgate.Schedule](t)(queue.Schedules(ctx, rushgate.Page{})); len(saved) != 0 {
			t.Errorf("%+v", saved)
		}
	})
}

func TestAnInvalidURLIsRefused(t *testing.T) {
	for _, url := range []string{
		"", "localhost", "ftp://a", "redis://", "redis://a:b", "redis://a/b", "redis://user@a", "redis://a,b", "redis+cluster://a/1",
		"redis+sentinel://a", "http://", "http://a?b", "redis://a/0?x",
	} {
		if _, err := rushgate.Connect(testenv.Context(t), url, rushgate.Options{}); !errors.Is(err, rushgate.ErrInvalid) {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestNamesAreOneInAllNormalizationForms(t *testing.T) {
	eachQueue(t, func(t *testing.T, ctx context.Context, client *rushgate.Client, queue *rushgate.Queue) {
		name := testenv.Unique("Zoe\u0308-\u1100\u1161-")
		held := acquire(t, client.Lock(name, rushgate.LockOptions{}), rushgate.AcquireOptions{})
		composed := strings.NewReplacer("e\u0308", "ë", "\u1100\u1161", "가").Replace(name)
		if _, err := client.Lock(composed, rushgate.LockOptions{}).Acquire(ctx, rushgate.AcquireOptions{}); !errors.Is(err, rushgate.ErrLockBusy) {
			t.Errorf("error %v", err)
		}
		release(t, held)
		// Marks in another order, which the server does not notice.
		enqueue(t, queue, rushgate.NewTask{ID: "a\u0301\u0323"}, rushgate.Added)
		enqueue(t, queue, rushgate.NewTask{ID: "ạ\u0301"}, rushgate.Kept)
	})
}

func TestAServerThatIsGoneFailsCallsInTime(t *testing.T) {
	testenv.Each(t, testenv.Single, func(t *testing.T, target testenv.Target) {
		proxy := testenv.NewProxy(t, target.URL)
		options := testenv.Options(target.URL)
		options.Timeout, options.RetryFor = 500*time.Millisecond, 500*time.Millisecond
		client := testenv.ConnectWith(t, proxy.URL, options)
		queue := client.Queue(testenv.Unique("queue"))
		enqueue(t, queue, rushgate.NewTask{ID: "a"}, rushgate.Added)
		proxy.Stop()
		begun := time.Now()
		_, err := queue.Stats(testenv.Context(t))
		if !errors.Is(err, rushgate.ErrUnavailable) || !rushgate.Retryable(err) || time.Since(begun) > 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

func TestAnEndedContextEndsACall(t *testing.T) {
	testenv.Each(t, testenv.Single, func(t *testing.T, target testenv.Target) {
		proxy, client := proxied(t, target)
		queue := client.Queue(testenv.Unique("queue"))
		enqueue(t, queue, rushgate.NewTask{ID: "a"}, rushgate.Added)
		stalled := proxy.Stall(verb(target, "queue_cancel", "DELETE"))
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			<-stalled
			cancel()
		}()
		_, err := queue.Cancel(ctx, "a")
		if !errors.Is(err, context.Canceled) || !errors.Is(err, rushgate.ErrOutcomeUnknown) {
			t.Errorf("error %v", err)
		}
	})
}

func TestAClosedClientRefusesCalls(t *testing.T) {
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		client := target.Connect(t)
		queue := client.Queue(testenv.Unique("queue"))
		failed := make(chan error)
		go func() {
			_, err := queue.Claim(context.Background(), waitClaim)
			failed <- err
		}()
		enqueue(t, client.Queue(testenv.Unique("queue")), rushgate.NewTask{ID: "a"}, rushgate.Added)
		client.Close()
		_, err := queue.Stats(testenv.Context(t))
		for what, err := range map[string]error{"waiting": <-failed, "new": err} {
			if !errors.Is(err, rushgate.ErrClosed) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

func TestATokenOrAPasswordThatIsWrongIsForbidden(t *testing.T) {
	testenv.Each(t, testenv.Single, func(t *testing.T, target testenv.Target) {
		options := rushgate.Options{Token: "wrong"}
		url := target.URL
		if !target.IsHTTP() {
			url, options = strings.Replace(url, "://", "://nobody:wrong@", 1), rushgate.Options{}
		}
		client, err := testenv.Open(testenv.Context(t), url, options)
		if err == nil {
			defer client.Close()
			_, err = client.Queue("q").Stats(testenv.Context(t))
		}
		if !errors.Is(err, rushgate.ErrForbidden) {
			t.Errorf("error %v", err)
		}
	})
}

func TestTwoClientsNeverShareTheirIdentity(t *testing.T) {
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		// Clients with the same identity would get the answers to each other's calls.
		name := testenv.Unique("queue")
		for _, want := range []rushgate.EnqueueOutcome{rushgate.Added, rushgate.Kept} {
			enqueue(t, target.Connect(t).Queue(name), rushgate.NewTask{ID: "a"}, want)
		}
	})
}
