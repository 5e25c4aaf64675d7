package rushgate_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rushgate "github.com/rushgate/rushgate/clients/go"
	"github.com/rushgate/rushgate/clients/go/internal/testenv"
)

// These tests show, defect by defect, that the client does not have those of the article's Go code. See
// docs/from-the-article.md.

// patient waits longer than any wait of a test should take.
var patient = rushgate.AcquireOptions{Wait: testenv.Patience}

// shortLock has a lease that ends soon, and is not renewed.
var shortLock = rushgate.LockOptions{Lease: 200 * time.Millisecond, ManualRenewal: true}

// The article passes bare numbers, in seconds here and in nanoseconds there, and an absolute time as a lease.
func TestArticleUnitsALeaseIsADurationWithinBounds(t *testing.T) {
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		client, ctx := target.Connect(t), testenv.Context(t)
		name := testenv.Unique("lock")
		for _, wrong := range []time.Duration{15, time.Duration(time.Now().Unix()) * time.Second, -time.Second} {
			_, err := client.Lock(name, rushgate.LockOptions{Lease: wrong}).Acquire(ctx, rushgate.AcquireOptions{})
			if !errors.Is(err, rushgate.ErrInvalid) {
				t.Errorf("lease %v: %v", wrong, err)
			}
		}
		lock := client.Lock(name, rushgate.LockOptions{Lease: 15 * time.Second})
		held, err := lock.Acquire(ctx, rushgate.AcquireOptions{})
		if err != nil {
			t.Fatal(err)
		}
		state, err := lock.State(ctx)
		if err != nil {
			t.Fatal(err)
		}
		// An extension may have moved the end of the lease by a few milliseconds.
		if lease := state.Holder.LeaseUntil.Sub(state.Holder.Since); lease < 15*time.Second || lease > 16*time.Second {
			t.Errorf("lease %v", lease)
		}
		if err := held.Release(ctx); err != nil {
			t.Error(err)
		}
	})
}

// The article compares the reply of the driver, an int64 in an interface, with an int: a lock that was granted counts as
// busy. An error of the server counts as an empty answer.
func TestArticleReplyTypesAnAnswerIsGrantedBusyOrAnError(t *testing.T) {
	testenv.Each(t, testenv.Redis, func(t *testing.T, target testenv.Target) {
		client, ctx := target.Connect(t), testenv.Context(t)
		lock := client.Lock(testenv.Unique("lock"), rushgate.LockOptions{})
		held, err := lock.Acquire(ctx, rushgate.AcquireOptions{})
		if err != nil || held == nil || held.Fence() == 0 {
			t.Fatalf("a free lock: %v, %v", held, err)
		}
		if _, err := lock.Acquire(ctx, rushgate.AcquireOptions{}); !errors.Is(err, rushgate.ErrLockBusy) {
			t.Errorf("a held lock: %v", err)
		}
		if target.Name != "redis" {
			return
		}
		queue := testenv.Unique("queue")
		testenv.Command(t, target, "SET", "rg:{q:"+queue+"}:meta", "of another type")
		if stats, err := client.Queue(queue).Stats(ctx); !errors.Is(err, rushgate.ErrCorrupt) || stats != nil {
			t.Errorf("a key of another type: %v, %v", stats, err)
		}
	})
}

// The article replaces the value of an expired lock with GETSET. Two clients that do it at the same time both believe
// that they hold the lock, and the loser changes the winner's value.
func TestArticleGetSetRaceAnExpiredLockHasOneNextHolder(t *testing.T) {
	const clients, rounds = 8, 3
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		ctx, name := testenv.Context(t), testenv.Unique("lock")
		abandoned, err := target.Connect(t).Lock(name, shortLock).Acquire(ctx, rushgate.AcquireOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var inside atomic.Int64
		var fences sync.Map
		var all sync.WaitGroup
		for n := 0; n < clients; n++ {
			lock := target.Connect(t).Lock(name, rushgate.LockOptions{})
			all.Add(1)
			go func() {
				defer all.Done()
				for round := 0; round < rounds; round++ {
					err := lock.Run(ctx, patient, func(_ context.Context, held *rushgate.Held) error {
						defer inside.Add(-1)
						if inside.Add(1) != 1 {
							t.Error("two holders")
						}
						if _, twice := fences.LoadOrStore(held.Fence(), true); twice || held.Fence() <= abandoned.Fence() {
							t.Errorf("fence %d", held.Fence())
						}
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			}()
		}
		all.Wait()
	})
}

// The article deletes the key of a lock without checking the holder.
func TestArticleReleaseOfAnotherHolderChangesNothing(t *testing.T) {
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		ctx, name := testenv.Context(t), testenv.Unique("lock")
		first, err := target.Connect(t).Lock(name, shortLock).Acquire(ctx, rushgate.AcquireOptions{})
		if err != nil {
			t.Fatal(err)
		}
		lock := target.Connect(t).Lock(name, rushgate.LockOptions{})
		second, err := lock.Acquire(ctx, patient)
		if err != nil {
			t.Fatal(err)
		}
		if err := first.Release(ctx); !errors.Is(err, rushgate.ErrLockLost) {
			t.Errorf("release: %v", err)
		}
		if err := first.Extend(ctx, time.Hour); !errors.Is(err, rushgate.ErrLockLost) {
			t.Errorf("extend: %v", err)
		}
		state, err := lock.State(ctx)
		if err != nil || state.Holder == nil || state.Holder.Fence != second.Fence() {
			t.Errorf("%+v, %v", state, err)
		}
		if err := second.Release(ctx); err != nil {
			t.Error(err)
		}
	})
}

// The article's template with a closure calls itself while it waits, continues after the lease is lost, and does not release
// the lock if the closure panics.
func TestArticleTemplateTheWaitEndsAndALossStopsTheWork(t *testing.T) {
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		client, ctx := target.Connect(t), testenv.Context(t)
		name := testenv.Unique("lock")
		lock := client.Lock(name, rushgate.LockOptions{})
		err := lock.Run(ctx, rushgate.AcquireOptions{}, func(ctx context.Context, _ *rushgate.Held) error {
			brief := rushgate.AcquireOptions{Wait: 50 * time.Millisecond}
			return lock.Run(ctx, brief, func(context.Context, *rushgate.Held) error { return errors.New("it runs") })
		})
		if !errors.Is(err, rushgate.ErrLockBusy) {
			t.Errorf("while the lock is held: %v", err)
		}
		err = client.Lock(name, shortLock).Run(ctx, patient, func(ctx context.Context, _ *rushgate.Held) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("after the loss: %v", err)
		}
		func() {
			defer func() { recover() }()
			lock.Run(ctx, patient, func(context.Context, *rushgate.Held) error { panic("broken") })
		}()
		if state, err := lock.State(ctx); err != nil || state.Holder != nil {
			t.Errorf("after a panic: %+v, %v", state, err)
		}
	})
}

// The article removes a task before its work is done: a worker that dies loses it.
func TestArticlePopATaskOfADeadWorkerRunsAgain(t *testing.T) {
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		client, ctx := target.Connect(t), testenv.Context(t)
		queue := client.Queue(testenv.Unique("queue"))
		if _, err := queue.Enqueue(ctx, rushgate.NewTask{ID: "a"}); err != nil {
			t.Fatal(err)
		}
		died, err := queue.Claim(ctx, rushgate.ClaimOptions{Lease: 50 * time.Millisecond})
		if err != nil || len(died) != 1 {
			t.Fatalf("%v, %v", died, err)
		}
		again, err := queue.Claim(ctx, rushgate.ClaimOptions{Wait: testenv.Patience})
		if err != nil || len(again) != 1 || again[0].Attempt != 2 || again[0].Fence <= died[0].Fence {
			t.Fatalf("%v, %v", again, err)
		}
		if err := died[0].Complete(ctx, nil); !errors.Is(err, rushgate.ErrClaimLost) {
			t.Errorf("the dead worker: %v", err)
		}
		if err := again[0].Complete(ctx, nil); err != nil {
			t.Error(err)
		}
	})
}
