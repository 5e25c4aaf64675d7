//go:build go1.20

package tests

import "context"

// cause is the cause of the end of a context.
func cause(ctx context.Context) error { return context.Cause(ctx) }
