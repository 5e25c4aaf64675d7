package redigo_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	rushgate "github.com/rushgate/rushgate/clients/go"
	"github.com/rushgate/rushgate/clients/go/internal/testenv"
	"github.com/rushgate/rushgate/clients/go/redigo"
	"github.com/rushgate/rushgate/clients/go/redigo/internal/pools"
)

// TestMain sets the URL that the example reads.
func TestMain(m *testing.M) {
	if url := testenv.URL("redis"); url != "" {
		os.Setenv("REDIS_URL", url)
	}
	os.Exit(m.Run())
}

// eachPool runs a test with a pool of each server.
func eachPool(t *testing.T, test func(t *testing.T, pool *redis.Pool)) {
	t.Helper()
	testenv.Each(t, testenv.Single, func(t *testing.T, target testenv.Target) { test(t, newPool(t, target.URL)) })
}

func newPool(t *testing.T, url string) *redis.Pool {
	pool := pools.New(url)
	t.Cleanup(func() { pool.Close() })
	return pool
}

func open(t *testing.T, pool *redis.Pool, options rushgate.Options) *rushgate.Client {
	t.Helper()
	client := testenv.Must[*rushgate.Client](t)(redigo.Open(testenv.Context(t), pool, options))
	t.Cleanup(client.Close)
	return client
}

func enqueue(t *testing.T, queue *rushgate.Queue, id string) {
	t.Helper()
	if _, err := queue.Enqueue(testenv.Context(t), rushgate.NewTask{ID: id}); err != nil {
		t.Fatal(err)
	}
}

// claimLater claims one task, and waits until a notification announces it.
func claimLater(t *testing.T, queue *rushgate.Queue) <-chan string {
	claimed := make(chan string, 1)
	ctx := testenv.Context(t)
	go func() {
		tasks, err := queue.Claim(ctx, rushgate.ClaimOptions{Wait: testenv.Patience})
		if err != nil || len(tasks) != 1 {
			claimed <- fmt.Sprint(err)
			return
		}
		claimed <- tasks[0].ID
	}()
	return claimed
}

// server returns a server that is not among the targets of pools, or skips the test.
func server(t *testing.T, name string) string {
	url := testenv.URL(name)
	if url == "" {
		t.Skipf("needs the server %q", name)
	}
	return url
}

func TestCloseLeavesThePoolOpenAndReturnsItsConnections(t *testing.T) {
	eachPool(t, func(t *testing.T, pool *redis.Pool) {
		client, name := open(t, pool, rushgate.Options{}), testenv.Unique("queue")
		claimed := claimLater(t, client.Queue(name))
		enqueue(t, open(t, pool, rushgate.Options{}).Queue(name), "a")
		if id := <-claimed; id != "a" {
			t.Fatal(id)
		}
		client.Close()
		testenv.Until(t, "the connections are idle", func() bool { return pool.ActiveCount() == pool.IdleCount() })
		conn := pool.Get()
		defer conn.Close()
		if pong, err := redis.String(conn.Do("PING")); err != nil || pong != "PONG" {
			t.Errorf("%q, %v", pong, err)
		}
	})
}

func TestACallOutlastsTheEndOfAllIdleConnections(t *testing.T) {
	testenv.Each(t, testenv.Single, func(t *testing.T, target testenv.Target) {
		proxy := testenv.NewProxy(t, target.URL)
		pool := newPool(t, proxy.URL)
		client := open(t, pool, rushgate.Options{RetryFor: 100 * time.Millisecond})
		conns := make([]redis.Conn, 40)
		for at := range conns {
			conns[at] = pool.Get()
			testenv.Must[any](t)(conns[at].Do("PING"))
		}
		for _, conn := range conns {
			conn.Close()
		}
		if pool.IdleCount() < len(conns) {
			t.Fatal(pool.IdleCount())
		}
		proxy.Cut()
		enqueue(t, client.Queue(testenv.Unique("queue")), "a")
	})
}

func TestAPoolOfOneConnectionIsRefused(t *testing.T) {
	for _, wait := range []bool{false, true} {
		pool := pools.New("redis://127.0.0.1:1")
		pool.MaxActive, pool.Wait = 1, wait
		if _, err := redigo.Open(testenv.Context(t), pool, rushgate.Options{}); !errors.Is(err, rushgate.ErrMisconfigured) {
			t.Error(err)
		}
	}
}

func TestManyCallersShareAPoolOfTwoConnections(t *testing.T) {
	for _, wait := range []bool{false, true} {
		eachPool(t, func(t *testing.T, pool *redis.Pool) {
			pool.MaxActive, pool.Wait = 2, wait
			client := open(t, pool, rushgate.Options{})
			name := testenv.Unique("lock")
			var all sync.WaitGroup
			var inside, held atomic.Int32
			for n := 0; n < 8; n++ {
				all.Add(1)
				go func() {
					defer all.Done()
					err := client.Lock(name, rushgate.LockOptions{}).Run(testenv.Context(t), rushgate.AcquireOptions{Wait: testenv.Patience},
						func(context.Context, *rushgate.Held) error {
							if inside.Add(1) != 1 {
								t.Error("two holders")
							}
							held.Add(1)
							inside.Add(-1)
							return nil
						})
					if err != nil {
						t.Error(err)
					}
				}()
			}
			all.Wait()
			if held.Load() != 8 {
				t.Error(held.Load())
			}
		})
	}
}

func TestAPoolWithoutAFreeConnectionFailsCallsInTimeAndSendsNothing(t *testing.T) {
	for _, wait := range []bool{false, true} {
		eachPool(t, func(t *testing.T, pool *redis.Pool) {
			pool.MaxActive, pool.Wait = 2, wait
			limit := 300 * time.Millisecond
			client := open(t, pool, rushgate.Options{Timeout: limit, RetryFor: limit})
			one, other := pool.Get(), pool.Get()
			defer one.Close()
			defer other.Close()
			begun := time.Now()
			_, err := client.Queue("q").Stats(testenv.Context(t))
			if !errors.Is(err, rushgate.ErrUnavailable) || errors.Is(err, rushgate.ErrOutcomeUnknown) || time.Since(begun) > 5*time.Second {
				t.Errorf("%v after %v", err, time.Since(begun))
			}
		})
	}
}

func TestANodeOfAClusterIsRefused(t *testing.T) {
	nodes := strings.TrimPrefix(server(t, "cluster"), "redis+cluster://")
	node, _, _ := strings.Cut(nodes, ",")
	_, err := redigo.Open(testenv.Context(t), newPool(t, "redis://"+node), rushgate.Options{})
	if !errors.Is(err, rushgate.ErrMisconfigured) || !strings.Contains(err.Error(), "redis+cluster") {
		t.Error(err)
	}
}

// plainConn lacks the methods with a timeout.
type plainConn struct{ redis.Conn }

func TestAConnectionWithoutTimeoutsIsRefused(t *testing.T) {
	eachPool(t, func(t *testing.T, pool *redis.Pool) {
		dial := pool.Dial
		pool.Dial = func() (redis.Conn, error) {
			conn, err := dial()
			return plainConn{conn}, err
		}
		_, err := redigo.Open(testenv.Context(t), pool, rushgate.Options{})
		if !errors.Is(err, rushgate.ErrMisconfigured) || !strings.Contains(err.Error(), "ConnWithTimeout") {
			t.Error(err)
		}
	})
}

func TestAServerThatRefusesTheUserIsForbidden(t *testing.T) {
	testenv.Each(t, testenv.Single, func(t *testing.T, target testenv.Target) {
		pool := newPool(t, strings.Replace(target.URL, "://", "://nobody:wrong@", 1))
		if _, err := redigo.Open(testenv.Context(t), pool, rushgate.Options{}); !errors.Is(err, rushgate.ErrForbidden) {
			t.Error(err)
		}
	})
}

func TestAReplicaIsLeftForThePrimary(t *testing.T) {
	sentinel, service, _ := strings.Cut(strings.TrimPrefix(server(t, "failover"), "redis+sentinel://"), "/")
	replica := replicaOf(t, sentinel, service)
	pool := newPool(t, server(t, "failover"))
	primary := pool.Dial
	pool.Dial = func() (redis.Conn, error) { return redis.Dial("tcp", replica) }
	client := open(t, pool, rushgate.Options{RetryFor: 5 * time.Second})
	// All of these connections lead to the replica.
	conns := []redis.Conn{pool.Get(), pool.Get(), pool.Get()}
	for _, conn := range conns {
		conn.Close()
	}
	pool.Dial = primary
	enqueue(t, client.Queue(testenv.Unique("queue")), "a")
	if idle := pool.IdleCount(); idle != 1 {
		t.Errorf("%d idle connections", idle)
	}
}

// replicaOf returns the address of a replica, when the sentinel knows it.
func replicaOf(t *testing.T, sentinel, service string) string {
	conn := testenv.Must[redis.Conn](t)(redis.Dial("tcp", sentinel))
	defer conn.Close()
	var address string
	testenv.Until(t, "the sentinel knows a replica", func() bool {
		replicas, err := redis.Values(conn.Do("SENTINEL", "REPLICAS", service))
		if err != nil || len(replicas) == 0 {
			return false
		}
		fields, err := redis.StringMap(replicas[0], nil)
		address = net.JoinHostPort(fields["ip"], fields["port"])
		return err == nil && fields["flags"] == "slave" && fields["master-link-status"] == "ok"
	})
	return address
}

func TestAFailoverIsFollowedIfDialAsksTheSentinel(t *testing.T) {
	url := server(t, "failover")
	sentinel, service, _ := strings.Cut(strings.TrimPrefix(url, "redis+sentinel://"), "/")
	replicaOf(t, sentinel, service)
	before := testenv.Must[string](t)(pools.Primary(sentinel, service))
	client := open(t, newPool(t, url), rushgate.Options{RetryFor: testenv.Patience})
	queue := client.Queue(testenv.Unique("queue"))
	enqueue(t, queue, "before")
	if id := <-claimLater(t, queue); id != "before" {
		t.Fatal(id)
	}
	claimed := claimLater(t, queue)
	conn := testenv.Must[redis.Conn](t)(redis.Dial("tcp", sentinel))
	defer conn.Close()
	testenv.Until(t, "the failover begins", func() bool {
		_, err := conn.Do("SENTINEL", "FAILOVER", service)
		return err == nil
	})
	// Until then, the former primary may take tasks that are lost.
	testenv.Until(t, "the former primary is a replica", func() bool { return replicaOf(t, sentinel, service) == before })
	enqueue(t, queue, "after")
	if id := <-claimed; id != "after" {
		t.Error(id)
	}
}
