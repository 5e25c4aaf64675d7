package redigo

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	rushgate "github.com/rushgate/rushgate/clients/go"
)

// How often a subscription checks that its server still answers.
const pingEvery = 5 * time.Second

var errEnded = errors.New("the subscription has ended")

// subscription has a connection of the pool until Next fails.
type subscription struct {
	messages redis.PubSubConn
	timeout  time.Duration
	once     sync.Once
	// ending is closed to unsubscribe. silent is closed when nothing more is sent.
	ending, silent chan struct{}
}

func (l link) Subscribe(ctx context.Context, timeout time.Duration, channel string) (rushgate.Subscription, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	messages := redis.PubSubConn{Conn: conn}
	if err = messages.Subscribe(channel); err == nil {
		err, _ = messages.ReceiveWithTimeout(timeout).(error)
	}
	if err != nil {
		err = failure(conn, err)
		discard(conn)
		conn.Close()
		return nil, err
	}
	s := &subscription{
		messages: messages, timeout: timeout, ending: make(chan struct{}), silent: make(chan struct{}),
	}
	go s.ping()
	return s, nil
}

// ping sends everything that is sent after the subscription. A connection allows one sender beside one receiver.
func (s *subscription) ping() {
	defer close(s.silent)
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			// A failure closes the connection, so that Next fails.
			s.messages.Ping("")
		case <-s.ending:
			s.messages.Unsubscribe()
			return
		}
	}
}

// Next returns the connection to the pool when it fails.
func (s *subscription) Next() ([]byte, error) {
	for {
		switch got := s.messages.ReceiveWithTimeout(pingEvery + s.timeout).(type) {
		case redis.Message:
			return got.Data, nil
		case redis.Subscription:
			if got.Count > 0 {
				continue
			}
			s.end()
			return nil, errEnded
		case error:
			if s.messages.Conn.Err() == nil {
				// The server refused a command or sent something strange.
				discard(s.messages.Conn)
			}
			s.end()
			return nil, got
		}
	}
}

func (s *subscription) end() {
	s.Close()
	<-s.silent
	s.messages.Close()
}

// Close lets the server confirm the end, so that the pool can use the connection again.
func (s *subscription) Close() { s.once.Do(func() { close(s.ending) }) }
