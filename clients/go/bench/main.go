// Command bench measures locks and queues, and prints a table. RUSHGATE_BENCH_URL names the store; the default is
// RUSHGATE_TEST_REDIS. Over Redis, a lock of SET NX and a script that compares and deletes is measured beside.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	rushgate "github.com/rushgate/rushgate/clients/go"
	"github.com/rushgate/rushgate/clients/go/internal/resp"
	"github.com/rushgate/rushgate/clients/go/internal/testenv"
)

const (
	cycles      = 20_000
	tasks       = 20_000
	concurrency = 32
	compare     = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
)

func main() {
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
	fmt.Printf("| rushgate | %d | %d | %d |\n", locks(client), enqueues(queue), drained(client, queue))
	if strings.HasPrefix(url, "redis://") {
		fmt.Printf("| SET NX | %d | | |\n", plainLocks(url))
	}
}

// rate returns the operations per second of work, which is called that many times.
func rate(times int, work func(n int) error) int {
	var next atomic.Int64
	var all sync.WaitGroup
	begun := time.Now()
	for worker := 0; worker < concurrency; worker++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for n := int(next.Add(1)); n <= times; n = int(next.Add(1)) {
				if err := work(n); err != nil {
					log.Fatal(err)
				}
			}
		}()
	}
	all.Wait()
	return int(float64(times) / time.Since(begun).Seconds())
}

func lockName(n int) string { return fmt.Sprintf("bench-%d", n) }

func locks(client *rushgate.Client) int {
	ctx := context.Background()
	return rate(cycles, func(n int) error {
		held, err := client.Lock(lockName(n), rushgate.LockOptions{}).Acquire(ctx, rushgate.AcquireOptions{})
		if err != nil {
			return err
		}
		return held.Release(ctx)
	})
}

func enqueues(queue *rushgate.Queue) int {
	return rate(tasks, func(n int) error {
		_, err := queue.Enqueue(context.Background(), rushgate.NewTask{ID: fmt.Sprint(n), Payload: n})
		return err
	})
}

func drained(client *rushgate.Client, queue *rushgate.Queue) int {
	ctx, stop := context.WithCancel(context.Background())
	var done atomic.Int64
	worker := client.Worker(queue.Name(), rushgate.WorkerOptions{Concurrency: concurrency})
	worker.Handle(rushgate.AnyKind, func(context.Context, *rushgate.Job) (any, error) {
		if done.Add(1) == tasks {
			stop()
		}
		return nil, nil
	})
	begun := time.Now()
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	return int(tasks / time.Since(begun).Seconds())
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
	return rate(cycles, func(n int) error {
		if err := do("SET", lockName(n), "token", "NX", "PX", "30000"); err != nil {
			return err
		}
		return do("EVAL", compare, "1", lockName(n), "token")
	})
}
