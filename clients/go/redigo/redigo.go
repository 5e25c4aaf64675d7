// Package redigo opens Rushgate clients on a connection pool of redigo (github.com/gomodule/redigo). The client uses the
// pool's connections, with their TLS settings, passwords and metrics, and leaves the pool open.
//
// A pool leads to one Redis or Valkey server. If its Dial asks sentinels for the primary, the client follows a failover.
// Open refuses a node of a Cluster: connect to a Cluster with rushgate.Connect.
//
// Each call uses a connection for the time of one command. The notifications of a client have a connection of their own,
// which counts as active until Close. So MaxActive must be 2 or more, and MaxIdle should be the number of concurrent
// calls.
package redigo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	rushgate "github.com/rushgate/rushgate/clients/go"
)

// Open returns a client that uses a pool. The connections of the pool must implement redis.ConnWithTimeout, as those of
// redis.Dial do. Close of the client does not close the pool.
//
// The options Timeout and RetryFor are those of rushgate.Connect. TLS and Token must not be set. ErrMisconfigured: the
// pool has fewer than two connections, the server is a node of a Cluster, or its function library is missing.
func Open(ctx context.Context, pool *redis.Pool, options rushgate.Options) (*rushgate.Client, error) {
	if pool.MaxActive == 1 {
		return nil, &rushgate.Error{
			Kind: rushgate.ErrMisconfigured, Message: "the pool has one connection, and notifications need one of their own",
			Hint: "Set MaxActive to 2 or more.",
		}
	}
	return rushgate.Open(ctx, link{pool}, options)
}

type link struct{ pool *redis.Pool }

// Do repeats a command as often as the pool had idle connections: all of them may have ended with the server.
func (l link) Do(ctx context.Context, timeout time.Duration, args [][]byte) (any, error) {
	deadline := time.Now().Add(timeout)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	words := make([]any, len(args)-1)
	for at, arg := range args[1:] {
		words[at] = arg
	}
	sent := false
	for idle := l.pool.IdleCount(); ; idle-- {
		reply, err := l.try(ctx, deadline, string(args[0]), words)
		var lost *rushgate.ConnectionError
		if errors.As(err, &lost) {
			sent = sent || lost.Sent
			lost.Sent = sent
		}
		if lost == nil && !isReadOnly(err) || idle <= 0 || ctx.Err() != nil {
			return reply, err
		}
	}
}

func (l link) try(ctx context.Context, deadline time.Time, command string, words []any) (any, error) {
	conn, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	left := time.Until(deadline)
	if left <= 0 {
		return nil, &rushgate.ConnectionError{Err: context.DeadlineExceeded}
	}
	reply, err := redis.DoWithTimeout(conn, left, command, words...)
	err = failure(conn, err)
	if isReadOnly(err) {
		discard(conn)
	}
	return reply, err
}

func (l link) get(ctx context.Context) (redis.Conn, error) {
	conn, err := l.pool.GetContext(ctx)
	if err == nil && ctx.Err() != nil {
		conn.Close()
		err = ctx.Err()
	}
	var refusal redis.Error
	if errors.As(err, &refusal) {
		return nil, rushgate.ServerError(refusal)
	}
	if err != nil {
		return nil, &rushgate.ConnectionError{Err: err}
	}
	return conn, nil
}

// isReadOnly reports whether the server is not the primary any more.
func isReadOnly(err error) bool {
	var refusal rushgate.ServerError
	return errors.As(err, &refusal) && strings.HasPrefix(string(refusal), "READONLY ")
}

// discard breaks a connection by a read that has no time, so that the pool closes it.
func discard(conn redis.Conn) { redis.ReceiveWithTimeout(conn, time.Nanosecond) }

// failure is the error of a link for an error of a connection.
func failure(conn redis.Conn, err error) error {
	var refusal redis.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refusal):
		return rushgate.ServerError(refusal)
	case conn.Err() != nil:
		return &rushgate.ConnectionError{Err: err, Sent: true}
	default:
		// A connection that fails to send or receive is unusable. So this one has refused the call.
		return &rushgate.Error{
			Kind: rushgate.ErrMisconfigured, Message: fmt.Sprintf("the pool's connection refused the call: %v", err), Cause: err,
			Hint: "Let Dial return a connection that implements redis.ConnWithTimeout.",
		}
	}
}
