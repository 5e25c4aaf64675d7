package rushgate

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
	"github.com/rushgate/rushgate/clients/go/internal/resp"
)

// redisStore calls the function library as one client, which has its own client ID, counter and inbox.
type redisStore struct {
	link     resp.Link
	retryFor time.Duration
	client   [contract.ClientBytes]byte
	counter  atomic.Uint64
	inbox    *inbox
	closing  context.Context
	stop     context.CancelFunc
	// registered has the names that this client added to a directory.
	registered sync.Map
}

func openStore(ctx context.Context, link resp.Link, retryFor time.Duration) (*redisStore, error) {
	s := &redisStore{link: link, retryFor: retryFor}
	s.closing, s.stop = context.WithCancel(context.Background())
	if _, err := rand.Read(s.client[:]); err != nil {
		return nil, &Error{Kind: ErrMisconfigured, Message: "the system has no random numbers", Cause: err}
	}
	s.inbox = newInbox(s.link, s.closing)
	if err := s.checkProtocol(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// checkProtocol refuses a library of another protocol.
func (s *redisStore) checkProtocol(ctx context.Context) error {
	reply, err := s.call(ctx, "version", nil, nil)
	if err != nil {
		return err
	}
	version := listOf(reply)
	if protocol := version.number(); version.err == nil && protocol != contract.Protocol {
		return &Error{
			Kind:    ErrMisconfigured,
			Message: fmt.Sprintf("the server speaks protocol %d, and this package %d", protocol, contract.Protocol),
			Hint:    "Update the older one.",
		}
	}
	return version.err
}

// refuseCluster refuses a node of a Cluster. It has some of the locks, queues and sales only.
func (s *redisStore) refuseCluster(ctx context.Context) error {
	command := arguments{}
	command.text("INFO", "cluster")
	reply, err := s.send(ctx, "", command)
	var refusal resp.Error
	if errors.As(err, &refusal) {
		// The user may lack the right. Then a redirection shows the Cluster.
		return nil
	}
	if info, _ := reply.([]byte); bytes.Contains(info, []byte("cluster_enabled:1")) {
		return isNode(nil)
	}
	return err
}

// isNode is the error for a node of a Cluster that is not reached as such.
func isNode(cause error) *Error {
	return &Error{
		Kind: ErrMisconfigured, Message: "the server is a node of a Cluster", Hint: "Connect with a redis+cluster URL.",
		Cause: cause,
	}
}

func (s *redisStore) close() {
	s.stop()
	s.link.Close()
}

// op returns eight bytes that this client never used before.
func (s *redisStore) op() []byte {
	op := make([]byte, contract.OpBytes)
	binary.BigEndian.PutUint64(op, s.counter.Add(1))
	return op
}

// token returns a token for an acquisition.
func (s *redisStore) token() []byte { return concat(s.client[:], s.op()) }

func (s *redisStore) clientHex() string { return hex.EncodeToString(s.client[:]) }

// group is the keys of one thing, such as a lock. They share a hash tag.
type group struct {
	beginning, end string
	endings        []string
}

func groupOf(keys contract.Group, name string) group {
	return group{beginning: contract.KeyPrefix + "{" + keys.Tag + ":" + name + "}:", endings: keys.Endings}
}

func (g group) key(ending string) string { return g.beginning + ending + g.end }

func lockGroup(name string) group   { return groupOf(contract.LockKeys, name) }
func queueGroup(name string) group  { return groupOf(contract.QueueKeys, name) }
func uniqueGroup(name string) group { return groupOf(contract.UniqueKeys, name) }
func homeGroup(id string) group     { return groupOf(contract.HomeKeys, id) }
func saleGroup(id string) group     { return groupOf(contract.SaleKeys, id) }

func workerGroup(name string) group   { return groupOf(contract.WorkersKeys, name) }
func scheduleGroup(name string) group { return groupOf(contract.SchedulesKeys, name) }

// replays is the group of the client's replay cache for a queue.
func (s *redisStore) replays(name string) group {
	replays := groupOf(contract.AnswersKeys, name)
	replays.end = ":" + s.clientHex()
	return replays
}

// call calls a function. A call whose answer was lost is sent again with the same arguments.
func (s *redisStore) call(ctx context.Context, function string, groups []group, args arguments) (any, error) {
	var keys []string
	for _, group := range groups {
		if !s.link.IsCluster() {
			keys = append(keys, group.key(group.endings[0]))
			continue
		}
		for _, ending := range group.endings {
			keys = append(keys, group.key(ending))
		}
	}
	command := arguments{}
	command.text("FCALL", contract.FunctionPrefix+function, strconv.Itoa(len(keys)))
	command.text(keys...)
	first := ""
	if len(keys) > 0 {
		first = keys[0]
	}
	return s.send(ctx, first, append(command, args...))
}

// callOrReplay calls a function that needs memory. If the server is full, replay tells whether it was executed before.
func (s *redisStore) callOrReplay(
	ctx context.Context, function, replay string, groups []group, args arguments,
) (any, error) {
	reply, err := s.call(ctx, function, groups, args)
	if errors.Is(err, ErrFull) {
		return s.call(ctx, replay, groups, args)
	}
	return reply, err
}

// read reads a key directly.
func (s *redisStore) read(ctx context.Context, command, key string, args ...string) (any, error) {
	words := arguments{}
	words.text(command, key)
	words.text(args...)
	return s.send(ctx, key, words)
}

// register adds a name to a directory, once per client.
func (s *redisStore) register(ctx context.Context, directory, name string) error {
	entry := directory + " " + name
	if _, known := s.registered.Load(entry); known {
		return nil
	}
	if _, err := s.read(ctx, "ZADD", directory, "0", name); err != nil {
		return err
	}
	s.registered.Store(entry, nil)
	return nil
}

// send sends a command until it is answered, for as long as the retry budget lasts.
func (s *redisStore) send(ctx context.Context, key string, command arguments) (any, error) {
	until := time.Now().Add(s.retryFor)
	mayHaveHappened := false
	for pauses := (pauses{}); ; {
		reply, err := s.link.Do(ctx, key, command)
		if err == nil && !isStatus(reply, contract.AgainStatus) {
			return reply, nil
		}
		if s.closing.Err() != nil {
			return nil, closedError()
		}
		if ctx.Err() != nil {
			return nil, interrupted(ctx.Err(), mayHaveHappened || wasSent(err))
		}
		if err == nil {
			continue
		}
		mayHaveHappened = mayHaveHappened || wasSent(err)
		if !s.link.IsCluster() && isRedirection(err) {
			return nil, isNode(err)
		}
		if !passes(err) {
			return nil, redisError(err)
		}
		pause := pauses.draw()
		if time.Now().Add(pause).After(until) {
			return nil, gaveUp("store", err, mayHaveHappened)
		}
		sleep(ctx, pause)
	}
}

// wasSent reports whether a command without an answer may have been executed.
func wasSent(err error) bool {
	var lost *resp.ConnectionError
	if errors.As(err, &lost) {
		return lost.Sent
	}
	var refusal resp.Error
	return !errors.As(err, &refusal)
}

// isRedirection reports whether a node of a Cluster refused a key of another node.
func isRedirection(err error) bool {
	var refusal resp.Error
	if !errors.As(err, &refusal) {
		return false
	}
	code := refusal.Code()
	return code == "MOVED" || code == "ASK" || code == "CROSSSLOT"
}

// passes reports whether the same command may succeed soon.
func passes(err error) bool {
	var final *Error
	if errors.As(err, &final) {
		return false
	}
	var refusal resp.Error
	if !errors.As(err, &refusal) {
		return true
	}
	switch refusal.Code() {
	case "LOADING", "READONLY", "BUSY", "NOREPLICAS", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "MOVED", "ASK":
		return true
	default:
		return false
	}
}

func gaveUp(what string, cause error, mayHaveHappened bool) *Error {
	kind := ErrUnavailable
	if mayHaveHappened {
		kind = ErrOutcomeUnknown
	}
	return &Error{Kind: kind, Message: fmt.Sprintf("the %s did not answer: %v", what, cause), Cause: cause}
}

// redisError is the error for a refusal of the server.
func redisError(err error) error {
	var refusal resp.Error
	if !errors.As(err, &refusal) {
		return err
	}
	failure := &Error{Kind: ErrCorrupt, Message: "the server refused the call: " + err.Error(), Cause: err}
	switch code := refusal.Code(); {
	case strings.Contains(string(refusal), "Function not found"):
		failure.Kind, failure.Message = ErrMisconfigured, "the function library of the server is missing, or older than this package"
		failure.Hint = "Run: rushgate functions install --store URL"
	case code == "INVALID" || code == "DEADLINE":
		failure.Kind = ErrInvalid
	case code == "OOM":
		failure.Kind, failure.Hint = ErrFull, "Free memory, or raise maxmemory."
	case code == "NOAUTH" || code == "WRONGPASS" || code == "NOPERM":
		failure.Kind = ErrForbidden
	case code == "MISCONF":
		failure.Kind = ErrUnavailable
	}
	return failure
}

// redisTransport carries out the verbs by the function library.
type redisTransport struct {
	*redisStore
	// specs has the specifications of sales that this client has read.
	specs sync.Map
}

func newRedis(store *redisStore) *redisTransport {
	t := &redisTransport{redisStore: store}
	store.inbox.unwanted = t.declineWakeUp
	return t
}
