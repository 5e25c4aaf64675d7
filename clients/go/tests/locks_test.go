package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	rushgate "github.com/rushgate/rushgate/clients/go"
	"github.com/rushgate/rushgate/clients/go/internal/testenv"
)

// wait is longer than any wait of a test should take.
var wait = rushgate.AcquireOptions{Wait: testenv.Patience}

func TestFencingTokensGrow(t *testing.T) {
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		client, ctx := target.Connect(t), testenv.Context(t)
		lock := client.Lock(testenv.Unique("lock"), rushgate.LockOptions{Label: "test"})
		last := uint64(0)
		for n := 0; n < 3; n++ {
			held := acquire(t, lock, rushgate.AcquireOptions{})
			if held.Fence() <= last {
				t.Fatalf("fence %d after %d", held.Fence(), last)
			}
			last = held.Fence()
			state := testenv.Must[*rushgate.LockState](t)(lock.State(ctx))
			if state.Holder == nil || state.Holder.Fence != last || state.Holder.Label != "test" {
				t.Fatalf("holder %+v", state.Holder)
			}
			if left := held.LeaseLeft(); left < 25*time.Second || left > 30*time.Second {
				t.Fatalf("lease left %v", left)
			}
			release(t, held)
			if held.LeaseLeft() != 0 || held.Context().Err() == nil || held.Err() != nil {
				t.Fatal("a released lock is neither held nor lost")
			}
		}
	})
}

func TestABusyLockFailsAtOnceWithoutAWait(t *testing.T) {
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		client := target.Connect(t)
		name := testenv.Unique("lock")
		held := acquire(t, client.Lock(name, rushgate.LockOptions{}), rushgate.AcquireOptions{})
		_, err := target.Connect(t).Lock(name, rushgate.LockOptions{}).Acquire(testenv.Context(t), rushgate.AcquireOptions{})
		if !errors.Is(err, rushgate.ErrLockBusy) || !rushgate.Retryable(err) {
			t.Fatalf("error %v", err)
		}
		release(t, held)
	})
}

func TestWaitersGetTheLockInTheOrderOfTheirArrival(t *testing.T) {
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		first, second := target.Connect(t), target.Connect(t)
		name := testenv.Unique("lock")
		held := acquire(t, first.Lock(name, rushgate.LockOptions{}), rushgate.AcquireOptions{})
		const waiters = 6
		order := make(chan int, waiters)
		var all sync.WaitGroup
		for n := 0; n < waiters; n++ {
			client := []*rushgate.Client{first, second}[n%2]
			all.Add(1)
			go func(n int) {
				defer all.Done()
				held, err := client.Lock(name, rushgate.LockOptions{}).Acquire(context.Background(), wait)
				if err != nil {
					t.Error(err)
					return
				}
				order <- n
				held.Release(context.Background())
			}(n)
			untilWaiters(t, first.Lock(name, rushgate.LockOptions{}), n+1)
		}
		begun := time.Now()
		release(t, held)
		all.Wait()
		// Each waiter would sleep for seconds without a notification.
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("the waiters took %v", took)
		}
		for n := 0; n < waiters; n++ {
			if got := <-order; got != n {
				t.Errorf("waiter %d came at position %d", got, n)
			}
		}
	})
}

func TestALeaseThatEndsIsLostBeforeAnotherClientHasTheLock(t *testing.T) {
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		name, ctx := testenv.Unique("lock"), testenv.Context(t)
		options := rushgate.LockOptions{Lease: 500 * time.Millisecond, ManualRenewal: true}
		held := acquire(t, target.Connect(t).Lock(name, options), rushgate.AcquireOptions{})
		next := acquire(t, target.Connect(t).Lock(name, rushgate.LockOptions{}), wait)
		if held.Context().Err() == nil || !errors.Is(held.Err(), rushgate.ErrLockLost) {
			t.Fatal("the loss is signaled too late")
		}
		if cause := cause(held.Context()); cause != nil && !errors.Is(cause, rushgate.ErrLockLost) {
			t.Fatalf("cause %v", cause)
		}
		for what, err := range map[string]error{"extend": held.Extend(ctx, 0), "release": held.Release(ctx)} {
			if !errors.Is(err, rushgate.ErrLockLost) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if next.Fence() <= held.Fence() {
			t.Errorf("fence %d after %d", next.Fence(), held.Fence())
		}
		release(t, next)
	})
}

func TestAForcedReleaseSignalsTheLoss(t *testing.T) {
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		// Over HTTP the loss shows at the next renewal.
		lock := target.Connect(t).Lock(testenv.Unique("lock"), rushgate.LockOptions{Lease: 3 * time.Second})
		held := acquire(t, lock, rushgate.AcquireOptions{})
		former := testenv.Must[*rushgate.LockHolder](t)(lock.ForceRelease(testenv.Context(t)))
		if former == nil || former.Fence != held.Fence() {
			t.Fatalf("former holder %+v", former)
		}
		select {
		case <-held.Context().Done():
		case <-time.After(testenv.Patience):
			t.Fatal("no signal")
		}
		if !errors.Is(held.Err(), rushgate.ErrLockLost) {
			t.Fatalf("error %v", held.Err())
		}
	})
}

func TestAHeldLockIsRenewedAndCanBeExtended(t *testing.T) {
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		ctx := testenv.Context(t)
		lock := target.Connect(t).Lock(testenv.Unique("lock"), rushgate.LockOptions{Lease: 900 * time.Millisecond})
		held := acquire(t, lock, rushgate.AcquireOptions{})
		begun := leaseUntil(t, lock)
		testenv.Until(t, "the lease ends a second later", func() bool {
			return leaseUntil(t, lock).Sub(begun) > time.Second
		})
		if held.Err() != nil {
			t.Fatal(held.Err())
		}
		if err := held.Extend(ctx, time.Hour); err != nil {
			t.Fatal(err)
		}
		if left := held.LeaseLeft(); left < 59*time.Minute {
			t.Fatalf("lease left %v", left)
		}
		release(t, held)
		release(t, held)
	})
}

func TestAnExtensionToAnEarlierEndSignalsTheLossAtThatEnd(t *testing.T) {
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		ctx := testenv.Context(t)
		name := testenv.Unique("lock")
		held := acquire(t, target.Connect(t).Lock(name, rushgate.LockOptions{ManualRenewal: true}), rushgate.AcquireOptions{})
		if err := held.Extend(ctx, 300*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		next := acquire(t, target.Connect(t).Lock(name, rushgate.LockOptions{}), wait)
		if !errors.Is(held.Err(), rushgate.ErrLockLost) {
			t.Fatalf("the next holder has the lock, and the first one has the error %v", held.Err())
		}
		release(t, next)
	})
}

func TestRenewalsKeepTheLeaseOfAnExtension(t *testing.T) {
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		lock := target.Connect(t).Lock(testenv.Unique("lock"), rushgate.LockOptions{Lease: time.Minute})
		held := acquire(t, lock, rushgate.AcquireOptions{})
		if err := held.Extend(testenv.Context(t), 900*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		extended := leaseUntil(t, lock)
		testenv.Until(t, "a renewal", func() bool { return leaseUntil(t, lock).After(extended) })
		if later := leaseUntil(t, lock).Sub(extended); later > 30*time.Second {
			t.Fatalf("the renewal ends %v later", later)
		}
		release(t, held)
	})
}

func TestTheEndOfTheContextLeavesTheWaitQueue(t *testing.T) {
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		lock := target.Connect(t).Lock(testenv.Unique("lock"), rushgate.LockOptions{})
		held := acquire(t, lock, rushgate.AcquireOptions{})
		ctx, cancel := context.WithCancel(context.Background())
		failed := make(chan error)
		go func() {
			_, err := lock.Acquire(ctx, wait)
			failed <- err
		}()
		untilWaiters(t, lock, 1)
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v", err)
		}
		untilWaiters(t, lock, 0)
		release(t, held)
		release(t, acquire(t, lock, rushgate.AcquireOptions{}))
	})
}

func TestAReleaseWorksAfterTheEndOfTheContext(t *testing.T) {
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		lock := target.Connect(t).Lock(testenv.Unique("lock"), rushgate.LockOptions{})
		ctx, cancel := context.WithCancel(context.Background())
		held := testenv.Must[*rushgate.Held](t)(lock.Acquire(ctx, rushgate.AcquireOptions{}))
		cancel()
		<-held.Context().Done()
		if held.Err() != nil {
			t.Errorf("the lock is not lost: %v", held.Err())
		}
		fail(t, held.Release(ctx))
		release(t, acquire(t, lock, rushgate.AcquireOptions{}))
	})
}

func TestAShortWaitEndsBusyAndLeavesNothingBehind(t *testing.T) {
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		lock := target.Connect(t).Lock(testenv.Unique("lock"), rushgate.LockOptions{})
		held := acquire(t, lock, rushgate.AcquireOptions{})
		_, err := lock.Acquire(testenv.Context(t), rushgate.AcquireOptions{Wait: 50 * time.Millisecond})
		if !errors.Is(err, rushgate.ErrLockBusy) {
			t.Fatalf("error %v", err)
		}
		untilWaiters(t, lock, 0)
		release(t, held)
	})
}

func TestRunReleasesOnEveryPath(t *testing.T) {
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		lock, ctx := target.Connect(t).Lock(testenv.Unique("lock"), rushgate.LockOptions{}), testenv.Context(t)
		own := errors.New("the work's own")
		run := func(work func() error) error {
			return lock.Run(ctx, rushgate.AcquireOptions{}, func(context.Context, *rushgate.Held) error { return work() })
		}
		if err := run(func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		if err := run(func() error { return own }); err != own {
			t.Fatalf("error %v", err)
		}
		func() {
			defer func() {
				if recover() != "broken" {
					t.Error("the panic is passed on")
				}
			}()
			run(func() error { panic("broken") })
		}()
		release(t, acquire(t, lock, rushgate.AcquireOptions{}))
	})
}

func TestRunFailsIfTheLockWasLost(t *testing.T) {
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		options := rushgate.LockOptions{Lease: 200 * time.Millisecond, ManualRenewal: true}
		lock := target.Connect(t).Lock(testenv.Unique("lock"), options)
		err := lock.Run(testenv.Context(t), rushgate.AcquireOptions{}, func(ctx context.Context, _ *rushgate.Held) error {
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, rushgate.ErrLockLost) {
			t.Fatalf("error %v", err)
		}
	})
}

// TestProcessesAndGoroutinesLoseNoIncrement shares one lock between processes, each with goroutines that share a client.
func TestProcessesAndGoroutinesLoseNoIncrement(t *testing.T) {
	const processes, goroutines, times = 3, 4, 5
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		counter := filepath.Join(t.TempDir(), "counter")
		if err := os.WriteFile(counter, []byte("0"), 0o600); err != nil {
			t.Fatal(err)
		}
		lock := testenv.Unique("lock")
		running := make([]*exec.Cmd, processes)
		for n := range running {
			running[n] = exec.Command(os.Args[0], "-test.run=^TestMain$")
			running[n].Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s %d %d", childVariable, target.URL, lock, counter, goroutines, times))
			running[n].Stderr = os.Stderr
			if err := running[n].Start(); err != nil {
				t.Fatal(err)
			}
		}
		for _, one := range running {
			if err := one.Wait(); err != nil {
				t.Error(err)
			}
		}
		if got := readCounter(counter); got != processes*goroutines*times {
			t.Errorf("%d of %d increments", got, processes*goroutines*times)
		}
	})
}

const childVariable = "RUSHGATE_TEST_CHILD"

// TestMain runs the tests, or plays the part of a child process.
func TestMain(m *testing.M) {
	if part := os.Getenv(childVariable); part != "" {
		if err := increment(strings.Fields(part)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func increment(part []string) error {
	url, lock, counter := part[0], part[1], part[2]
	goroutines, _ := strconv.Atoi(part[3])
	times, _ := strconv.Atoi(part[4])
	client, err := testenv.Open(context.Background(), url, testenv.Options(url))
	if err != nil {
		return err
	}
	defer client.Close()
	failed := make(chan error, goroutines)
	for n := 0; n < goroutines; n++ {
		go func() {
			var err error
			for time := 0; time < times && err == nil; time++ {
				err = client.Lock(lock, rushgate.LockOptions{}).Run(context.Background(), wait, func(context.Context, *rushgate.Held) error {
					return os.WriteFile(counter, []byte(strconv.Itoa(readCounter(counter)+1)), 0o600)
				})
			}
			failed <- err
		}()
	}
	for n := 0; n < goroutines; n++ {
		if one := <-failed; one != nil {
			err = one
		}
	}
	return err
}

func readCounter(path string) int {
	text, _ := os.ReadFile(path)
	number, _ := strconv.Atoi(string(text))
	return number
}

func acquire(t *testing.T, lock *rushgate.Lock, options rushgate.AcquireOptions) *rushgate.Held {
	t.Helper()
	return testenv.Must[*rushgate.Held](t)(lock.Acquire(context.Background(), options))
}

func release(t *testing.T, held *rushgate.Held) {
	t.Helper()
	if err := held.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func untilWaiters(t *testing.T, lock *rushgate.Lock, n int) {
	t.Helper()
	testenv.Until(t, fmt.Sprintf("%d waiters", n), func() bool {
		state, err := lock.State(context.Background())
		return err == nil && len(state.Waiters) == n
	})
}

func leaseUntil(t *testing.T, lock *rushgate.Lock) time.Time {
	t.Helper()
	state := testenv.Must[*rushgate.LockState](t)(lock.State(context.Background()))
	if state.Holder == nil {
		t.Fatal("no holder")
	}
	return state.Holder.LeaseUntil
}
