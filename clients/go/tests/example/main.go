package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	rushgate "github.com/rushgate/rushgate/clients/go"
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	client, err := rushgate.Connect(ctx, os.Getenv("RUSHGATE_URL"), rushgate.Options{Token: os.Getenv("RUSHGATE_TOKEN")})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	err = client.Lock("nightly", rushgate.LockOptions{}).Run(ctx, rushgate.AcquireOptions{Wait: 5 * time.Second},
		func(ctx context.Context, held *rushgate.Held) error {
			fmt.Println("fencing token", held.Fence())
			return nil
		})
	if err != nil {
		log.Fatal(err)
	}

	task := rushgate.NewTask{ID: "to:ann", Kind: "welcome", Payload: map[string]string{"to": "ann"}}
	if _, err := client.Queue("mail").Enqueue(ctx, task); err != nil {
		log.Fatal(err)
	}
	worker := client.Worker("mail", rushgate.WorkerOptions{})
	worker.Handle("welcome", rushgate.JSON(func(ctx context.Context, mail struct{ To string }, job *rushgate.Job) (any, error) {
		fmt.Println("sent to", mail.To, "in attempt", job.Attempt)
		stop()
		return nil, nil
	}))
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
