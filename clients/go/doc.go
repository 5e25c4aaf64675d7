// Package rushgate is a client of Rushgate: distributed locks, a durable task queue and oversell-proof flash-sale
// inventory, on Redis, Valkey or a Rushgate server.
//
// The URL that Connect gets decides how the client reaches its store. Open uses the connections of another package, such
// as a redigo pool. Locks, queues and sales are the same either way, and are shared with programs in all other languages.
//
// # Sharing
//
// Any number of goroutines may share a client and everything that it returns. Each process connects its own client.
//
// # Lost connections
//
// A call whose answer was lost is sent again with the same token, operation number or idempotency key, so it takes
// effect once. If no answer arrives within Options.RetryFor, the call fails with ErrUnavailable. The error is
// ErrOutcomeUnknown too if the call may have taken effect.
//
// # Names
//
// Names of locks, queues, tasks, keys, sales, SKUs and buyers are 1 to 200 bytes of UTF-8 without white space, control
// characters, invisible characters and braces. The client normalizes them to Normalization Form C.
//
// # Times
//
// A time.Time that a call returns is on the clock of the store. Durations are rounded to whole microseconds over Redis,
// and up to whole milliseconds over HTTP.
package rushgate
