// Package testenv connects tests to the servers of clients/with-servers, whose URLs are in the environment.
package testenv

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"os"
	"strings"
	"testing"
	"time"

	rushgate "github.com/rushgate/rushgate/clients/go"
)

// Patience is how long a test waits for a signal.
const Patience = 30 * time.Second

// Target is a server.
type Target struct {
	Name, URL string
}

// Library opens the clients of the tests on connections of another package, for targets such as redis+redigo.
type Library struct {
	Name string
	// Targets are the servers to which it connects.
	Targets []string
	Open    func(ctx context.Context, url string, options rushgate.Options) (*rushgate.Client, error)
}

// library is that of this module, unless a test of another module uses another one.
var library = Library{
	Targets: []string{"redis", "cluster", "sentinel", "tls", "http", "http_redis"}, Open: rushgate.Connect,
}

// Use makes the tests of this program use a library.
func Use(other Library) { library = other }

// Targets returns the servers in the environment. RUSHGATE_TEST_ONLY has the names of some, separated by commas.
func Targets() []Target {
	var targets []Target
	only := os.Getenv("RUSHGATE_TEST_ONLY")
	for _, name := range library.Targets {
		target := Target{name, URL(name)}
		if target.URL != "" && (only == "" || strings.Contains(","+only+",", ","+target.String()+",")) {
			targets = append(targets, target)
		}
	}
	return targets
}

// URL returns the URL of a server, empty if it does not run.
func URL(name string) string { return os.Getenv("RUSHGATE_TEST_" + strings.ToUpper(name)) }

// String returns the name with that of the library.
func (t Target) String() string {
	if library.Name == "" {
		return t.Name
	}
	return t.Name + "+" + library.Name
}

// Each runs a test on every target that matches.
func Each(t *testing.T, matches func(Target) bool, test func(t *testing.T, target Target)) {
	t.Helper()
	targets := Targets()
	if len(targets) == 0 {
		t.Fatal("no servers: run clients/with-servers clients/go/test")
	}
	for _, target := range targets {
		if matches(target) {
			target := target
			t.Run(target.String(), func(t *testing.T) { test(t, target) })
		}
	}
}

// All matches every target.
func All(Target) bool { return true }

// Single matches targets with one address, to which a proxy can lead.
func Single(t Target) bool { return t.Name == "redis" || t.IsHTTP() }

// Redis matches targets that are Redis or Valkey.
func Redis(t Target) bool { return !t.IsHTTP() }

// IsHTTP reports whether the target is a Rushgate server.
func (t Target) IsHTTP() bool { return strings.HasPrefix(t.URL, "http") }

// Options returns what a URL needs: an API token, or the authority of the certificates.
func Options(url string) rushgate.Options {
	options := rushgate.Options{}
	if strings.HasPrefix(url, "http") {
		options.Token = os.Getenv("RUSHGATE_TEST_TOKEN")
	}
	if authority, err := os.ReadFile(os.Getenv("RUSHGATE_TEST_CA")); err == nil && strings.HasPrefix(url, "rediss") {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(authority)
		options.TLS = &tls.Config{RootCAs: pool}
	}
	return options
}

// Connect returns a client of the target, which is closed after the test.
func (t Target) Connect(tb testing.TB) *rushgate.Client {
	tb.Helper()
	return ConnectWith(tb, t.URL, Options(t.URL))
}

// Open returns a client that uses the library of the tests.
func Open(ctx context.Context, url string, options rushgate.Options) (*rushgate.Client, error) {
	return library.Open(ctx, url, options)
}

// ConnectWith returns a client, which is closed after the test.
func ConnectWith(tb testing.TB, url string, options rushgate.Options) *rushgate.Client {
	tb.Helper()
	client, err := Open(Context(tb), url, options)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Close)
	return client
}

// Context returns a context that ends after a minute, so that no test hangs.
func Context(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	tb.Cleanup(cancel)
	return ctx
}

// Unique returns a name that no other test uses.
func Unique(beginning string) string {
	var random [6]byte
	if _, err := rand.Read(random[:]); err != nil {
		panic(err)
	}
	return beginning + "-" + hex.EncodeToString(random[:])
}

// Until waits for a condition, and fails the test if it does not come true.
func Until(tb testing.TB, what string, isTrue func() bool) {
	tb.Helper()
	for until := time.Now().Add(Patience); !isTrue(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(until) {
			tb.Fatalf("this did not happen: %s", what)
		}
	}
}

// Must returns a value, and fails the test if there is an error.
func Must[T any](tb testing.TB) func(value T, err error) T {
	return func(value T, err error) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return value
	}
}
