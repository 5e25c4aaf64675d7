// Package pools makes the tests use redigo pools. Import it to run tests over them.
package pools

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	rushgate "github.com/rushgate/rushgate/clients/go"
	"github.com/rushgate/rushgate/clients/go/internal/testenv"
	"github.com/rushgate/rushgate/clients/go/redigo"
)

const dialTimeout = 5 * time.Second

var (
	mu    sync.Mutex
	pools = map[string]*redis.Pool{}
)

func init() {
	testenv.Use(testenv.Library{Name: "redigo", Targets: []string{"redis", "sentinel", "tls"}, Open: open})
}

// open returns a client on the pool that all clients of a URL share.
func open(ctx context.Context, url string, options rushgate.Options) (*rushgate.Client, error) {
	tls := redis.DialTLSConfig(options.TLS)
	options.TLS = nil
	mu.Lock()
	pool := pools[url]
	if pool == nil {
		pool = New(url, tls)
		pools[url] = pool
	}
	mu.Unlock()
	return redigo.Open(ctx, pool, options)
}

// New returns a pool for a URL such as redis://host or redis+sentinel://host:port/service.
func New(url string, more ...redis.DialOption) *redis.Pool {
	options := append([]redis.DialOption{redis.DialConnectTimeout(dialTimeout)}, more...)
	dial := func() (redis.Conn, error) { return redis.DialURL(url, options...) }
	if rest := strings.TrimPrefix(url, "redis+sentinel://"); rest != url {
		sentinel, service, _ := strings.Cut(rest, "/")
		dial = func() (redis.Conn, error) {
			primary, err := Primary(sentinel, service)
			if err != nil {
				return nil, err
			}
			return redis.Dial("tcp", primary, options...)
		}
	}
	return &redis.Pool{MaxIdle: 64, Dial: dial}
}

// Primary asks a sentinel for the address of the primary.
func Primary(sentinel, service string) (string, error) {
	conn, err := redis.Dial("tcp", sentinel, redis.DialConnectTimeout(dialTimeout), redis.DialReadTimeout(dialTimeout))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	address, err := redis.Strings(conn.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service))
	if err != nil {
		return "", err
	}
	if len(address) != 2 {
		return "", fmt.Errorf("the sentinel does not know the service %s", service)
	}
	return net.JoinHostPort(address[0], address[1]), nil
}
