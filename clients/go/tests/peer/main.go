// Command peer plays roles in a scenario with programs in other languages: peer URL [ROLE ARGUMENT…]. Without a role,
// it reads a role per line, with tabs between the words, and prints an answer to each.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	rushgate "github.com/rushgate/rushgate/clients/go"
	"github.com/rushgate/rushgate/clients/go/internal/testenv"
)

const (
	language = "go"
	patience = time.Minute
)

func main() {
	if len(os.Args) < 2 {
		exit(errors.New("usage: peer URL [ROLE ARGUMENT…]"))
	}
	url, words := os.Args[1], os.Args[2:]
	client, err := rushgate.Connect(context.Background(), url, testenv.Options(url))
	if err != nil {
		exit(err)
	}
	defer client.Close()
	p := &peer{client: client, held: map[string]*rushgate.Held{}}
	if len(words) > 0 {
		p.play(words)
		return
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		p.play(strings.Split(lines.Text(), "\t"))
	}
}

func exit(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// say prints the answer of a role.
func say(answer any) {
	text, err := json.Marshal(answer)
	if err != nil {
		exit(err)
	}
	fmt.Println("»", string(text))
}

func number(word string) int {
	number, err := strconv.Atoi(word)
	if err != nil {
		exit(err)
	}
	return number
}

func seconds(word string) time.Duration { return time.Duration(number(word)) * time.Second }

type object = map[string]any

// peer is a client and the locks that it holds.
type peer struct {
	client *rushgate.Client
	held   map[string]*rushgate.Held
}

func (p *peer) play(words []string) {
	roles := map[string]func(context.Context, []string) (any, error){
		"count": p.count, "hold": p.hold, "free": p.free, "enqueue": p.enqueue, "work": p.work, "send": p.send,
		"receive": p.receive, "buy": p.buy, "reserve": p.reserve, "decide": p.decide,
	}
	role, args := roles[words[0]], words[1:]
	if role == nil {
		exit(fmt.Errorf("unknown role %q", words[0]))
	}
	answer, err := role(context.Background(), args)
	if err != nil {
		exit(err)
	}
	say(answer)
}

// count LOCK TIMES FILE appends the fencing token to a file under a lock: reads all, writes all.
func (p *peer) count(ctx context.Context, args []string) (any, error) {
	lock, file := p.client.Lock(args[0], rushgate.LockOptions{}), args[2]
	appendFence := func(_ context.Context, held *rushgate.Held) error {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return os.WriteFile(file, []byte(fmt.Sprintf("%s%d %s\n", text, held.Fence(), language)), 0o600)
	}
	for n := 0; n < number(args[1]); n++ {
		if err := lock.Run(ctx, rushgate.AcquireOptions{Wait: patience}, appendFence); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// hold LOCK WAIT LEASE acquires a lock, for times in seconds.
func (p *peer) hold(ctx context.Context, args []string) (any, error) {
	lock := p.client.Lock(args[0], rushgate.LockOptions{Lease: seconds(args[2])})
	held, err := lock.Acquire(ctx, rushgate.AcquireOptions{Wait: seconds(args[1])})
	if errors.Is(err, rushgate.ErrLockBusy) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p.held[args[0]] = held
	return object{"fence": held.Fence()}, nil
}

func (p *peer) free(ctx context.Context, args []string) (any, error) {
	return nil, p.held[args[0]].Release(ctx)
}

type payload struct {
	From string `json:"from"`
	N    int    `json:"n"`
}

// enqueue QUEUE N enqueues tasks.
func (p *peer) enqueue(ctx context.Context, args []string) (any, error) {
	for n := 1; n <= number(args[1]); n++ {
		task := rushgate.NewTask{ID: fmt.Sprintf("%s:%d", language, n), Payload: payload{language, n}}
		if err := p.add(ctx, args[0], task); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (p *peer) add(ctx context.Context, queue string, task rushgate.NewTask) error {
	enqueued, err := p.client.Queue(queue).Enqueue(ctx, task)
	if err == nil && enqueued.Outcome != rushgate.Added {
		err = fmt.Errorf("%s: %+v", task.ID, enqueued)
	}
	return err
}

// work QUEUE N DONE [STUCK_AFTER LEASE] completes tasks until N are in the queue DONE and none is left. Or stays in a
// handler after some.
func (p *peer) work(ctx context.Context, args []string) (any, error) {
	queue, counted := p.client.Queue(args[0]), p.client.Queue(args[2])
	options, stuckAfter := rushgate.WorkerOptions{}, -1
	if len(args) > 3 {
		options, stuckAfter = rushgate.WorkerOptions{Concurrency: 1, Lease: seconds(args[4])}, number(args[3])
	}
	var mu sync.Mutex
	done, failed := []string{}, make(chan error, 1)
	handle := func(ctx context.Context, content payload, job *rushgate.Job) (any, error) {
		if id := fmt.Sprintf("%s:%d", content.From, content.N); id != job.ID {
			return nil, fmt.Errorf("the payload of %s is that of %s", job.ID, id)
		}
		if len(done) == stuckAfter {
			return nil, stick(ctx, queue, done, job.ID)
		}
		if err := p.add(ctx, args[2], rushgate.NewTask{ID: job.ID}); err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		done = append(done, job.ID)
		return nil, nil
	}
	worker := p.client.Worker(args[0], options)
	worker.Handle(rushgate.AnyKind, rushgate.JSON(handle))
	running, stop := context.WithCancel(ctx)
	defer stop()
	go func() { failed <- worker.Run(running) }()
	for isOver := false; !isOver; time.Sleep(20 * time.Millisecond) {
		left, err := queue.Stats(ctx)
		if err != nil {
			return nil, err
		}
		all, err := counted.Stats(ctx)
		if err != nil {
			return nil, err
		}
		isOver = left.Ready+left.Leased+left.Scheduled == 0 && all.Ready >= uint64(number(args[1]))
	}
	stop()
	return object{"done": done}, <-failed
}

// stick stays in the handler of a task. Once the store has all completions, no task of this process runs again but the
// one that it holds.
func stick(ctx context.Context, queue *rushgate.Queue, done []string, id string) error {
	for _, one := range done {
		for info, err := queue.Task(ctx, one); info != nil || err != nil; info, err = queue.Task(ctx, one) {
			if err != nil {
				return err
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	say(object{"done": done, "stuck": id})
	<-ctx.Done()
	return ctx.Err()
}

// send QUEUE ID KIND TEXT enqueues one task.
func (p *peer) send(ctx context.Context, args []string) (any, error) {
	task := rushgate.NewTask{ID: args[1], Kind: args[2], Payload: map[string]string{"text": args[3]}}
	enqueued, err := p.client.Queue(args[0]).Enqueue(ctx, task)
	return enqueued.Outcome, err
}

// receive QUEUE claims one task and completes it.
func (p *peer) receive(ctx context.Context, args []string) (any, error) {
	tasks, err := p.client.Queue(args[0]).Claim(ctx, rushgate.ClaimOptions{Wait: patience})
	if err != nil {
		return nil, err
	}
	var content struct{ Text string }
	if err := tasks[0].Decode(&content); err != nil {
		return nil, err
	}
	return object{"id": tasks[0].ID, "kind": tasks[0].Kind, "text": content.Text}, tasks[0].Complete(ctx, nil)
}

// buy SALE BUYERS buys one unit of the SKU `phone` per buyer.
func (p *peer) buy(ctx context.Context, args []string) (any, error) {
	sale, sold, refused := p.client.Sale(args[0]), [][]any{}, 0
	for n := 1; n <= number(args[1]); n++ {
		reserved, err := sale.Reserve(ctx, rushgate.Reservation{
			Buyer: fmt.Sprintf("%s-%d", language, n), Key: "click", Lines: []rushgate.Line{{SKU: "phone"}},
		})
		if err != nil {
			return nil, err
		}
		if reserved.Hold == nil {
			refused++
			continue
		}
		decision, err := sale.Confirm(ctx, reserved.Hold.ID)
		if err != nil || decision.Hold == nil {
			return nil, fmt.Errorf("%+v, %w", decision, err)
		}
		entry := []any{reserved.Hold.ID}
		for _, unit := range reserved.Hold.Units {
			entry = append(entry, unit.Unit)
		}
		sold = append(sold, entry)
	}
	return object{"sold": sold, "refused": refused}, nil
}

// reserve SALE SKU BUYER KEY reserves one unit.
func (p *peer) reserve(ctx context.Context, args []string) (any, error) {
	reservation := rushgate.Reservation{Buyer: args[2], Key: args[3], Lines: []rushgate.Line{{SKU: args[1]}}}
	reserved, err := p.client.Sale(args[0]).Reserve(ctx, reservation)
	for code, kind := range map[string]error{"not_found": rushgate.ErrNotFound, "corrupt": rushgate.ErrCorrupt} {
		if errors.Is(err, kind) {
			return object{"outcome": code, "reservation": nil}, nil
		}
	}
	answer := object{"outcome": reserved.Outcome, "reservation": nil}
	if reserved.Hold != nil {
		answer["reservation"] = reserved.Hold.ID
	}
	return answer, err
}

// decide SALE confirm|cancel ID decides a reservation.
func (p *peer) decide(ctx context.Context, args []string) (any, error) {
	decide := p.client.Sale(args[0]).Confirm
	if args[1] == "cancel" {
		decide = p.client.Sale(args[0]).Cancel
	}
	decision, err := decide(ctx, args[2])
	return decision.Outcome, err
}
