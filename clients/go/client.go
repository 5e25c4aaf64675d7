package rushgate

import (
	"context"
	"crypto/tls"
	"strings"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
	"github.com/rushgate/rushgate/clients/go/internal/resp"
)

// Options of a client. The zero value has the defaults.
type Options struct {
	// Token is the API token of a Rushgate server. Only HTTP URLs have one.
	Token string
	// TLS settings of the connections. Default: the authorities of the machine.
	TLS *tls.Config
	// Timeout of one attempt of a call, without the waits that a call asks for: 100 ms to 24 h. Default: 5 s.
	Timeout time.Duration
	// RetryFor is how long a call is repeated after a lost connection: 100 ms to 24 h. Default: 10 s.
	RetryFor time.Duration
}

var settingRange = contract.Range{Min: 100_000, Max: contract.WaitMicros.Max}

// checked returns the options with their defaults.
func (o Options) checked() (Options, error) {
	o.Timeout = orDefault(o.Timeout, contract.DefaultTimeout)
	o.RetryFor = orDefault(o.RetryFor, contract.DefaultRetryFor)
	return o, firstError(
		checkDuration("timeout", o.Timeout, settingRange), checkDuration("retryFor", o.RetryFor, settingRange),
	)
}

// Client of locks, queues and sales. Any number of goroutines may share it, and everything that it returns.
type Client struct {
	transport transport
}

// Connect returns a client of the store at a URL:
//
//   - redis://[user:password@]host[:port][/database]
//   - redis+sentinel://[user:password@]host[:port],…/service[/database]
//   - redis+cluster://[user:password@]host[:port],…
//   - the same with rediss, for TLS
//   - http://host:port and https://…, a Rushgate server
//
// Over Redis, it checks the protocol of the function library: ErrMisconfigured if it is missing. Over HTTP, it sends
// nothing.
func Connect(ctx context.Context, url string, options Options) (*Client, error) {
	options, err := options.checked()
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(url, "http://") || strings.HasPrefix(url, "https://") {
		http, err := newHTTP(url, options)
		if err != nil {
			return nil, err
		}
		return &Client{transport: http}, nil
	}
	if options.Token != "" {
		return nil, invalid("token", "is only for HTTP URLs; Redis URLs have a user and a password")
	}
	target, err := resp.ParseURL(url, options.TLS, options.Timeout)
	if err != nil {
		return nil, invalid("url", "%v", err)
	}
	store, err := openStore(ctx, resp.NewLink(target), options.RetryFor)
	if err != nil {
		return nil, err
	}
	return &Client{transport: newRedis(store)}, nil
}

// Lock returns a lock by name. An invalid name or option fails its first call.
func (c *Client) Lock(name string, options LockOptions) *Lock {
	return newLock(c.transport, name, options)
}

// Queue returns a queue by name. An invalid name fails its first call.
func (c *Client) Queue(name string) *Queue { return newQueue(c.transport, name) }

// Worker returns a worker of a queue. It does nothing until it runs. An invalid name or option fails Run.
func (c *Client) Worker(queue string, options WorkerOptions) *Worker {
	return newWorker(c.Queue(queue), options)
}

// Sale returns a sale by ID. An invalid ID fails its first call.
func (c *Client) Sale(id string) *Sale { return newSale(c.transport, id) }

// CreateSale creates a sale without opening it, and reports whether it did. False: another sale has the ID.
func (c *Client) CreateSale(ctx context.Context, sale NewSale) (bool, error) {
	sale, err := sale.checked()
	if err != nil {
		return false, err
	}
	return c.transport.createSale(ctx, sale)
}

// Close closes the connections; those of a Link stay open. Calls that run fail with ErrClosed. Locks that are held end
// with their leases.
func (c *Client) Close() { c.transport.close() }
