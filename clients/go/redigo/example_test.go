package redigo_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"
	rushgate "github.com/rushgate/rushgate/clients/go"
	"github.com/rushgate/rushgate/clients/go/redigo"
)

func ExampleOpen() {
	pool := &redis.Pool{
		MaxIdle: 16,
		Dial:    func() (redis.Conn, error) { return redis.DialURL(os.Getenv("REDIS_URL")) },
	}
	defer pool.Close()

	ctx := context.Background()
	client, err := redigo.Open(ctx, pool, rushgate.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	err = client.Lock("order:42", rushgate.LockOptions{}).Run(ctx, rushgate.AcquireOptions{Wait: 5 * time.Second},
		func(ctx context.Context, held *rushgate.Held) error {
			fmt.Println("held:", held.Fence() > 0)
			return nil
		})
	if err != nil {
		log.Fatal(err)
	}
	// Output: held: true
}
