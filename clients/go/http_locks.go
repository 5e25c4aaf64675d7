package rushgate

import (
	"context"
	"errors"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
)

// Longest time between request and answer for which a lease counts from the request.
const quick = 100 * time.Millisecond

// grantView is a grant on the wire.
type grantView struct {
	Token     string
	Fence     uint64
	LeaseLeft time.Duration
}

func (v grantView) grant(sent time.Time) grant {
	return grant{token: v.Token, fence: v.Fence, until: sent.Add(certain(v.LeaseLeft))}
}

// acquireLock waits in requests that the server lets wait. Between two of them, the client is not in the wait queue.
func (t *httpTransport) acquireLock(ctx context.Context, name string, request acquireRequest) (grant, error) {
	key := newKey()
	var got grant
	var busy error
	err := waiting(ctx, request.wait, func(part time.Duration) (bool, error) {
		var err error
		got, err = t.acquireOnce(ctx, name, request, key, part)
		busy = nil
		if errors.Is(err, ErrLockBusy) {
			busy, err = err, nil
		}
		return busy == nil, err
	})
	if err != nil && ctx.Err() != nil {
		t.putLockBack(ctx, name, request, key)
	}
	return got, firstError(err, busy)
}

// putLockBack releases a lock whose grant may have been under way. The same key leads to the same acquisition.
func (t *httpTransport) putLockBack(ctx context.Context, name string, request acquireRequest, key string) {
	ctx, cancel := context.WithTimeout(detached{ctx}, putBackTime)
	defer cancel()
	if got, err := t.acquireOnce(ctx, name, request, key, 0); err == nil {
		t.releaseLock(ctx, name, got.token)
	}
}

func (t *httpTransport) acquireOnce(
	ctx context.Context, name string, acquire acquireRequest, key string, wait time.Duration,
) (grant, error) {
	body := object{"lease_ms": wireMillis(acquire.lease)}
	body.set("barging", acquire.barging)
	body.set("label", acquire.label)
	sent := time.Now()
	answer, err := t.send(ctx, request{targetOf(contract.OpAcquire, name), body, key, wait})
	if codeOf(err) == "lock_busy" {
		var refusal *problem
		errors.As(err, &refusal)
		return grant{}, lockBusy(name, millis(refusal.Retry))
	}
	if err != nil {
		return grant{}, httpError(err)
	}
	var view grantView
	if err := fromWire(answer.body, &view); err != nil {
		return grant{}, err
	}
	if time.Since(sent) < quick {
		return view.grant(sent), nil
	}
	// After a wait, the time of the request says nothing about the lease. An extension starts it again.
	return t.extendLock(ctx, name, view.Token, acquire.lease)
}

func (t *httpTransport) extendLock(ctx context.Context, name, token string, lease time.Duration) (grant, error) {
	body := object{"token": token, "lease_ms": wireMillis(lease)}
	sent := time.Now()
	answer, err := t.send(ctx, request{target: targetOf(contract.OpExtendLock, name), body: body})
	if err != nil {
		return grant{}, lostOr(name, err)
	}
	var view grantView
	err = fromWire(answer.body, &view)
	return view.grant(sent), err
}

func lostOr(name string, err error) error {
	if codeOf(err) == "not_held" {
		return lockLost(name)
	}
	return httpError(err)
}

func (t *httpTransport) releaseLock(ctx context.Context, name, token string) error {
	body := object{"token": token}
	_, err := t.send(ctx, request{target: targetOf(contract.OpRelease, name), body: body})
	if err != nil {
		return lostOr(name, err)
	}
	return nil
}

// watchLock does nothing, because the API does not push: a forced release shows at the next renewal.
func (t *httpTransport) watchLock(string, func()) func() { return func() {} }

func (t *httpTransport) lockState(ctx context.Context, name string) (*LockState, error) {
	state := &LockState{}
	return state, t.ask(ctx, request{target: targetOf(contract.OpShowLock, name)}, state)
}

func (t *httpTransport) forceReleaseLock(ctx context.Context, name string) (*LockHolder, error) {
	var view struct{ Holder *LockHolder }
	err := t.ask(ctx, request{target: targetOf(contract.OpForceRelease, name), body: object{}}, &view)
	return view.Holder, err
}
