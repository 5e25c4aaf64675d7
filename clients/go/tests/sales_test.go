package tests

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rushgate "github.com/rushgate/rushgate/clients/go"
	"github.com/rushgate/rushgate/clients/go/internal/testenv"
)

// eachSale runs a test on a new sale of every target, which is open and has no ledger.
func eachSale(
	t *testing.T, skus []rushgate.NewSKU, test func(t *testing.T, ctx context.Context, client *rushgate.Client, sale *rushgate.Sale),
) {
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		client, ctx := target.Connect(t), testenv.Context(t)
		sale := newSale(t, client, rushgate.NewSale{ID: testenv.Unique("sale"), SKUs: skus, Ledger: rushgate.Ptr(false)})
		test(t, ctx, client, sale)
	})
}

func newSale(t *testing.T, client *rushgate.Client, sale rushgate.NewSale) *rushgate.Sale {
	t.Helper()
	ctx := testenv.Context(t)
	if !testenv.Must[bool](t)(client.CreateSale(ctx, sale)) {
		t.Fatal("the sale exists")
	}
	opened := client.Sale(sale.ID)
	if status := testenv.Must[rushgate.SaleStatus](t)(opened.Open(ctx)); status != rushgate.SaleOpen {
		t.Fatalf("status %s", status)
	}
	return opened
}

func reserve(t *testing.T, sale *rushgate.Sale, reservation rushgate.Reservation, want rushgate.ReserveOutcome) rushgate.Reserved {
	t.Helper()
	reserved := testenv.Must[rushgate.Reserved](t)(sale.Reserve(context.Background(), reservation))
	if reserved.Outcome != want {
		t.Fatalf("%s: %+v, not %s", reservation.Buyer, reserved, want)
	}
	return reserved
}

func buyer(name string, lines ...rushgate.Line) rushgate.Reservation {
	if len(lines) == 0 {
		lines = []rushgate.Line{{SKU: "phone"}}
	}
	return rushgate.Reservation{Buyer: name, Key: "click", Lines: lines}
}

func TestAReservationIsReplayedConfirmedOrCanceled(t *testing.T) {
	skus := []rushgate.NewSKU{{SKU: "phone", Units: 3, PerBuyer: 2}, {SKU: "case", Units: 1}}
	eachSale(t, skus, func(t *testing.T, ctx context.Context, client *rushgate.Client, sale *rushgate.Sale) {
		cart := []rushgate.Line{{SKU: "phone", Quantity: 2}, {SKU: "case"}}
		ann := reserve(t, sale, buyer("ann", cart...), rushgate.HoldReserved)
		if hold := ann.Hold; len(hold.Units) != 3 || hold.Units[0] != (rushgate.Unit{SKU: "phone", Unit: 1}) || hold.Buyer != "ann" ||
			hold.State != rushgate.HoldHeld || time.Until(hold.Deadline) < 4*time.Minute || !strings.HasPrefix(hold.Receipt, "rg1.") {
			t.Fatalf("%+v", hold)
		}
		if again := reserve(t, sale, buyer("ann", cart...), rushgate.HoldReplayed); again.Hold.ID != ann.Hold.ID {
			t.Errorf("%+v", again)
		}
		reserve(t, sale, buyer("ann"), rushgate.KeyReused)
		limited := reserve(t, sale, rushgate.Reservation{Buyer: "ann", Key: "2", Lines: cart[:1]}, rushgate.LimitReached)
		if limited.SKU != "phone" || limited.Limit != 2 || limited.Has != 2 {
			t.Errorf("%+v", limited)
		}
		bob := reserve(t, sale, buyer("bob"), rushgate.HoldReserved)
		if held := reserve(t, sale, buyer("cid"), rushgate.AllHeld); held.SKU != "phone" || held.Free != 0 || held.NextExpiry.IsZero() {
			t.Errorf("%+v", held)
		}
		decide(t, sale.Confirm, ann.Hold.ID, rushgate.Decided)
		decide(t, sale.Confirm, ann.Hold.ID, rushgate.Decided)
		if refused := decide(t, sale.Cancel, ann.Hold.ID, rushgate.DecideRefused); refused.State != rushgate.HoldConfirmed {
			t.Errorf("%+v", refused)
		}
		decide(t, sale.Cancel, bob.Hold.ID, rushgate.Decided)
		decide(t, sale.Confirm, strings.Repeat("0", 32), rushgate.DecideUnknown)
		cid := reserve(t, sale, rushgate.Reservation{Buyer: "cid", Key: "2", Lines: cart[:1]}, rushgate.SoldOut)
		if cid.SKU != "phone" || cid.Free != 1 {
			t.Errorf("%+v", cid)
		}
		dan := reserve(t, sale, buyer("dan"), rushgate.HoldReserved)
		decide(t, sale.Confirm, dan.Hold.ID, rushgate.Decided)
		state := testenv.Must[*rushgate.SaleState](t)(sale.State(ctx))
		if want := (rushgate.SKUState{SKU: "phone", Total: 3, Confirmed: 3, PerBuyer: 2}); state.SKUs[0] != want || state.Status != rushgate.SaleOpen {
			t.Errorf("%+v", state)
		}
		found := testenv.Must[*rushgate.Hold](t)(sale.Reservation(ctx, bob.Hold.ID))
		if found == nil || found.State != rushgate.HoldCanceled || !found.State.IsFinal() {
			t.Errorf("%+v", found)
		}
		if none := testenv.Must[*rushgate.Hold](t)(sale.Reservation(ctx, strings.Repeat("0", 32))); none != nil {
			t.Errorf("%+v", none)
		}
		_, err := sale.Reserve(ctx, buyer("eve", rushgate.Line{SKU: "none"}))
		if !errors.Is(err, rushgate.ErrNotFound) {
			t.Errorf("unknown SKU: %v", err)
		}
		if _, err := client.Sale(testenv.Unique("none")).Reserve(ctx, buyer("eve")); !errors.Is(err, rushgate.ErrNotFound) {
			t.Errorf("unknown sale: %v", err)
		}
	})
}

func TestASaleOpensAndEnds(t *testing.T) {
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		client, ctx := target.Connect(t), testenv.Context(t)
		opens := time.Now().Add(time.Hour).Truncate(time.Microsecond)
		sale := rushgate.NewSale{ID: testenv.Unique("sale"), SKUs: []rushgate.NewSKU{{SKU: "phone", Units: 1}}, OpensAt: opens}
		opened := newSale(t, client, sale)
		if again := testenv.Must[bool](t)(client.CreateSale(ctx, sale)); again {
			t.Error("the ID is taken")
		}
		if early := reserve(t, opened, buyer("ann"), rushgate.NotOpen); !early.OpensAt.Equal(opens) {
			t.Errorf("%+v", early)
		}
		if status := testenv.Must[rushgate.SaleStatus](t)(opened.End(ctx)); status != rushgate.SaleEnded {
			t.Errorf("status %s", status)
		}
		reserve(t, opened, buyer("ann"), rushgate.HasEnded)
	})
}

func TestMoreBuyersThanUnitsBuyEveryUnitOnce(t *testing.T) {
	const units, buyers = 10, 60
	eachSale(t, []rushgate.NewSKU{{SKU: "phone", Units: units}}, func(t *testing.T, ctx context.Context, client *rushgate.Client, sale *rushgate.Sale) {
		var sold sync.Map
		var all sync.WaitGroup
		var count, refused atomic.Int64
		for n := 0; n < buyers; n++ {
			all.Add(1)
			go func(n int) {
				defer all.Done()
				reserved, err := client.Sale(sale.ID()).Reserve(ctx, buyer(fmt.Sprintf("buyer-%d", n)))
				if err != nil {
					t.Error(err)
					return
				}
				if reserved.Hold == nil {
					refused.Add(1)
					return
				}
				decision, err := sale.Confirm(ctx, reserved.Hold.ID)
				if err != nil || decision.Outcome != rushgate.Decided {
					t.Errorf("%+v, %v", decision, err)
				}
				if _, twice := sold.LoadOrStore(reserved.Hold.Units[0], true); !twice {
					count.Add(1)
				}
			}(n)
		}
		all.Wait()
		state := testenv.Must[*rushgate.SaleState](t)(sale.State(ctx))
		if count.Load() != units || refused.Load() != buyers-units || state.SKUs[0].Confirmed != units {
			t.Errorf("%d sold, %d refused, %+v", count.Load(), refused.Load(), state.SKUs)
		}
	})
}

func TestSeatsHaveTheSameNumberInEveryLine(t *testing.T) {
	skus := []rushgate.NewSKU{{SKU: "one", Units: 3}, {SKU: "two", Units: 3}}
	eachSale(t, skus, func(t *testing.T, ctx context.Context, _ *rushgate.Client, sale *rushgate.Sale) {
		reserve(t, sale, buyer("ann", rushgate.Line{SKU: "one"}), rushgate.HoldReserved)
		both := buyer("bob", rushgate.Line{SKU: "one"}, rushgate.Line{SKU: "two"})
		both.SameNumber = true
		if seats := reserve(t, sale, both, rushgate.HoldReserved).Hold.Units; seats[0].Unit != seats[1].Unit {
			t.Errorf("%+v", seats)
		}
	})
}

func TestAReceiptRestoresOrFindsItsReservation(t *testing.T) {
	eachSale(t, []rushgate.NewSKU{{SKU: "phone", Units: 3}}, func(t *testing.T, ctx context.Context, _ *rushgate.Client, sale *rushgate.Sale) {
		hold := reserve(t, sale, buyer("ann"), rushgate.HoldReserved).Hold
		known := testenv.Must[rushgate.Restored](t)(sale.Restore(ctx, hold.Receipt))
		if known.Outcome != rushgate.HoldKnown || known.Hold.ID != hold.ID || known.Hold.Receipt != hold.Receipt {
			t.Errorf("%+v", known)
		}
		for _, forged := range []string{"", "rg1.e30.AAAA", hold.Receipt[:len(hold.Receipt)-4] + "AAAA"} {
			restored, err := sale.Restore(ctx, forged)
			if !errors.Is(err, rushgate.ErrInvalid) && restored.Outcome != rushgate.RestoreRefused {
				t.Errorf("%q: %+v, %v", forged, restored, err)
			}
		}
	})
}

// TestALostReservationIsRestoredFromItsReceipt deletes the reservation as a server that lost its latest writes would.
func TestALostReservationIsRestoredFromItsReceipt(t *testing.T) {
	testenv.Each(t, func(target testenv.Target) bool { return target.Name == "redis" }, func(t *testing.T, target testenv.Target) {
		client, ctx := target.Connect(t), testenv.Context(t)
		sale := newSale(t, client, rushgate.NewSale{
			ID: testenv.Unique("sale"), SKUs: []rushgate.NewSKU{{SKU: "a", Units: 3}, {SKU: "b", Units: 3}},
		})
		hold := reserve(t, sale, buyer("ann", rushgate.Line{SKU: "a"}, rushgate.Line{SKU: "b"}), rushgate.HoldReserved).Hold
		decide(t, sale.Cancel, hold.ID, rushgate.Decided)
		id := testenv.Unhex(t, hold.ID)
		testenv.Command(t, target, "HDEL", "rg:{s:"+sale.ID()+"}:holds", id)
		restored := testenv.Must[rushgate.Restored](t)(sale.Restore(ctx, hold.Receipt))
		if restored.Outcome != rushgate.HoldRestored || len(restored.Hold.Units) != 2 || restored.Hold.Buyer != "ann" {
			t.Errorf("%+v", restored)
		}
	})
}

func TestAWaitForADecisionEndsWithIt(t *testing.T) {
	eachSale(t, []rushgate.NewSKU{{SKU: "phone", Units: 3}}, func(t *testing.T, ctx context.Context, client *rushgate.Client, sale *rushgate.Sale) {
		hold := reserve(t, sale, buyer("ann"), rushgate.HoldReserved).Hold
		if held := testenv.Must[*rushgate.Hold](t)(sale.WaitFinal(ctx, hold.ID, 0)); held.State != rushgate.HoldHeld {
			t.Errorf("%+v", held)
		}
		waited := make(chan *rushgate.Hold)
		go func() {
			final, err := client.Sale(sale.ID()).WaitFinal(ctx, hold.ID, testenv.Patience)
			if err != nil {
				t.Error(err)
			}
			waited <- final
		}()
		decide(t, sale.Confirm, hold.ID, rushgate.Decided)
		if final := <-waited; final == nil || final.State != rushgate.HoldConfirmed {
			t.Errorf("%+v", final)
		}
	})
}

func TestAHoldExpires(t *testing.T) {
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		client, ctx := target.Connect(t), testenv.Context(t)
		sale := newSale(t, client, rushgate.NewSale{
			ID: testenv.Unique("sale"), SKUs: []rushgate.NewSKU{{SKU: "phone", Units: 1}}, HoldFor: 50 * time.Millisecond,
			Ledger: rushgate.Ptr(false),
		})
		hold := reserve(t, sale, buyer("ann"), rushgate.HoldReserved).Hold
		final := testenv.Must[*rushgate.Hold](t)(sale.WaitFinal(ctx, hold.ID, testenv.Patience))
		if final.State != rushgate.HoldExpired {
			t.Fatalf("%+v", final)
		}
		if late := decide(t, sale.Confirm, hold.ID, rushgate.DecideRefused); late.State != rushgate.HoldExpired {
			t.Errorf("%+v", late)
		}
	})
}

func TestALedgerMakesADecisionFinal(t *testing.T) {
	isServer := func(target testenv.Target) bool { return target.IsHTTP() }
	testenv.Each(t, isServer, func(t *testing.T, target testenv.Target) {
		client, ctx := target.Connect(t), testenv.Context(t)
		sale := newSale(t, client, rushgate.NewSale{ID: testenv.Unique("sale"), SKUs: []rushgate.NewSKU{{SKU: "phone", Units: 1}}})
		hold := reserve(t, sale, buyer("ann"), rushgate.HoldReserved).Hold
		decision := testenv.Must[rushgate.Decision](t)(sale.Confirm(ctx, hold.ID))
		if decision.Outcome != rushgate.Decided && decision.Outcome != rushgate.DecidePending {
			t.Fatalf("%+v", decision)
		}
		final := testenv.Must[*rushgate.Hold](t)(sale.WaitFinal(ctx, hold.ID, testenv.Patience))
		state := testenv.Must[*rushgate.SaleState](t)(sale.State(ctx))
		if final.State != rushgate.HoldConfirmed || !state.Ledger || state.Orders == nil {
			t.Errorf("%+v, %+v", final, state)
		}
	})
}

func decide(
	t *testing.T, verb func(context.Context, string) (rushgate.Decision, error), reservation string, want rushgate.DecideOutcome,
) rushgate.Decision {
	t.Helper()
	decision := testenv.Must[rushgate.Decision](t)(verb(context.Background(), reservation))
	if decision.Outcome != want {
		t.Fatalf("%+v, not %s", decision, want)
	}
	return decision
}
