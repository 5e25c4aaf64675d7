package resp

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// Conn is a connection that many goroutines share. Commands are sent in order and answered in order.
type Conn struct {
	net     net.Conn
	timeout time.Duration
	mu      sync.Mutex
	err     error
	pending []chan<- answer
	writer  *bufio.Writer
	unsent  chan struct{}
	closed  chan struct{}
}

type answer struct {
	reply any
	err   error
}

var errStalled = errors.New("no answer in time")

// dialNet connects to an address, with TLS if the settings have it.
func dialNet(ctx context.Context, addr string, settings *Settings) (net.Conn, error) {
	dialer := net.Dialer{KeepAlive: 15 * time.Second}
	if settings.TLS == nil {
		return dialer.DialContext(ctx, "tcp", addr)
	}
	config := settings.TLS.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	return (&tls.Dialer{NetDialer: &dialer, Config: config}).DialContext(ctx, "tcp", addr)
}

// dial opens a connection, authenticates, and selects the database.
func dial(ctx context.Context, addr string, settings *Settings, database int) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, settings.Timeout)
	defer cancel()
	raw, err := dialNet(ctx, addr, settings)
	if err != nil {
		return nil, &ConnectionError{Err: err}
	}
	conn := &Conn{
		net: raw, timeout: settings.Timeout, writer: bufio.NewWriter(raw),
		unsent: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	go conn.write()
	go conn.read()
	for _, command := range greeting(settings, database) {
		if _, err := conn.Do(ctx, command); err != nil {
			conn.Close()
			return nil, unsent(err)
		}
	}
	return conn, nil
}

func greeting(settings *Settings, database int) [][][]byte {
	var commands [][][]byte
	if settings.Password != "" {
		auth := [][]byte{[]byte("AUTH")}
		if settings.User != "" {
			auth = append(auth, []byte(settings.User))
		}
		commands = append(commands, append(auth, []byte(settings.Password)))
	}
	if database != 0 {
		commands = append(commands, [][]byte{[]byte("SELECT"), []byte(strconv.Itoa(database))})
	}
	return commands
}

// unsent marks a failure before the caller's own command was sent.
func unsent(err error) error {
	var failure *ConnectionError
	if errors.As(err, &failure) {
		return &ConnectionError{Err: failure.Err}
	}
	return err
}

// Do sends a command and waits for its answer. If the context ends first, the answer is dropped when it arrives. If no
// answer arrives within the timeout, the connection counts as stalled and is closed.
func (c *Conn) Do(ctx context.Context, args [][]byte) (any, error) {
	answered := make(chan answer, 1)
	if err := c.enqueue(args, answered); err != nil {
		return nil, &ConnectionError{Err: err}
	}
	stalled := time.NewTimer(c.timeout)
	defer stalled.Stop()
	select {
	case got := <-answered:
		return got.value()
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-stalled.C:
		c.fail(errStalled)
		return (<-answered).value()
	}
}

func (a answer) value() (any, error) {
	if a.err != nil {
		return nil, &ConnectionError{Err: a.err, Sent: true}
	}
	if refusal, is := a.reply.(Error); is {
		return nil, refusal
	}
	return a.reply, nil
}

func (c *Conn) enqueue(args [][]byte, answered chan<- answer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.pending = append(c.pending, answered)
	// A failure to write closes the connection, which answers all pending commands.
	if err := writeCommand(c.writer, args); err != nil {
		go c.fail(err)
		return nil
	}
	select {
	case c.unsent <- struct{}{}:
	default:
	}
	return nil
}

// write flushes what goroutines have written meanwhile, so that they share packets.
func (c *Conn) write() {
	for {
		select {
		case <-c.unsent:
		case <-c.closed:
			return
		}
		c.mu.Lock()
		err := c.writer.Flush()
		c.mu.Unlock()
		if err != nil {
			c.fail(err)
			return
		}
	}
}

func (c *Conn) read() {
	reader := bufio.NewReaderSize(c.net, 64<<10)
	for {
		reply, err := readReply(reader)
		if err != nil {
			c.fail(err)
			return
		}
		answered := c.next()
		if answered == nil {
			c.fail(errMalformed)
			return
		}
		answered <- answer{reply: reply}
	}
}

func (c *Conn) next() chan<- answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == 0 {
		return nil
	}
	answered := c.pending[0]
	c.pending = c.pending[1:]
	return answered
}

// fail closes the connection and answers all pending commands with an error.
func (c *Conn) fail(err error) {
	// A writer may hold the lock while the network does not take its bytes.
	c.net.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the server closed the connection")
	}
	c.err = err
	close(c.closed)
	for _, answered := range c.pending {
		answered <- answer{err: err}
	}
	c.pending = nil
}

// Broken reports whether the connection was closed.
func (c *Conn) Broken() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// Close closes the connection.
func (c *Conn) Close() { c.fail(net.ErrClosed) }
