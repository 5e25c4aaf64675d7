// Command peer plays one role in a scenario with programs in other languages: peer URL ROLE ARGUMENT…
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	rushgate "github.com/rushgate/rushgate/clients/go"
	"github.com/rushgate/rushgate/clients/go/internal/resp"
	"github.com/rushgate/rushgate/clients/go/internal/testenv"
)

const (
	language = "go"
	patience = time.Minute
)

func main() {
	if len(os.Args) < 4 {
		exit(errors.New("usage: peer URL ROLE ARGUMENT…"))
	}
	url, role, args := os.Args[1], os.Args[2], os.Args[3:]
	client, err := rushgate.Connect(context.Background(), url, testenv.Options(url))
	if err != nil {
		exit(err)
	}
	defer client.Close()
	if err := play(context.Background(), client, url, role, args); err != nil {
		exit(err)
	}
}

func exit(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func play(ctx context.Context, client *rushgate.Client, url, role string, args []string) error {
	number := func(at int) int {
		number, err := strconv.Atoi(args[at])
		if err != nil {
			exit(err)
		}
		return number
	}
	switch role {
	case "count":
		return count(ctx, client.Lock(args[0], rushgate.LockOptions{}), url, number(1))
	case "enqueue":
		return enqueue(ctx, client.Queue(args[0]), number(1))
	case "work":
		return work(ctx, client, args[0], number(1), args[2])
	case "buy":
		return buy(ctx, client.Sale(args[0]), number(1))
	default:
		return fmt.Errorf("unknown role %q", role)
	}
}

// say prints the answer of a role.
func say(answer map[string]any) error {
	text, err := json.Marshal(answer)
	fmt.Println("»", string(text))
	return err
}

// count adds one to the key counter, under a lock.
func count(ctx context.Context, lock *rushgate.Lock, url string, times int) error {
	target, err := resp.ParseURL(url, testenv.Options(url).TLS, patience)
	if err != nil {
		return err
	}
	redis := resp.NewLink(target)
	defer redis.Close()
	for n := 0; n < times; n++ {
		err := lock.Run(ctx, rushgate.AcquireOptions{Wait: patience}, func(ctx context.Context, _ *rushgate.Held) error {
			reply, err := redis.Do(ctx, "counter", [][]byte{[]byte("GET"), []byte("counter")})
			if err != nil {
				return err
			}
			text, _ := reply.([]byte)
			number, _ := strconv.Atoi(string(text))
			_, err = redis.Do(ctx, "counter", [][]byte{[]byte("SET"), []byte("counter"), []byte(strconv.Itoa(number + 1))})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

type payload struct {
	From string `json:"from"`
	N    int    `json:"n"`
}

func enqueue(ctx context.Context, queue *rushgate.Queue, n int) error {
	for number := 1; number <= n; number++ {
		task := rushgate.NewTask{ID: fmt.Sprintf("%s:%d", language, number), Payload: payload{language, number}}
		if enqueued, err := queue.Enqueue(ctx, task); err != nil || enqueued.Outcome != rushgate.Added {
			return fmt.Errorf("%+v, %w", enqueued, err)
		}
	}
	return nil
}

// work completes tasks until as many as wanted are in the other queue and none is left.
func work(ctx context.Context, client *rushgate.Client, name string, n int, counted string) error {
	var mu sync.Mutex
	done := []string{}
	worker := client.Worker(name, rushgate.WorkerOptions{})
	worker.Handle(rushgate.AnyKind, rushgate.JSON(func(ctx context.Context, content payload, job *rushgate.Job) (any, error) {
		if id := fmt.Sprintf("%s:%d", content.From, content.N); id != job.ID {
			return nil, fmt.Errorf("the payload of %s is that of %s", job.ID, id)
		}
		if _, err := client.Queue(counted).Enqueue(ctx, rushgate.NewTask{ID: job.ID}); err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		done = append(done, job.ID)
		return nil, nil
	}))
	running, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error)
	go func() { stopped <- worker.Run(running) }()
	for isOver := false; !isOver; time.Sleep(20 * time.Millisecond) {
		left, err := client.Queue(name).Stats(ctx)
		if err != nil {
			return err
		}
		all, err := client.Queue(counted).Stats(ctx)
		if err != nil {
			return err
		}
		isOver = left.Ready+left.Leased+left.Scheduled == 0 && all.Ready >= uint64(n)
	}
	stop()
	if err := <-stopped; err != nil {
		return err
	}
	return say(map[string]any{"done": done})
}

func buy(ctx context.Context, sale *rushgate.Sale, buyers int) error {
	sold, refused := [][]any{}, 0
	for number := 1; number <= buyers; number++ {
		reserved, err := sale.Reserve(ctx, rushgate.Reservation{
			Buyer: fmt.Sprintf("%s-%d", language, number), Key: "click", Lines: []rushgate.Line{{SKU: "phone"}},
		})
		if err != nil {
			return err
		}
		if reserved.Hold == nil {
			refused++
			continue
		}
		decision, err := sale.Confirm(ctx, reserved.Hold.ID)
		if err != nil || decision.Hold == nil {
			return fmt.Errorf("%+v, %w", decision, err)
		}
		entry := []any{reserved.Hold.ID}
		for _, unit := range reserved.Hold.Units {
			entry = append(entry, unit.Unit)
		}
		sold = append(sold, entry)
	}
	return say(map[string]any{"sold": sold, "refused": refused})
}
