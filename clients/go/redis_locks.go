package rushgate

import (
	"context"
	"encoding/hex"
	"os"
	"sort"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
)

// Bounds of the time by which a lease is certainly shorter than it was granted, because clocks drift: a tenth of it.
const (
	leastDrift = time.Millisecond
	mostDrift  = time.Second
)

// certain returns the part of a lease that certainly lasts.
func certain(lease time.Duration) time.Duration {
	drift := least(lease/10, mostDrift)
	if drift < leastDrift {
		drift = leastDrift
	}
	return lease - drift
}

func (t *redisTransport) acquireLock(ctx context.Context, name string, request acquireRequest) (grant, error) {
	if err := t.inbox.open(ctx); err != nil {
		return grant{}, err
	}
	token := t.token()
	granted := t.inbox.listen(grantedTopic(token))
	defer granted.ignore()
	got, err := t.waitInQueue(ctx, name, token, granted.bell, request)
	if err != nil && (request.wait > 0 || ctx.Err() != nil) {
		t.leave(ctx, name, token)
	}
	return got, err
}

// waitInQueue asks again with the same token, after each notification and in case one was lost, until the wait ends.
func (t *redisTransport) waitInQueue(
	ctx context.Context, name string, token []byte, granted bell, request acquireRequest,
) (grant, error) {
	for until := time.Now().Add(request.wait); ; {
		sent := time.Now()
		left := until.Sub(sent)
		if left < 0 {
			left = 0
		}
		answer, err := t.askForLock(ctx, name, token, request, left)
		if err != nil {
			return grant{}, err
		}
		switch answer.word(contract.Acquired) {
		case "granted":
			return readGrant(answer, token, sent)
		case "busy":
			return grant{}, firstError(answer.err, lockBusy(name, micros(int64(answer.number()))))
		}
		position, check := time.Duration(answer.number()), micros(int64(answer.number()))
		if left == 0 || answer.err != nil {
			return grant{}, firstError(answer.err, lockBusy(name, check))
		}
		if check < time.Millisecond {
			check = time.Millisecond
		}
		granted.wait(ctx, least(left, check, position*contract.PositionSleep, contract.LockSleep))
		if ctx.Err() != nil {
			return grant{}, interrupted(ctx.Err(), false)
		}
	}
}

func (t *redisTransport) askForLock(
	ctx context.Context, name string, token []byte, request acquireRequest, left time.Duration,
) (*list, error) {
	args := arguments{}
	args.bytes(token)
	args.duration(request.lease)
	args.duration(left)
	args.flag(request.barging)
	args.bytes(t.inbox.id[:])
	args.bytes(writeOwner(request.label))
	reply, err := t.callOrReplay(ctx, "lock_acquire", "lock_confirm", []group{lockGroup(name)}, args)
	if err != nil {
		return nil, err
	}
	answers := listOf(reply)
	answer := answers.list()
	return answer, answers.err
}

// leave leaves the wait queue, or releases a lock that was granted meanwhile. If it fails, the position ends with its
// wait, and the lock with its lease.
func (t *redisTransport) leave(ctx context.Context, name string, token []byte) {
	ctx, cancel := context.WithTimeout(detached{ctx}, putBackTime)
	defer cancel()
	t.call(ctx, "lock_leave", []group{lockGroup(name)}, arguments{token})
}

// readGrant reads a grant. The lease counts from the time at which the call was sent.
func readGrant(answer *list, token []byte, sent time.Time) (grant, error) {
	fence := answer.number()
	answer.number()
	left := micros(int64(answer.number()))
	return grant{token: hex.EncodeToString(token), fence: fence, until: sent.Add(certain(left))}, answer.err
}

func (t *redisTransport) extendLock(ctx context.Context, name, token string, lease time.Duration) (grant, error) {
	proof, err := hex.DecodeString(token)
	if err != nil {
		return grant{}, lockLost(name)
	}
	args := arguments{proof}
	args.duration(lease)
	sent := time.Now()
	reply, err := t.call(ctx, "lock_extend", []group{lockGroup(name)}, args)
	if err != nil {
		return grant{}, err
	}
	answer := listOf(reply)
	if answer.err == nil && !answer.more() {
		return grant{}, lockLost(name)
	}
	return readGrant(answer, proof, sent)
}

func (t *redisTransport) releaseLock(ctx context.Context, name, token string) error {
	proof, err := hex.DecodeString(token)
	if err != nil {
		return lockLost(name)
	}
	reply, err := t.call(ctx, "lock_release", []group{lockGroup(name)}, arguments{proof})
	if err != nil {
		return err
	}
	answer := listOf(reply)
	if answer.word(contract.Released) == "not_held" {
		return lockLost(name)
	}
	return answer.err
}

func (t *redisTransport) watchLock(token string, lost func()) func() {
	proof, _ := hex.DecodeString(token)
	return t.inbox.call(revokedTopic(proof), lost).ignore
}

func (t *redisTransport) lockState(ctx context.Context, name string) (*LockState, error) {
	reply, err := t.call(ctx, "lock_show", []group{lockGroup(name)}, nil)
	if err != nil {
		return nil, err
	}
	answer := listOf(reply)
	holder, waiters := answer.list(), answer.list()
	state := &LockState{Name: name}
	if err := answer.err; err != nil {
		return nil, err
	}
	if state.Holder, err = readHolder(holder); err != nil {
		return nil, err
	}
	state.Waiters, err = readWaiters(waiters)
	return state, err
}

func (t *redisTransport) forceReleaseLock(ctx context.Context, name string) (*LockHolder, error) {
	reply, err := t.call(ctx, "lock_force_release", []group{lockGroup(name)}, nil)
	if err != nil {
		return nil, err
	}
	return readHolder(listOf(reply))
}

func readHolder(answer *list) (*LockHolder, error) {
	if !answer.more() {
		return nil, answer.err
	}
	answer.bytes()
	holder := &LockHolder{Fence: answer.number(), LeaseUntil: answer.moment()}
	rest := packed{rest: answer.bytes()}
	holder.Since = rest.fields(contract.HolderLayout).moment("since")
	rest.take(contract.InboxBytes)
	holder.Host, holder.PID, holder.Label = readOwner(&rest)
	return holder, firstError(answer.err, rest.err)
}

func readWaiters(answer *list) ([]LockWaiter, error) {
	var waiters []LockWaiter
	var tickets []uint64
	for answer.more() {
		answer.bytes()
		rest := packed{rest: answer.bytes()}
		fields := rest.fields(contract.WaiterLayout)
		rest.take(contract.InboxBytes)
		waiter := LockWaiter{Since: fields.moment("since"), WaitUntil: fields.moment("until")}
		waiter.Host, waiter.PID, waiter.Label = readOwner(&rest)
		if rest.err != nil {
			return nil, rest.err
		}
		// The position is the rank of the ticket.
		at := sort.Search(len(tickets), func(at int) bool { return tickets[at] > fields["ticket"] })
		tickets = append(tickets[:at], append([]uint64{fields["ticket"]}, tickets[at:]...)...)
		waiters = append(waiters[:at], append([]LockWaiter{waiter}, waiters[at:]...)...)
	}
	for at := range waiters {
		waiters[at].Position = at + 1
	}
	return waiters, answer.err
}

// writeOwner writes process ID, host and label.
func writeOwner(label string) []byte {
	host, _ := os.Hostname()
	host = cut(host, contract.NameBytes)
	head := pack(contract.OwnerLayout, numbers{"pid": uint64(uint32(os.Getpid()))})
	return concat(head, []byte{byte(len(host))}, []byte(host), []byte(label))
}

func readOwner(rest *packed) (host string, pid int, label string) {
	pid = rest.fields(contract.OwnerLayout).int("pid")
	host = rest.text(contract.HostLengthBytes)
	return host, pid, string(rest.rest)
}
