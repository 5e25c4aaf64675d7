// Command bench measures locks and queues, and prints a table: bench [TIMES], by default 20,000 calls each.
// RUSHGATE_BENCH_URL names the store; the default is RUSHGATE_TEST_REDIS. Over Redis, a lock of SET NX and a script that
// compares and deletes is measured beside. In parentheses is the rate of Rushgate, divided by that of the library.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	rushgate "github.com/rushgate/rushgate/clients/go"
	"github.com/rushgate/rushgate/clients/go/internal/resp"
	"github.com/rushgate/rushgate/clients/go/internal/testenv"
)

const (
	concurrency = 32
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
	queue := client.Queue(testenv.Unique("bench"))
	fmt.Printf("| %d at a time | locks/s | enqueues/s | drained/s |\n|---|---|---|---|\n", concurrency)
	ours := locks(client)
	fmt.Printf("| rushgate | %d (1.00) | %d (1.00) | %d (1.00) |\n", ours, enqueues(queue), drained(client, queue))
	if strings.HasPrefix(url, "redis://") {
		theirs := plainLocks(url)
		fmt.Printf("| SET NX | %d (%.2f) | | |\n", theirs, float64(ours)/float64(theirs))
	}
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

// plainLocks measures the lock of most Redis clients: no wait queue, no fencing token, no renewal.
func plainLocks(url string) int {
	target, err := resp.ParseURL(url, nil, 5*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	redis := resp.NewLink(target)
	defer redis.Close()
	do := func(words ...string) error {
		args := make([][]byte, len(words))
		for at, word := range words {
			args[at] = []byte(word)
		}
		_, err := redis.Do(context.Background(), words[1], args)
		return err
	}
	return rate(times, func(n int) error {
		if err := do("SET", lockName(n), "token", "NX", "PX", "30000"); err != nil {
			return err
		}
		return do("EVAL", compare, "1", lockName(n), "token")
	})
}
