package testenv

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/resp"
)

// Command sends one command to a Redis target, through a connection of its own.
func Command(tb testing.TB, target Target, words ...string) any {
	tb.Helper()
	address, err := resp.ParseURL(target.URL, nil, 5*time.Second)
	if err != nil {
		tb.Fatal(err)
	}
	link := resp.NewLink(address)
	defer link.Close()
	args := make([][]byte, len(words))
	for at, word := range words {
		args[at] = []byte(word)
	}
	reply, err := link.Do(Context(tb), "", args)
	if err != nil {
		tb.Fatal(err)
	}
	return reply
}

// Unhex returns the bytes that hexadecimal digits stand for.
func Unhex(tb testing.TB, digits string) string {
	tb.Helper()
	bytes, err := hex.DecodeString(digits)
	if err != nil {
		tb.Fatal(err)
	}
	return string(bytes)
}
