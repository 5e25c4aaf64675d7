package testenv

import (
	"bytes"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// Proxy is a TCP proxy that can lose answers, and replace words of requests.
type Proxy struct {
	// URL of the proxy, with the rest of the target's URL.
	URL      string
	target   string
	listener net.Listener
	mu       sync.Mutex
	conns    map[net.Conn]bool
	sent     int
	words    *strings.Replacer
	replaced int
	fault    *fault
	paused   bool
}

// fault loses the answer to the first request that contains the text.
type fault struct {
	text  []byte
	stall bool
	done  chan struct{}
}

// NewProxy starts a proxy to the address of a URL. It is stopped after the test.
func NewProxy(tb testing.TB, to string) *Proxy {
	tb.Helper()
	parsed, err := url.Parse(to)
	if err != nil {
		tb.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{target: parsed.Host, listener: listener, conns: map[net.Conn]bool{}}
	parsed.Host = listener.Addr().String()
	p.URL = parsed.String()
	go p.accept()
	tb.Cleanup(p.Stop)
	return p
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		if !p.add(client, server) {
			client.Close()
			server.Close()
			continue
		}
		link := &link{proxy: p, client: client, server: server}
		go link.forward()
		go link.backward()
	}
}

// add reports whether the proxy takes a connection.
func (p *Proxy) add(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.paused {
		p.conns[client], p.conns[server] = true, true
	}
	return !p.paused
}

// Pause ends all connections, and refuses new ones until Resume.
func (p *Proxy) Pause() {
	p.setPaused(true)
	p.Cut()
}

// Resume ends a pause.
func (p *Proxy) Resume() { p.setPaused(false) }

func (p *Proxy) setPaused(paused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = paused
}

// link is one connection through the proxy.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	mu             sync.Mutex
	losing         *fault
}

func (l *link) forward() {
	defer l.close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.client.Read(buffer)
		if err != nil {
			return
		}
		if found := l.proxy.seen(buffer[:n]); found != nil {
			l.mu.Lock()
			l.losing = found
			l.mu.Unlock()
		}
		if _, err := l.server.Write(l.proxy.withWords(buffer[:n])); err != nil {
			return
		}
	}
}

// backward drops the first answer after a fault, and then closes or stalls the connection.
func (l *link) backward() {
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(buffer)
		if err != nil {
			l.close()
			return
		}
		l.mu.Lock()
		losing := l.losing
		l.mu.Unlock()
		if losing == nil {
			if _, err := l.client.Write(buffer[:n]); err != nil {
				l.close()
				return
			}
			continue
		}
		if !losing.stall {
			l.close()
		}
		select {
		case <-losing.done:
		default:
			close(losing.done)
		}
	}
}

func (l *link) close() {
	l.client.Close()
	l.server.Close()
}

// seen counts what clients send, and returns the fault that a request meets.
func (p *Proxy) seen(request []byte) *fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent += len(request)
	if p.fault == nil || !bytes.Contains(request, p.fault.text) {
		return nil
	}
	found := p.fault
	p.fault = nil
	return found
}

// Replace replaces words of requests, each by the word of the same length that follows it.
func (p *Proxy) Replace(words ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.words = strings.NewReplacer(words...)
}

// Replaced returns in how many requests words were replaced.
func (p *Proxy) Replaced() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.replaced
}

func (p *Proxy) withWords(request []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.words == nil {
		return request
	}
	passed := []byte(p.words.Replace(string(request)))
	if !bytes.Equal(passed, request) {
		p.replaced++
	}
	return passed
}

// Sent returns how many bytes clients have sent.
func (p *Proxy) Sent() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent
}

// Lose loses the answer to the next request that contains the text, and ends its connection. The channel is closed then.
func (p *Proxy) Lose(text string) <-chan struct{} { return p.set(text, false) }

// Stall loses that answer, and all that follow on the connection, which stays open.
func (p *Proxy) Stall(text string) <-chan struct{} { return p.set(text, true) }

func (p *Proxy) set(text string, stall bool) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = &fault{text: []byte(text), stall: stall, done: make(chan struct{})}
	return p.fault.done
}

// Cut ends all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		conn.Close()
	}
	p.conns = map[net.Conn]bool{}
}

// Stop ends the proxy.
func (p *Proxy) Stop() {
	p.listener.Close()
	p.Cut()
}
