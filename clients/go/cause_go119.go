//go:build !go1.20

package rushgate

import "context"

// withCancelCause returns a context that ends. Its cause is not visible before Go 1.20.
func withCancelCause(parent context.Context) (context.Context, func(error)) {
	ctx, cancel := context.WithCancel(parent)
	return ctx, func(error) { cancel() }
}
