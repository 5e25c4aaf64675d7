package rushgate

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
)

// NewSale is a sale to create.
type NewSale struct {
	ID string
	// SKUs of the sale: 1 to 1,000.
	SKUs []NewSKU
	// HoldFor is how long a reservation holds its units: 10 ms to 30 days. Default: 5 min.
	HoldFor time.Duration
	// OpensAt and ClosesAt are on the store's clock. Default: never.
	OpensAt, ClosesAt time.Time
	// Ledger is whether a ledger records the orders. Default: false over Redis, and whether the server has a ledger over
	// HTTP. Set it with Ptr.
	Ledger *bool
}

// NewSKU is a SKU of a new sale.
type NewSKU struct {
	SKU string
	// Units is 1 to 10,000,000.
	Units int
	// PerBuyer is the purchase limit: 1 to 10,000. Default: 1.
	PerBuyer int
}

func (s NewSale) checked() (NewSale, error) {
	s.HoldFor = orDefault(s.HoldFor, contract.DefaultHold)
	id, err := checkName("sale", s.ID, contract.NameBytes)
	s.ID = id
	err = firstError(
		err, checkRange("skus", int64(len(s.SKUs)), contract.SKUs), checkDuration("holdFor", s.HoldFor, contract.HoldMicros),
	)
	for _, at := range []time.Time{s.OpensAt, s.ClosesAt} {
		if err == nil && !at.IsZero() {
			err = checkMoment("opensAt or closesAt", at)
		}
	}
	skus := make([]NewSKU, len(s.SKUs))
	seen := map[string]bool{}
	for at := 0; at < len(skus) && err == nil; at++ {
		if skus[at], err = s.SKUs[at].checked(); err == nil && seen[skus[at].SKU] {
			err = invalid("skus", "names %q twice", skus[at].SKU)
		}
		seen[skus[at].SKU] = true
	}
	s.SKUs = skus
	return s, err
}

func (s NewSKU) checked() (NewSKU, error) {
	if s.PerBuyer == 0 {
		s.PerBuyer = contract.DefaultPerBuyer
	}
	sku, err := checkName("sku", s.SKU, contract.NameBytes)
	s.SKU = sku
	return s, firstError(
		err, checkRange("units", int64(s.Units), contract.Units), checkRange("perBuyer", int64(s.PerBuyer), contract.PerBuyer),
	)
}

// Sale is a flash sale: it never sells more units than it has.
type Sale struct {
	sales sales
	id    string
	err   error
}

func newSale(sales sales, id string) *Sale {
	id, err := checkName("sale", id, contract.NameBytes)
	return &Sale{sales: sales, id: id, err: err}
}

// ID returns the normalized ID.
func (s *Sale) ID() string { return s.id }

// SaleStatus is the status of a sale.
type SaleStatus string

// Statuses of a sale.
const (
	SaleCreated SaleStatus = "created"
	SaleOpen    SaleStatus = "open"
	SaleEnded   SaleStatus = "ended"
)

// Open opens the sale, from its opening time on if it has one. It returns the status afterwards. For operators.
func (s *Sale) Open(ctx context.Context) (SaleStatus, error) {
	if s.err != nil {
		return "", s.err
	}
	return s.sales.openSale(ctx, s.id)
}

// End ends the sale permanently. Holds can still be decided. For operators.
func (s *Sale) End(ctx context.Context) (SaleStatus, error) {
	if s.err != nil {
		return "", s.err
	}
	return s.sales.endSale(ctx, s.id)
}

// SaleState is a sale and its stock.
type SaleState struct {
	ID string
	// Hold is how long a reservation holds its units.
	Hold              time.Duration
	OpensAt, ClosesAt time.Time
	Ledger            bool
	Status            SaleStatus
	Generation        int
	// Seq is the number of the latest event.
	Seq  uint64
	SKUs []SKUState
	// NextExpiry is when the next hold expires. Zero if there is none.
	NextExpiry time.Time
	// Halted is nil unless the sale is halted.
	Halted *Halt
	// ReceiptsUntil is until when only receipts are honored. Zero if reservations are accepted.
	ReceiptsUntil time.Time
	// Orders tells how far the ledger has followed the sale. Nil without a ledger.
	Orders *Orders
	// Now is the time of the store.
	Now time.Time
}

// SKUState is the stock of a SKU: Total = Free + Held + Confirmed + Withdrawn.
type SKUState struct {
	SKU                                     string
	Total, Free, Held, Confirmed, Withdrawn int
	PerBuyer                                int
}

// Halt tells why a sale is halted: lost_writes, operator or rebuilding.
type Halt struct {
	Reason string
	Since  time.Time
}

// Orders tells how far the ledger has followed a sale.
type Orders struct {
	// Through is the number of the latest event that was delivered to the ledger.
	Through uint64
	// BehindSince is the time of the event after it. Zero if there is none.
	BehindSince time.Time
	// Failed is how many entries the ledger could not record.
	Failed int
	// WorkerUntil is the end of the lease of the order worker. Zero if there is none.
	WorkerUntil time.Time
}

// State returns the sale and its stock.
func (s *Sale) State(ctx context.Context) (*SaleState, error) {
	if s.err != nil {
		return nil, s.err
	}
	return s.sales.saleState(ctx, s.id)
}

// Reservation is a request for units.
type Reservation struct {
	Buyer string
	// Key is the idempotency key of this attempt to buy: reuse it to retry. 1 to 128 visible ASCII characters without
	// braces.
	Key string
	// Lines of the cart: 1 to 32, each SKU once. The buyer gets all of them or none.
	Lines []Line
	// SameNumber gives every line the same unit number, such as one seat over several segments.
	SameNumber bool
	// Pass is the admission token of the waiting room, for buyers over HTTP.
	Pass string
}

// Line of a cart.
type Line struct {
	SKU string
	// Quantity is 1 to 1,000. Default: 1.
	Quantity int
}

func (r Reservation) checked() (Reservation, error) {
	buyer, err := checkName("buyer", r.Buyer, contract.NameBytes)
	r.Buyer = buyer
	err = firstError(err, checkIdempotencyKey(r.Key), checkRange("lines", int64(len(r.Lines)), contract.Lines))
	lines := make([]Line, len(r.Lines))
	seen := map[string]bool{}
	for at := 0; at < len(lines) && err == nil; at++ {
		line := r.Lines[at]
		if line.Quantity == 0 {
			line.Quantity = 1
		}
		line.SKU, err = checkName("sku", line.SKU, contract.NameBytes)
		err = firstError(err, checkRange("quantity", int64(line.Quantity), contract.Quantity))
		if err == nil && seen[line.SKU] {
			err = invalid("lines", "name %q twice", line.SKU)
		}
		seen[line.SKU] = true
		lines[at] = line
	}
	r.Lines = lines
	return r, err
}

// Reserved is the outcome of a reservation.
type Reserved struct {
	Outcome ReserveOutcome
	// Hold is set if the outcome is HoldReserved or HoldReplayed.
	Hold *Hold
	// SKU is the first one that is short or limited, and Free how many of its units are free.
	SKU  string
	Free int
	// Limit and Has are set if the outcome is LimitReached.
	Limit, Has int
	// NextExpiry is when the next hold expires, if the outcome is AllHeld. Zero if it is not known.
	NextExpiry time.Time
	// OpensAt is set if the outcome is NotOpen and the sale has an opening time.
	OpensAt time.Time
	// RetryAt is set if the outcome is Halted.
	RetryAt time.Time
}

// ReserveOutcome tells what happened to a reservation.
type ReserveOutcome string

// Outcomes of a reservation.
const (
	// HoldReserved: the units are on hold for the buyer.
	HoldReserved ReserveOutcome = "reserved"
	// HoldReplayed: they were reserved before, under the same key.
	HoldReplayed ReserveOutcome = "replayed"
	// KeyReused: the key was used with another cart.
	KeyReused ReserveOutcome = "key_reused"
	// SoldOut: too few units are left.
	SoldOut ReserveOutcome = "sold_out"
	// AllHeld: all units that are left are on hold. Retry later.
	AllHeld ReserveOutcome = "all_held"
	// LimitReached: the purchase limit of the buyer is exceeded.
	LimitReached ReserveOutcome = "limit_reached"
	// NotOpen: the sale is not open yet.
	NotOpen ReserveOutcome = "not_open"
	// HasEnded: the sale has ended.
	HasEnded ReserveOutcome = "ended"
	// Halted: the sale is halted, or honors only receipts at the moment. Retry later.
	Halted ReserveOutcome = "halted"
)

// Reserve puts units on hold for a buyer. The same buyer with the same key gets the same reservation. An unknown SKU is
// ErrNotFound.
func (s *Sale) Reserve(ctx context.Context, reservation Reservation) (Reserved, error) {
	reservation, err := reservation.checked()
	if err := firstError(s.err, err); err != nil {
		return Reserved{}, err
	}
	return s.sales.reserve(ctx, s.id, reservation)
}

// HoldState is the state of a reservation.
type HoldState string

// States of a reservation. Confirming, Canceling and Expiring are decided, but the ledger has not committed yet.
const (
	HoldHeld       HoldState = "held"
	HoldConfirming HoldState = "confirming"
	HoldCanceling  HoldState = "cancelling"
	HoldExpiring   HoldState = "expiring"
	HoldConfirmed  HoldState = "confirmed"
	HoldCanceled   HoldState = "cancelled"
	HoldExpired    HoldState = "expired"
	HoldRejected   HoldState = "rejected"
)

// IsFinal reports whether the state does not change any more.
func (s HoldState) IsFinal() bool { return positionOf(string(s), contract.FinalState) >= 0 }

// Hold is a reservation.
type Hold struct {
	// ID in 32 hexadecimal digits.
	ID    string
	Buyer string
	// Units by line and then by number.
	Units []Unit
	State HoldState
	// Deadline for the confirmation.
	Deadline   time.Time
	Seq        uint64
	Generation int
	// Receipt restores the units if the store loses the reservation. Reserve and Restore set it.
	Receipt string
}

// Unit is a numbered unit of a SKU.
type Unit struct {
	SKU  string
	Unit int
}

// Decision is the outcome of a confirmation or a cancellation.
type Decision struct {
	Outcome DecideOutcome
	// Hold is set if the outcome is Decided or DecidePending.
	Hold *Hold
	// State is that of the reservation, if the outcome is DecideRefused.
	State HoldState
}

// DecideOutcome tells what happened to a reservation.
type DecideOutcome string

// Outcomes of a confirmation or a cancellation.
const (
	// Decided: done, by this or an earlier call.
	Decided DecideOutcome = "done"
	// DecidePending: decided, and the ledger has not committed yet. Wait with WaitFinal.
	DecidePending DecideOutcome = "pending"
	// DecideRefused: decided otherwise before. Refund a payment.
	DecideRefused DecideOutcome = "refused"
	// DecideUnknown: there is no such reservation.
	DecideUnknown DecideOutcome = "unknown"
	// DecideHalted: the sale is halted, and nothing is decided. Retry later.
	DecideHalted DecideOutcome = "halted"
)

// Confirm confirms a reservation that is paid for.
func (s *Sale) Confirm(ctx context.Context, reservation string) (Decision, error) {
	if err := s.checkReservation(reservation); err != nil {
		return Decision{}, err
	}
	return s.sales.confirmHold(ctx, s.id, reservation)
}

// Cancel cancels a reservation.
func (s *Sale) Cancel(ctx context.Context, reservation string) (Decision, error) {
	if err := s.checkReservation(reservation); err != nil {
		return Decision{}, err
	}
	return s.sales.cancelHold(ctx, s.id, reservation)
}

func (s *Sale) checkReservation(reservation string) error {
	if id, err := hex.DecodeString(reservation); s.err == nil && (err != nil || len(id) != contract.ReservationBytes) {
		return invalid("reservation", "must have 32 hexadecimal digits")
	}
	return s.err
}

// Reservation returns a reservation. Nil if there is none.
func (s *Sale) Reservation(ctx context.Context, reservation string) (*Hold, error) {
	if err := s.checkReservation(reservation); err != nil {
		return nil, err
	}
	return s.sales.hold(ctx, s.id, reservation)
}

// WaitFinal waits until the state of a reservation is final, for 0 to 24 h, and returns the reservation then. Its state
// may not be final if the wait timed out. Nil if there is no such reservation.
func (s *Sale) WaitFinal(ctx context.Context, reservation string, wait time.Duration) (*Hold, error) {
	if err := firstError(s.checkReservation(reservation), checkDuration("wait", wait, contract.WaitMicros)); err != nil {
		return nil, err
	}
	return s.sales.waitFinal(ctx, s.id, reservation, wait)
}

// Restored is the outcome of restoring a reservation from its receipt.
type Restored struct {
	Outcome RestoreOutcome
	// Hold is set if the outcome is HoldRestored or HoldKnown.
	Hold *Hold
	// SKU, Free, Limit, Has and RetryAt are as in Reserved.
	SKU        string
	Free       int
	Limit, Has int
	RetryAt    time.Time
}

// RestoreOutcome tells what happened to a receipt.
type RestoreOutcome string

// Outcomes of restoring a reservation.
const (
	// HoldRestored: the reservation was lost, and is restored.
	HoldRestored RestoreOutcome = "restored"
	// HoldKnown: the reservation was not lost.
	HoldKnown RestoreOutcome = "known"
	// RestoreNoneLeft: too few units are free.
	RestoreNoneLeft RestoreOutcome = "none_left"
	// RestoreLimitReached: the purchase limit of the buyer is exceeded.
	RestoreLimitReached RestoreOutcome = "limit_reached"
	// RestoreExpired: the hold would have expired.
	RestoreExpired RestoreOutcome = "expired"
	// RestoreHalted: the sale is halted. Retry later.
	RestoreHalted RestoreOutcome = "halted"
	// RestoreRefused: this sale did not sign the receipt.
	RestoreRefused RestoreOutcome = "refused"
)

// Restore restores a reservation from its receipt, if the store has lost it: with the same units if they are free, and
// otherwise with others.
func (s *Sale) Restore(ctx context.Context, receipt string) (Restored, error) {
	if s.err != nil {
		return Restored{}, s.err
	}
	return s.sales.restore(ctx, s.id, receipt)
}

func noSuchSKU(sale, sku string) error {
	return &Error{Kind: ErrNotFound, Message: "the sale " + sale + " has no SKU " + sku}
}
