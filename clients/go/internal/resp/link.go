package resp

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Link sends commands to the server that has a key.
type Link interface {
	// Do sends a command once. An empty key is of any server.
	Do(ctx context.Context, key string, args [][]byte) (any, error)
	// Subscribe opens a subscription to a channel.
	Subscribe(ctx context.Context, channel string) (Subscription, error)
	// IsCluster reports whether a call must pass all keys.
	IsCluster() bool
	Close()
}

// Subscription delivers the messages of one channel until its connection ends.
type Subscription interface {
	// Next returns the next message. It fails if the server does not answer any more.
	Next() ([]byte, error)
	// Close makes Next fail.
	Close()
}

// NewLink returns the link to a target. It connects when it is used.
func NewLink(target *Target) Link {
	if target.mode == cluster {
		return newClusterLink(target)
	}
	return &primaryLink{target: target}
}

// slot holds the connection to one server, which is opened on demand and replaced when it breaks.
type slot struct {
	mu     sync.Mutex
	conn   *Conn
	closed bool
}

func (s *slot) get(open func() (*Conn, error)) (*Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, &ConnectionError{Err: errors.New("the client is closed")}
	}
	if s.conn != nil && !s.conn.Broken() {
		return s.conn, nil
	}
	conn, err := open()
	if err != nil {
		return nil, err
	}
	s.conn = conn
	return conn, nil
}

// discard closes a connection, so that the next command opens another one.
func (s *slot) discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
}

func (s *slot) close() {
	s.discard()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
}

// primaryLink leads to a single server, or to the primary that sentinels name.
type primaryLink struct {
	target *Target
	slot   slot
}

func (l *primaryLink) IsCluster() bool { return false }

func (l *primaryLink) Close() { l.slot.close() }

func (l *primaryLink) Do(ctx context.Context, _ string, args [][]byte) (any, error) {
	conn, err := l.slot.get(func() (*Conn, error) { return l.open(ctx) })
	if err != nil {
		return nil, err
	}
	reply, err := conn.Do(ctx, args)
	var refusal Error
	if errors.As(err, &refusal) && refusal.Code() == "READONLY" {
		// Another server is the primary now.
		l.slot.discard()
	}
	return reply, err
}

func (l *primaryLink) open(ctx context.Context) (*Conn, error) {
	addr, err := l.address(ctx)
	if err != nil {
		return nil, err
	}
	return dial(ctx, addr, &l.target.settings, l.target.database)
}

func (l *primaryLink) address(ctx context.Context) (string, error) {
	if l.target.mode == single {
		return l.target.hosts[0], nil
	}
	return l.askSentinels(ctx)
}

// askSentinels returns the address of the first primary that a sentinel names and that confirms its role.
func (l *primaryLink) askSentinels(ctx context.Context) (string, error) {
	var failure error = errors.New("no sentinel knows the service")
	for _, host := range l.target.hosts {
		addr, err := l.askSentinel(ctx, host)
		if err == nil {
			return addr, nil
		}
		failure = err
	}
	return "", &ConnectionError{Err: failure}
}

func (l *primaryLink) askSentinel(ctx context.Context, host string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, l.target.settings.Timeout)
	defer cancel()
	conn, err := dialSentinel(ctx, host, l.target.settings)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	reply, err := conn.Do(ctx, words("SENTINEL", "GET-MASTER-ADDR-BY-NAME", l.target.service))
	if err != nil {
		return "", err
	}
	pair, _ := reply.([]any)
	if len(pair) != 2 {
		return "", fmt.Errorf("the sentinel %s does not know the service %s", host, l.target.service)
	}
	addr := join(pair[0], pair[1])
	return addr, l.checkRole(ctx, addr)
}

// dialSentinel authenticates only if the sentinel asks for it: sentinels often have no password.
func dialSentinel(ctx context.Context, host string, settings Settings) (*Conn, error) {
	open := settings
	open.User, open.Password = "", ""
	conn, err := dial(ctx, host, &open, 0)
	if err != nil || settings.Password == "" {
		return conn, err
	}
	var refusal Error
	if _, err := conn.Do(ctx, words("PING")); errors.As(err, &refusal) && refusal.Code() == "NOAUTH" {
		conn.Close()
		return dial(ctx, host, &settings, 0)
	}
	return conn, nil
}

func (l *primaryLink) checkRole(ctx context.Context, addr string) error {
	conn, err := dial(ctx, addr, &l.target.settings, 0)
	if err != nil {
		return err
	}
	defer conn.Close()
	reply, err := conn.Do(ctx, words("ROLE"))
	if err != nil {
		return err
	}
	role, _ := reply.([]any)
	if len(role) == 0 || text(role[0]) != "master" {
		return fmt.Errorf("the server %s is not a primary", addr)
	}
	return nil
}

func (l *primaryLink) Subscribe(ctx context.Context, channel string) (Subscription, error) {
	addr, err := l.address(ctx)
	if err != nil {
		return nil, err
	}
	return subscribe(ctx, addr, &l.target.settings, channel)
}

func words(list ...string) [][]byte {
	args := make([][]byte, len(list))
	for at, word := range list {
		args[at] = []byte(word)
	}
	return args
}

func text(reply any) string {
	content, _ := reply.([]byte)
	return string(content)
}
