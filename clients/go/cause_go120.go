//go:build go1.20

package rushgate

import "context"

// withCancelCause returns a context that ends with a cause.
func withCancelCause(parent context.Context) (context.Context, func(error)) {
	ctx, cancel := context.WithCancelCause(parent)
	return ctx, func(cause error) { cancel(cause) }
}
