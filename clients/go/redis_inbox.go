package rushgate

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"sync"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
	"github.com/rushgate/rushgate/clients/go/internal/resp"
)

// inbox is one subscription for all notifications of a client. It is opened once and again after each lost connection.
type inbox struct {
	link    resp.Link
	closing context.Context
	id      [contract.InboxBytes]byte
	// unwanted gets the name of a queue whose wake-up no waiter of this client expects.
	unwanted func(queue string)
	mu       sync.Mutex
	isOpen   bool
	bells    map[string]map[*listener]bool
}

// listener is woken by the notifications of one topic.
type listener struct {
	bell  bell
	inbox *inbox
	topic string
	heard func()
	// always: a lost connection wakes it too, because a notification may have been lost with it.
	always bool
}

func newInbox(link resp.Link, closing context.Context) *inbox {
	n := &inbox{link: link, closing: closing, bells: map[string]map[*listener]bool{}}
	// A failure was noticed when the client ID was drawn.
	rand.Read(n.id[:])
	return n
}

func (n *inbox) hex() string { return hex.EncodeToString(n.id[:]) }

// open subscribes, unless that was done before.
func (n *inbox) open(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.isOpen {
		return nil
	}
	subscription, err := n.link.Subscribe(ctx, contract.InboxPrefix+n.hex())
	if err != nil {
		if n.closing.Err() != nil {
			return closedError()
		}
		if ctx.Err() != nil {
			return interrupted(ctx.Err(), false)
		}
		if !passes(err) {
			return redisError(err)
		}
		return gaveUp("store", err, false)
	}
	n.isOpen = true
	go n.deliver(subscription)
	return nil
}

// deliver rings for each message, and subscribes again after each lost connection.
func (n *inbox) deliver(subscription resp.Subscription) {
	for subscription != nil {
		stop := closeAtEnd(n.closing, subscription)
		for message, err := subscription.Next(); err == nil; message, err = subscription.Next() {
			n.ring(message)
		}
		stop()
		subscription = n.reopen()
		n.ringAll()
	}
}

// closeAtEnd closes a subscription when the client is closed.
func closeAtEnd(closing context.Context, subscription resp.Subscription) (stop func()) {
	over := make(chan struct{})
	go func() {
		select {
		case <-closing.Done():
			subscription.Close()
		case <-over:
		}
	}()
	return func() { close(over) }
}

// reopen returns nil when the client is closed.
func (n *inbox) reopen() resp.Subscription {
	for pauses := (pauses{}); n.closing.Err() == nil; sleep(n.closing, pauses.draw()) {
		if subscription, err := n.link.Subscribe(n.closing, contract.InboxPrefix+n.hex()); err == nil {
			return subscription
		}
	}
	return nil
}

// listen returns a listener for a topic, until ignore is called.
func (n *inbox) listen(topic string) *listener {
	return n.add(&listener{bell: newBell(), inbox: n, topic: topic, always: true})
}

// call calls heard for the notifications of a topic, until ignore is called.
func (n *inbox) call(topic string, heard func()) *listener {
	return n.add(&listener{bell: newBell(), inbox: n, topic: topic, heard: heard})
}

func (n *inbox) add(one *listener) *listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.bells[one.topic] == nil {
		n.bells[one.topic] = map[*listener]bool{}
	}
	n.bells[one.topic][one] = true
	return one
}

func (l *listener) ignore() {
	l.inbox.mu.Lock()
	defer l.inbox.mu.Unlock()
	delete(l.inbox.bells[l.topic], l)
	if len(l.inbox.bells[l.topic]) == 0 {
		delete(l.inbox.bells, l.topic)
	}
}

func (n *inbox) ring(message []byte) {
	topic := topicOf(message)
	heard := n.listeners(topic)
	for _, one := range heard {
		one.bell.ring()
		if one.heard != nil {
			one.heard()
		}
	}
	if kind, queue, _ := strings.Cut(topic, " "); len(heard) == 0 && kind == "tasks" {
		n.unwanted(queue)
	}
}

func (n *inbox) listeners(topic string) []*listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	var listeners []*listener
	for one := range n.bells[topic] {
		listeners = append(listeners, one)
	}
	return listeners
}

func (n *inbox) ringAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, listeners := range n.bells {
		for one := range listeners {
			if one.always {
				one.bell.ring()
			}
		}
	}
}

// Topics of notifications. Names have no spaces.
func grantedTopic(token []byte) string      { return "granted " + hex.EncodeToString(token) }
func revokedTopic(token []byte) string      { return "revoked " + hex.EncodeToString(token) }
func tasksTopic(queue string) string        { return "tasks " + queue }
func finishedTopic(queue, id string) string { return "finished " + id + " " + queue }
func saleTopic(id string) string            { return "sale " + id }

func topicOf(message []byte) string {
	if len(message) == 0 {
		return ""
	}
	rest := packed{rest: message[1:]}
	words := strings.Split(string(message[1:]), " ")
	last := words[len(words)-1]
	switch message[0] {
	case contract.NotifyGranted:
		return grantedTopic(rest.take(contract.TokenBytes))
	case contract.NotifyRevoked:
		return revokedTopic(rest.take(contract.TokenBytes))
	case contract.NotifyTasks:
		return tasksTopic(last)
	case contract.NotifyFinished:
		return finishedTopic(last, words[0])
	case contract.NotifySale:
		return saleTopic(last)
	default:
		return ""
	}
}
