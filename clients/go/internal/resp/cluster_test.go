package resp

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func TestAKeyBelongsToTheSlotOfItsHashTag(t *testing.T) {
	for key, want := range map[string]int{"123456789": 12_739, "a{123456789}b": 12_739, "{}a": slotOf("{}a"), "{q:x}:meta": slotOf("q:x")} {
		if got := slotOf(key); got != want {
			t.Errorf("%s: %d, not %d", key, got, want)
		}
	}
}

// connectCluster returns a link to the Cluster in the environment, which knows its slots.
func connectCluster(t *testing.T) *clusterLink {
	t.Helper()
	url := os.Getenv("RUSHGATE_TEST_CLUSTER")
	if url == "" {
		t.Skip("needs a Cluster")
	}
	target, err := ParseURL(url, nil, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	link := newClusterLink(target)
	t.Cleanup(link.Close)
	if err := link.learn(context.Background()); err != nil {
		t.Fatal(err)
	}
	return link
}

func (l *clusterLink) mustDo(t *testing.T, addr string, command ...string) any {
	t.Helper()
	reply, err := l.doAt(context.Background(), addr, false, words(command...))
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func TestACommandFollowsAMovedSlot(t *testing.T) {
	link := connectCluster(t)
	key := fmt.Sprintf("moved-%d", time.Now().UnixNano())
	owner := link.owners[slotOf(key)]
	for _, addr := range link.primaries() {
		link.owners[slotOf(key)] = addr
		if reply, err := link.Do(context.Background(), key, words("GET", key)); reply != nil || err != nil {
			t.Errorf("%v, %v", reply, err)
		}
		if got := link.owners[slotOf(key)]; got != owner {
			t.Errorf("the slot is at %s, not at %s", got, owner)
		}
	}
}

// TestACommandFollowsASlotThatMoves marks a slot without keys as moving, so that its owner redirects single commands.
func TestACommandFollowsASlotThatMoves(t *testing.T) {
	link := connectCluster(t)
	key := fmt.Sprintf("moving-%d", time.Now().UnixNano())
	number := fmt.Sprint(slotOf(key))
	source := link.owners[slotOf(key)]
	target := source
	for target == source {
		target = link.primaries()[0]
	}
	id := func(addr string) string { return text(link.mustDo(t, addr, "CLUSTER", "MYID")) }
	link.mustDo(t, target, "CLUSTER", "SETSLOT", number, "IMPORTING", id(source))
	link.mustDo(t, source, "CLUSTER", "SETSLOT", number, "MIGRATING", id(target))
	defer link.mustDo(t, source, "CLUSTER", "SETSLOT", number, "STABLE")
	defer link.mustDo(t, target, "CLUSTER", "SETSLOT", number, "STABLE")
	if _, err := link.doAt(context.Background(), source, false, words("GET", key)); err == nil || !strings.HasPrefix(err.Error(), "ASK ") {
		t.Fatalf("error %v", err)
	}
	if reply, err := link.Do(context.Background(), key, words("GET", key)); reply != nil || err != nil {
		t.Errorf("%v, %v", reply, err)
	}
}
