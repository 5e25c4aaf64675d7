package resp

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"net"
	"strconv"
	"strings"
	"sync"
)

const (
	slots        = 16_384
	maxRedirects = 5
)

// clusterLink sends each command to the primary of the slot of its key.
type clusterLink struct {
	target *Target
	mu     sync.Mutex
	nodes  map[string]*slot
	owners [slots]string
	known  bool
	closed bool
}

func newClusterLink(target *Target) *clusterLink {
	return &clusterLink{target: target, nodes: map[string]*slot{}}
}

func (l *clusterLink) IsCluster() bool { return true }

func (l *clusterLink) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, node := range l.nodes {
		node.close()
	}
}

func (l *clusterLink) Do(ctx context.Context, key string, args [][]byte) (any, error) {
	addr, err := l.owner(ctx, key)
	if err != nil {
		return nil, unsent(err)
	}
	asking := false
	for redirects := 0; ; redirects++ {
		reply, err := l.doAt(ctx, addr, asking, args)
		var refusal Error
		if !errors.As(err, &refusal) {
			if isConnectionError(err) {
				l.forget()
			}
			return reply, err
		}
		next, isAsk := l.redirection(refusal, addr)
		if next == "" || redirects == maxRedirects {
			return nil, err
		}
		addr, asking = next, isAsk
	}
}

func isConnectionError(err error) bool {
	var failure *ConnectionError
	return errors.As(err, &failure)
}

// redirection returns the node to which an error leads, and whether it is only for this command.
func (l *clusterLink) redirection(refusal Error, from string) (string, bool) {
	parts := strings.Fields(string(refusal))
	switch code := refusal.Code(); {
	case code == "MOVED" && len(parts) == 3:
		number, err := strconv.Atoi(parts[1])
		if err != nil || number < 0 || number >= slots {
			return "", false
		}
		addr := l.near(parts[2], from)
		l.mu.Lock()
		l.owners[number] = addr
		l.mu.Unlock()
		return addr, false
	case code == "ASK" && len(parts) == 3:
		return l.near(parts[2], from), true
	case code == "READONLY" || code == "CLUSTERDOWN":
		l.forget()
	}
	return "", false
}

// near completes an address without a host, which means the host of the node that answered.
func (l *clusterLink) near(addr, from string) string {
	host, port, err := net.SplitHostPort(addr)
	if err == nil && host == "" {
		host, _, _ = net.SplitHostPort(from)
	}
	return net.JoinHostPort(host, port)
}

func (l *clusterLink) doAt(ctx context.Context, addr string, asking bool, args [][]byte) (any, error) {
	node, err := l.node(addr)
	if err != nil {
		return nil, err
	}
	conn, err := node.get(func() (*Conn, error) { return dial(ctx, addr, &l.target.settings, 0) })
	if err != nil {
		return nil, err
	}
	if !asking {
		return conn.Do(ctx, args)
	}
	// ASKING must directly precede the command, so it gets a connection of its own.
	own, err := dial(ctx, addr, &l.target.settings, 0)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	if _, err := own.Do(ctx, words("ASKING")); err != nil {
		return nil, unsent(err)
	}
	return own.Do(ctx, args)
}

func (l *clusterLink) node(addr string) (*slot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, &ConnectionError{Err: errors.New("the client is closed")}
	}
	node := l.nodes[addr]
	if node == nil {
		node = &slot{}
		l.nodes[addr] = node
	}
	return node, nil
}

// forget makes the next command read the map of slots again.
func (l *clusterLink) forget() {
	l.mu.Lock()
	l.known = false
	l.mu.Unlock()
}

func (l *clusterLink) owner(ctx context.Context, key string) (string, error) {
	if err := l.learn(ctx); err != nil {
		return "", err
	}
	number := slotOf(key)
	if key == "" {
		number = rand.Intn(slots)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owners[number] == "" {
		return "", Error("CLUSTERDOWN no node has the slot")
	}
	return l.owners[number], nil
}

// learn reads the map of slots from the first node that answers.
func (l *clusterLink) learn(ctx context.Context) error {
	l.mu.Lock()
	known, addrs := l.known, append([]string{}, l.target.hosts...)
	for addr := range l.nodes {
		addrs = append(addrs, addr)
	}
	l.mu.Unlock()
	if known {
		return nil
	}
	var failure error
	for _, addr := range addrs {
		reply, err := l.doAt(ctx, addr, false, words("CLUSTER", "SLOTS"))
		if err == nil {
			return l.keep(reply, addr)
		}
		failure = err
	}
	return failure
}

func (l *clusterLink) keep(reply any, from string) error {
	ranges, _ := reply.([]any)
	var owners [slots]string
	for _, entry := range ranges {
		fields, _ := entry.([]any)
		if len(fields) < 3 {
			return Error("CLUSTERDOWN the map of slots is malformed")
		}
		first, _ := fields[0].(int64)
		last, _ := fields[1].(int64)
		primary, _ := fields[2].([]any)
		if len(primary) < 2 || first < 0 || last >= slots {
			return Error("CLUSTERDOWN the map of slots is malformed")
		}
		addr := l.near(join(primary[0], primary[1]), from)
		for number := first; number <= last; number++ {
			owners[number] = addr
		}
	}
	l.mu.Lock()
	l.owners, l.known = owners, true
	l.mu.Unlock()
	return nil
}

// join makes an address of a host and a port, which is text or a number.
func join(host, port any) string {
	if number, is := port.(int64); is {
		return net.JoinHostPort(text(host), strconv.FormatInt(number, 10))
	}
	return net.JoinHostPort(text(host), text(port))
}

// Subscribe subscribes at any node, because messages reach every node.
func (l *clusterLink) Subscribe(ctx context.Context, channel string) (Subscription, error) {
	if err := l.learn(ctx); err != nil {
		return nil, unsent(err)
	}
	var failure error = fmt.Errorf("no node of the Cluster is known")
	for _, addr := range l.primaries() {
		subscription, err := subscribe(ctx, addr, &l.target.settings, channel)
		if err == nil {
			return subscription, nil
		}
		failure = err
	}
	return nil, failure
}

func (l *clusterLink) primaries() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := map[string]bool{}
	var addrs []string
	for _, addr := range l.owners {
		if addr != "" && !seen[addr] {
			seen[addr] = true
			addrs = append(addrs, addr)
		}
	}
	rand.Shuffle(len(addrs), func(one, other int) { addrs[one], addrs[other] = addrs[other], addrs[one] })
	return addrs
}

// slotOf returns the slot of a key: the CRC16 of its hash tag, or of the key if it has none.
func slotOf(key string) int {
	if _, rest, found := strings.Cut(key, "{"); found {
		if tag, _, closed := strings.Cut(rest, "}"); closed && tag != "" {
			key = tag
		}
	}
	crc := uint16(0)
	for at := 0; at < len(key); at++ {
		crc ^= uint16(key[at]) << 8
		for bit := 0; bit < 8; bit++ {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slots
}
