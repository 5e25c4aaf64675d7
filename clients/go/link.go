package rushgate

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/resp"
)

// Link reaches one Redis or Valkey server through the connections of another package. Open makes a client of it. Any
// number of goroutines use it at the same time.
//
// The module github.com/rushgate/rushgate/clients/go/redigo has the link of a redigo pool.
type Link interface {
	// Do sends a command and returns the reply: an int64, a string (a status), a []byte, nil, or a []any of these. A
	// failure is a ServerError, a *ConnectionError, or an *Error, which fails the call of the client at once. Do may send a
	// command again whose reply was lost: it takes effect once.
	//
	// The end of the context ends the wait for a connection, but not the wait for the reply: the next command must not
	// overtake this one. After the timeout, Do closes the connection and fails.
	Do(ctx context.Context, timeout time.Duration, args [][]byte) (any, error)
	// Subscribe subscribes to a channel on a connection that nothing else uses. It returns after the server has confirmed.
	// The timeout limits the wait for the confirmation, and for each later sign that the server still answers.
	Subscribe(ctx context.Context, timeout time.Duration, channel string) (Subscription, error)
}

// Subscription delivers the messages of one channel until its connection ends.
type Subscription interface {
	// Next returns the next message. It fails if the server does not answer any more.
	Next() ([]byte, error)
	// Close makes Next fail.
	Close()
}

// ServerError is an error that a server replied to a command of a Link, such as "LOADING Redis is loading".
type ServerError string

// Error returns the text of the server.
func (e ServerError) Error() string { return string(e) }

// ConnectionError reports that a command of a Link got no reply. The client sends the command again.
type ConnectionError struct {
	// Err is the cause.
	Err error
	// Sent is false if the command was certainly not sent.
	Sent bool
}

// Error returns the text of the cause.
func (e *ConnectionError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ConnectionError) Unwrap() error { return e.Err }

// Open returns a client that uses a link. The connections of the link have their own TLS settings and passwords, so the
// options TLS and Token must not be set. Close ends the client's subscription, and leaves the connections to their
// owner.
//
// It checks the protocol of the function library as Connect does. A link does not follow the redirections of a Cluster:
// ErrMisconfigured.
func Open(ctx context.Context, link Link, options Options) (*Client, error) {
	options, err := options.checked()
	if err == nil && options.TLS != nil {
		err = invalid("tls", "is a setting of the link's own connections")
	}
	if err == nil && options.Token != "" {
		err = invalid("token", "is only for HTTP URLs")
	}
	if err != nil {
		return nil, err
	}
	external := &externalLink{
		link: link, timeout: options.Timeout, closed: make(chan struct{}), late: map[string]*lateCalls{},
	}
	store, err := openStore(ctx, external, options.RetryFor)
	if err != nil {
		return nil, err
	}
	if err := store.refuseCluster(ctx); err != nil {
		store.close()
		return nil, err
	}
	return &Client{transport: newRedis(store)}, nil
}

// externalLink lets calls return when their context ends or the client is closed, while the link still waits for the reply.
type externalLink struct {
	link    Link
	timeout time.Duration
	once    sync.Once
	closed  chan struct{}
	mu      sync.Mutex
	// late has calls that returned before their commands, by the hash tag of the key.
	late map[string]*lateCalls
}

// lateCalls are commands under way whose callers have returned. done is closed when all of them have ended.
type lateCalls struct {
	n    int
	done chan struct{}
}

type linkAnswer struct {
	reply any
	err   error
}

var (
	errLinkClosed  = errors.New("the client is closed")
	errLinkStalled = errors.New("no answer in time")
)

func (l *externalLink) IsCluster() bool { return false }

func (l *externalLink) Close() { l.once.Do(func() { close(l.closed) }) }

func (l *externalLink) Do(ctx context.Context, key string, args [][]byte) (any, error) {
	// The link keeps to the timeout, except where it cannot interrupt a dial.
	stalled := time.NewTimer(2 * l.timeout)
	defer stalled.Stop()
	tag := hashTag(key)
	if err := l.settle(ctx, tag, stalled.C); err != nil {
		return nil, &resp.ConnectionError{Err: err}
	}
	answered := make(chan linkAnswer, 1)
	go func() {
		reply, err := l.link.Do(ctx, l.timeout, args)
		answered <- linkAnswer{reply, err}
	}()
	var ended error
	select {
	case got := <-answered:
		if got.err != nil {
			return nil, linkError(got.err)
		}
		if status, is := got.reply.(string); is {
			return resp.Status(status), nil
		}
		return got.reply, nil
	case <-ctx.Done():
		ended = ctx.Err()
	case <-l.closed:
		ended = errLinkClosed
	case <-stalled.C:
		ended = errLinkStalled
	}
	l.detach(tag, answered)
	return nil, &resp.ConnectionError{Err: ended, Sent: true}
}

// settle waits until no late call can be overtaken. A link with several connections does not keep the order of calls,
// and a lock that is released before it is acquired would stay held.
func (l *externalLink) settle(ctx context.Context, tag string, stalled <-chan time.Time) error {
	for {
		l.mu.Lock()
		late := l.late[tag]
		l.mu.Unlock()
		if late == nil {
			return nil
		}
		select {
		case <-late.done:
		case <-ctx.Done():
			return ctx.Err()
		case <-l.closed:
			return errLinkClosed
		case <-stalled:
			return errLinkStalled
		}
	}
}

// detach lets a command end without its caller.
func (l *externalLink) detach(tag string, answered <-chan linkAnswer) {
	if tag == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	late := l.late[tag]
	if late == nil {
		late = &lateCalls{done: make(chan struct{})}
		l.late[tag] = late
	}
	late.n++
	go func() {
		<-answered
		l.mu.Lock()
		defer l.mu.Unlock()
		if late.n--; late.n == 0 {
			delete(l.late, tag)
			close(late.done)
		}
	}()
}

func (l *externalLink) Subscribe(ctx context.Context, channel string) (resp.Subscription, error) {
	subscription, err := l.link.Subscribe(ctx, l.timeout, channel)
	if err != nil {
		return nil, linkError(err)
	}
	return subscription, nil
}

// hashTag returns the part of a key that all keys of one thing share, such as those of a lock.
func hashTag(key string) string {
	_, rest, _ := strings.Cut(key, "{")
	tag, _, _ := strings.Cut(rest, "}")
	return tag
}

func linkError(err error) error {
	var refusal ServerError
	var lost *ConnectionError
	var final *Error
	switch {
	case errors.As(err, &refusal):
		return resp.Error(refusal)
	case errors.As(err, &final):
		return final
	case errors.As(err, &lost):
		return &resp.ConnectionError{Err: lost.Err, Sent: lost.Sent}
	default:
		return &resp.ConnectionError{Err: err, Sent: true}
	}
}
