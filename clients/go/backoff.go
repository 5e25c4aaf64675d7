package rushgate

import (
	"math"
	"math/rand"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
)

// Backoff is the retry delay of failed tasks: exponential, capped, with full jitter. The zero value has the defaults.
type Backoff struct {
	// Base is the delay after the first failure: 0 to 400 days. Default: 1 s.
	Base time.Duration
	// Factor for each further failure: 1 or more. Default: 2.
	Factor float64
	// Max is the longest delay: 0 to 400 days. Default: 1 h.
	Max time.Duration
	// NoJitter uses the whole delay, instead of a time drawn evenly from zero to the delay.
	NoJitter bool
}

func (b Backoff) withDefaults() Backoff {
	b.Base = orDefault(b.Base, contract.DefaultBackoffBase)
	b.Max = orDefault(b.Max, contract.DefaultBackoffMax)
	if b.Factor == 0 {
		b.Factor = contract.DefaultBackoffFactor
	}
	return b
}

func (b Backoff) check() error {
	if !(b.Factor >= 1) {
		return invalid("backoff.factor", "is %v; it must be 1 or more", b.Factor)
	}
	return firstError(
		checkDuration("backoff.base", b.Base, contract.DelayMicros), checkDuration("backoff.max", b.Max, contract.DelayMicros),
	)
}

// draw returns the delay after an attempt, counted from 1.
func (b Backoff) draw(attempt int) time.Duration {
	longest := math.Min(float64(b.Base)*math.Pow(b.Factor, float64(attempt-1)), float64(b.Max))
	if !b.NoJitter {
		longest *= rand.Float64()
	}
	return time.Duration(longest)
}
