package resp

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// How often a subscription checks that its server still answers.
const pingEvery = 5 * time.Second

// subscription is a Subscription with its own connection.
type subscription struct {
	net     net.Conn
	reader  *bufio.Reader
	timeout time.Duration
	done    chan struct{}
	once    sync.Once
}

func subscribe(ctx context.Context, addr string, settings *Settings, channel string) (Subscription, error) {
	ctx, cancel := context.WithTimeout(ctx, settings.Timeout)
	defer cancel()
	raw, err := dialNet(ctx, addr, settings)
	if err != nil {
		return nil, &ConnectionError{Err: err}
	}
	s := &subscription{net: raw, reader: bufio.NewReader(raw), timeout: settings.Timeout, done: make(chan struct{})}
	deadline, _ := ctx.Deadline()
	raw.SetDeadline(deadline)
	for _, command := range append(greeting(settings, 0), words("SUBSCRIBE", channel)) {
		if err := s.ask(command); err != nil {
			raw.Close()
			return nil, err
		}
	}
	raw.SetDeadline(time.Time{})
	go s.ping()
	return s, nil
}

func (s *subscription) ask(command [][]byte) error {
	writer := bufio.NewWriter(s.net)
	writeCommand(writer, command)
	if err := writer.Flush(); err != nil {
		return &ConnectionError{Err: err}
	}
	reply, err := readReply(s.reader)
	if err != nil {
		return &ConnectionError{Err: err}
	}
	if refusal, is := reply.(Error); is {
		return refusal
	}
	return nil
}

func (s *subscription) ping() {
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	writer := bufio.NewWriter(s.net)
	for {
		select {
		case <-s.done:
			return
		case <-ticker.C:
		}
		s.net.SetWriteDeadline(time.Now().Add(s.timeout))
		writeCommand(writer, words("PING"))
		if writer.Flush() != nil {
			s.Close()
			return
		}
	}
}

func (s *subscription) Next() ([]byte, error) {
	for {
		s.net.SetReadDeadline(time.Now().Add(pingEvery + s.timeout))
		reply, err := readReply(s.reader)
		if err != nil {
			s.Close()
			return nil, err
		}
		parts, _ := reply.([]any)
		if len(parts) == 3 && text(parts[0]) == "message" {
			content, is := parts[2].([]byte)
			if !is {
				return nil, errors.New("the server sent a malformed message")
			}
			return content, nil
		}
	}
}

func (s *subscription) Close() {
	s.once.Do(func() { close(s.done) })
	s.net.Close()
}
