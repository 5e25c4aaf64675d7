// Command bench measures locks and queues, and prints a table: bench [TIMES], by default 20,000 calls each. Rates are the
// medians of three rounds.
// RUSHGATE_BENCH_URL names the store; the default is RUSHGATE_TEST_REDIS. On a Redis server without TLS, it also measures the
// client over a redigo pool, and what programs do by hand: a lock of SET NX and a script that compares and deletes, and a
// queue of lists. In parentheses is the rate of Rushgate with its own connection, divided by that of the row.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
	rushgate "github.com/rushgate/rushgate/clients/go"
	"github.com/rushgate/rushgate/clients/go/internal/resp"
	"github.com/rushgate/rushgate/clients/go/internal/testenv"
	"github.com/rushgate/rushgate/clients/go/redigo"
)

const (
	concurrency = 32
	rounds      = 3
	compare     = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
)

var times = 20_000

func main() {
	if len(os.Args) > 1 {
		number, err := strconv.Atoi(os.Args[1])
		if err != nil {
			log.Fatal(err)
		}
		times = number
	}
	url := os.Getenv("RUSHGATE_BENCH_URL")
	if url == "" {
		url = os.Getenv("RUSHGATE_TEST_REDIS")
	}
	client, err := rushgate.Connect(context.Background(), url, testenv.Options(url))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	rows := []row{{"Rushgate", func() rates { return measured(client) }}}
	if strings.HasPrefix(url, "redis://") {
		pool := &redis.Pool{MaxIdle: 2 * concurrency, Dial: func() (redis.Conn, error) { return redis.DialURL(url) }}
		defer pool.Close()
		pooled, err := redigo.Open(context.Background(), pool, rushgate.Options{})
		if err != nil {
			log.Fatal(err)
		}
		defer pooled.Close()
		rows = append(rows,
			row{"Rushgate on a redigo pool", func() rates { return measured(pooled) }},
			row{"redigo by hand", func() rates { return byHand(pool) }},
			row{"SET NX on one connection", func() rates { return rates{plainLocks(url), 0, 0} }},
		)
	}
	printTable(rows)
}

// rates are locks, enqueues and drained tasks per second. 0: not measured.
type rates [3]int

type row struct {
	name    string
	measure func() rates
}

// printTable measures the rows in turns, and prints their medians.
func printTable(rows []row) {
	measurements := make([][]rates, len(rows))
	for round := 0; round < rounds; round++ {
		for at, one := range rows {
			measurements[at] = append(measurements[at], one.measure())
		}
	}
	fmt.Printf("| %d at a time | locks/s | enqueues/s | drained/s |\n|---|--:|--:|--:|\n", concurrency)
	for at, one := range rows {
		fmt.Printf("| %s |", one.name)
		for column := range (rates{}) {
			if got := median(measurements[at], column); got == 0 {
				fmt.Print(" – |")
			} else {
				fmt.Printf(" %d (%.2f) |", got, float64(median(measurements[0], column))/float64(got))
			}
		}
		fmt.Println()
	}
}

func median(measured []rates, column int) int {
	var values []int
	for _, one := range measured {
		values = append(values, one[column])
	}
	sort.Ints(values)
	return values[len(values)/2]
}

func measured(client *rushgate.Client) rates {
	queue := client.Queue(testenv.Unique("bench"))
	return rates{locks(client), enqueues(queue), drained(client, queue)}
}

// byHand measures what programs do with a pool and no library.
func byHand(pool *redis.Pool) rates {
	list := testenv.Unique("bench")
	return rates{poolLocks(pool), poolEnqueues(pool, list), poolDrained(pool, list)}
}

// rate returns the operations per second of work, which is called that many times.
func rate(calls int, work func(n int) error) int {
	var next atomic.Int64
	var all sync.WaitGroup
	begun := time.Now()
	for worker := 0; worker < concurrency; worker++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for n := int(next.Add(1)); n <= calls; n = int(next.Add(1)) {
				if err := work(n); err != nil {
					log.Fatal(err)
				}
			}
		}()
	}
	all.Wait()
	return int(float64(calls) / time.Since(begun).Seconds())
}

func lockName(n int) string { return fmt.Sprintf("bench-%d", n) }

func locks(client *rushgate.Client) int {
	ctx := context.Background()
	return rate(times, func(n int) error {
		held, err := client.Lock(lockName(n), rushgate.LockOptions{}).Acquire(ctx, rushgate.AcquireOptions{})
		if err != nil {
			return err
		}
		return held.Release(ctx)
	})
}

func enqueues(queue *rushgate.Queue) int {
	return rate(times, func(n int) error {
		_, err := queue.Enqueue(context.Background(), rushgate.NewTask{ID: fmt.Sprint(n), Payload: n})
		return err
	})
}

func drained(client *rushgate.Client, queue *rushgate.Queue) int {
	ctx, stop := context.WithCancel(context.Background())
	var done atomic.Int64
	worker := client.Worker(queue.Name(), rushgate.WorkerOptions{Concurrency: concurrency})
	worker.Handle(rushgate.AnyKind, func(context.Context, *rushgate.Job) (any, error) {
		if done.Add(1) == int64(times) {
			stop()
		}
		return nil, nil
	})
	begun := time.Now()
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	return int(float64(times) / time.Since(begun).Seconds())
}

// do sends a command as programs with a pool do.
func do(pool *redis.Pool, command string, args ...any) (any, error) {
	conn := pool.Get()
	defer conn.Close()
	return conn.Do(command, args...)
}

// poolLocks measures the lock of most Redis clients: no wait queue, no fencing token, no renewal.
func poolLocks(pool *redis.Pool) int {
	release := redis.NewScript(1, compare)
	return rate(times, func(n int) error {
		if _, err := do(pool, "SET", lockName(n), "token", "NX", "PX", 30_000); err != nil {
			return err
		}
		conn := pool.Get()
		defer conn.Close()
		_, err := release.Do(conn, lockName(n), "token")
		return err
	})
}

func poolEnqueues(pool *redis.Pool, list string) int {
	return rate(times, func(n int) error {
		_, err := do(pool, "LPUSH", list, n)
		return err
	})
}

// poolDrained moves each task to a second list while it runs, so that a crash does not lose it.
func poolDrained(pool *redis.Pool, list string) int {
	running := list + "-running"
	return rate(times, func(int) error {
		task, err := do(pool, "RPOPLPUSH", list, running)
		if err == nil {
			_, err = do(pool, "LREM", running, 1, task)
		}
		return err
	})
}

// plainLocks measures the same lock on the connection of the Go package, which all callers share.
func plainLocks(url string) int {
	target, err := resp.ParseURL(url, nil, 5*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	link := resp.NewLink(target)
	defer link.Close()
	send := func(words ...string) error {
		args := make([][]byte, len(words))
		for at, word := range words {
			args[at] = []byte(word)
		}
		_, err := link.Do(context.Background(), words[1], args)
		return err
	}
	return rate(times, func(n int) error {
		if err := send("SET", lockName(n), "token", "NX", "PX", "30000"); err != nil {
			return err
		}
		return send("EVAL", compare, "1", lockName(n), "token")
	})
}
