//go:build !go1.20

package tests

import "context"

// cause is nil: it is not visible before Go 1.20.
func cause(context.Context) error { return nil }
