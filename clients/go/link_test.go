package rushgate_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	rushgate "github.com/rushgate/rushgate/clients/go"
	"github.com/rushgate/rushgate/clients/go/internal/testenv"
)

// scripted is a link whose replies a test decides. It has the protocol of the package.
type scripted struct {
	do func(function string) (any, error)
}

const protocol = 1

func (s scripted) Do(_ context.Context, _ time.Duration, args [][]byte) (any, error) {
	switch function := string(args[1]); function {
	case "rushgate_1_version":
		return []any{int64(protocol), []byte("1.0.0")}, nil
	case "cluster":
		return nil, rushgate.ServerError("NOPERM this user has no permissions to run the 'info' command")
	default:
		return s.do(strings.TrimPrefix(function, "rushgate_1_"))
	}
}

func (scripted) Subscribe(context.Context, time.Duration, string) (rushgate.Subscription, error) {
	return make(silence), nil
}

// silence is a subscription without messages.
type silence chan struct{}

func (s silence) Next() ([]byte, error) {
	<-s
	return nil, errors.New("ended")
}

func (s silence) Close() { close(s) }

func opened(t *testing.T, do func(function string) (any, error)) *rushgate.Client {
	t.Helper()
	client, err := rushgate.Open(testenv.Context(t), scripted{do}, rushgate.Options{
		Timeout: 200 * time.Millisecond, RetryFor: 200 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func TestErrorsOfALinkHaveTheKindsOfTheClient(t *testing.T) {
	refused := &rushgate.Error{Kind: rushgate.ErrMisconfigured, Message: "no such connection"}
	for _, one := range []struct {
		err     error
		kind    error
		unknown bool
	}{
		{rushgate.ServerError("MOVED 12 127.0.0.1:7000"), rushgate.ErrMisconfigured, false},
		{rushgate.ServerError("ASK 12 127.0.0.1:7000"), rushgate.ErrMisconfigured, false},
		{rushgate.ServerError("NOAUTH Authentication required."), rushgate.ErrForbidden, false},
		{rushgate.ServerError("OOM command not allowed"), rushgate.ErrFull, false},
		{rushgate.ServerError("LOADING Redis is loading"), rushgate.ErrUnavailable, false},
		{&rushgate.ConnectionError{Err: errors.New("no route")}, rushgate.ErrUnavailable, false},
		{&rushgate.ConnectionError{Err: errors.New("reset"), Sent: true}, rushgate.ErrOutcomeUnknown, true},
		{errors.New("something else"), rushgate.ErrOutcomeUnknown, true},
		{refused, rushgate.ErrMisconfigured, false},
	} {
		client := opened(t, func(string) (any, error) { return nil, one.err })
		_, err := client.Queue("q").Stats(testenv.Context(t))
		if !errors.Is(err, one.kind) || errors.Is(err, rushgate.ErrOutcomeUnknown) != one.unknown {
			t.Errorf("%v: %v", one.err, err)
		}
	}
}

func TestANodeOfAClusterIsRefusedWithTheWayOut(t *testing.T) {
	client := opened(t, func(string) (any, error) { return nil, rushgate.ServerError("MOVED 12 127.0.0.1:7000") })
	_, err := client.Lock("a", rushgate.LockOptions{}).Acquire(testenv.Context(t), rushgate.AcquireOptions{})
	if !errors.Is(err, rushgate.ErrMisconfigured) || !strings.Contains(err.Error(), "redis+cluster") {
		t.Error(err)
	}
}

func TestALinkRefusesOptionsOfItsConnections(t *testing.T) {
	_, err := rushgate.Open(testenv.Context(t), scripted{}, rushgate.Options{Token: "secret"})
	if !errors.Is(err, rushgate.ErrInvalid) {
		t.Error(err)
	}
}

// A link with several connections executes calls in any order. A lock that is acquired after it was released would stay
// held.
func TestACanceledAcquisitionIsNotOvertakenByItsRelease(t *testing.T) {
	var mu sync.Mutex
	var calls []string
	acquiring, answer := make(chan struct{}), make(chan struct{})
	client := opened(t, func(function string) (any, error) {
		if function == "lock_acquire" {
			close(acquiring)
			<-answer
		}
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, function)
		return nil, errors.New("no reply")
	})
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error)
	go func() {
		_, err := client.Lock("a", rushgate.LockOptions{}).Acquire(ctx, rushgate.AcquireOptions{})
		failed <- err
	}()
	<-acquiring
	cancel()
	select {
	case err := <-failed:
		t.Fatalf("returned before the acquisition had ended: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(answer)
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(calls) < 2 || calls[0] != "lock_acquire" || calls[1] != "lock_leave" {
		t.Errorf("%q", calls)
	}
}

func TestACallEndsWithItsContextAndTheClient(t *testing.T) {
	stuck := make(chan struct{})
	defer close(stuck)
	client := opened(t, func(string) (any, error) {
		<-stuck
		return nil, errors.New("no reply")
	})
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := client.Queue("a").Stats(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, rushgate.ErrOutcomeUnknown) {
		t.Error(err)
	}
	time.AfterFunc(20*time.Millisecond, client.Close)
	if _, err := client.Queue("b").Stats(testenv.Context(t)); !errors.Is(err, rushgate.ErrClosed) {
		t.Error(err)
	}
}

func TestACallDoesNotReadItsPayloadAfterItHasReturned(t *testing.T) {
	payload := []byte("payload")
	stuck, sent := make(chan struct{}), make(chan [][]byte, 1)
	added := func(string) (any, error) { return int64(1), nil }
	client, err := rushgate.Open(testenv.Context(t), keeper{scripted{added}, stuck, sent}, rushgate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := client.Queue("a").Enqueue(ctx, rushgate.NewTask{ID: "a", Payload: payload}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	copy(payload, "changed")
	close(stuck)
	for _, arg := range <-sent {
		if strings.Contains(string(arg), "changed") {
			t.Error("the payload was read later")
		}
	}
}

// keeper keeps the arguments of an enqueue for the test.
type keeper struct {
	scripted
	stuck chan struct{}
	sent  chan [][]byte
}

func (k keeper) Do(ctx context.Context, timeout time.Duration, args [][]byte) (any, error) {
	if string(args[1]) != "rushgate_1_queue_enqueue" {
		return k.scripted.Do(ctx, timeout, args)
	}
	<-k.stuck
	k.sent <- args
	return nil, errors.New("no reply")
}
