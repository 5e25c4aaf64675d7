package rushgate

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
)

// Outcomes by the codes of the API.
var (
	notReserved = map[string]string{
		"idempotency_key_reused": string(KeyReused), "sold_out": string(SoldOut), "all_held": string(AllHeld),
		"limit_reached": string(LimitReached), "sale_not_open": string(NotOpen), "sale_ended": string(HasEnded),
		"sale_halted": string(Halted),
	}
	notDecided = map[string]string{
		"not_found": string(DecideUnknown), "decided": string(DecideRefused), "sale_halted": string(DecideHalted),
	}
	notRestored = map[string]string{
		"sold_out": string(RestoreNoneLeft), "limit_reached": string(RestoreLimitReached),
		"hold_expired": string(RestoreExpired), "receipt_refused": string(RestoreRefused),
		"sale_halted": string(RestoreHalted),
	}
)

// outcome reads the outcome that a problem stands for, with its fields. Other problems are errors.
func outcome(err error, outcomes map[string]string, into any) (string, error) {
	word := outcomes[codeOf(err)]
	if word == "" {
		return "", httpError(err)
	}
	var refusal *problem
	errors.As(err, &refusal)
	return word, fromWire(refusal.body, into)
}

func (t *httpTransport) createSale(ctx context.Context, sale NewSale) (bool, error) {
	skus := make([]object, len(sale.SKUs))
	for at, sku := range sale.SKUs {
		skus[at] = object{"sku": sku.SKU, "units": sku.Units, "per_buyer": sku.PerBuyer}
	}
	body := object{"id": sale.ID, "skus": skus, "hold_ms": wireMillis(sale.HoldFor)}
	body.setMoment("opens_at_us", sale.OpensAt)
	body.setMoment("closes_at_us", sale.ClosesAt)
	body.set("ledger", sale.Ledger)
	_, err := t.send(ctx, request{target: targetOf(contract.OpCreate), body: body, key: newKey()})
	if codeOf(err) == "exists" {
		return false, nil
	}
	return err == nil, httpError(err)
}

func (t *httpTransport) openSale(ctx context.Context, id string) (SaleStatus, error) {
	return t.setStatus(ctx, id, contract.OpOpen)
}

func (t *httpTransport) endSale(ctx context.Context, id string) (SaleStatus, error) {
	return t.setStatus(ctx, id, contract.OpEnd)
}

func (t *httpTransport) setStatus(ctx context.Context, id string, operation contract.Operation) (SaleStatus, error) {
	var view struct{ Status SaleStatus }
	err := t.post(ctx, targetOf(operation, id), object{}, "", &view)
	return view.Status, err
}

func (t *httpTransport) saleState(ctx context.Context, id string) (*SaleState, error) {
	state := &SaleState{}
	return state, t.ask(ctx, request{target: targetOf(contract.OpSale, id)}, state)
}

func (t *httpTransport) reserve(ctx context.Context, id string, reservation Reservation) (Reserved, error) {
	lines := make([]object, len(reservation.Lines))
	for at, line := range reservation.Lines {
		lines[at] = object{"sku": line.SKU, "quantity": line.Quantity}
	}
	body := object{"buyer": reservation.Buyer, "lines": lines}
	body.set("same_number", reservation.SameNumber)
	body.set("pass", reservation.Pass)
	answer, err := t.send(ctx, request{
		target: targetOf(contract.OpReserve, id), body: body, key: reservation.Key,
	})
	if err != nil {
		var reserved Reserved
		word, err := outcome(err, notReserved, &reserved)
		reserved.Outcome = ReserveOutcome(word)
		return reserved, err
	}
	reserved := Reserved{Outcome: HoldReserved, Hold: &Hold{}}
	if answer.replayed {
		reserved.Outcome = HoldReplayed
	}
	return reserved, fromWire(answer.body, reserved.Hold)
}

func (t *httpTransport) confirmHold(ctx context.Context, id, reservation string) (Decision, error) {
	return t.decide(ctx, contract.OpConfirm, id, reservation)
}

func (t *httpTransport) cancelHold(ctx context.Context, id, reservation string) (Decision, error) {
	return t.decide(ctx, contract.OpCancelHold, id, reservation)
}

func (t *httpTransport) decide(ctx context.Context, operation contract.Operation, id, reservation string) (Decision, error) {
	answer, err := t.send(ctx, request{target: targetOf(operation, id, reservation), body: object{}})
	if err != nil {
		var decision Decision
		word, err := outcome(err, notDecided, &decision)
		decision.Outcome = DecideOutcome(word)
		return decision, err
	}
	decision := Decision{Outcome: Decided, Hold: &Hold{}}
	if answer.status == http.StatusAccepted {
		decision.Outcome = DecidePending
	}
	return decision, fromWire(answer.body, decision.Hold)
}

func (t *httpTransport) hold(ctx context.Context, id, reservation string) (*Hold, error) {
	return t.lookAtHold(ctx, id, reservation, 0)
}

func (t *httpTransport) lookAtHold(ctx context.Context, id, reservation string, wait time.Duration) (*Hold, error) {
	hold := &Hold{}
	sent := request{target: targetOf(contract.OpReservation, id, reservation), wait: wait}
	if found, err := t.found(ctx, sent, hold); err != nil || !found {
		return nil, err
	}
	return hold, nil
}

func (t *httpTransport) waitFinal(ctx context.Context, id, reservation string, wait time.Duration) (*Hold, error) {
	var hold *Hold
	err := waiting(ctx, wait, func(part time.Duration) (bool, error) {
		var err error
		hold, err = t.lookAtHold(ctx, id, reservation, part)
		return hold == nil || hold.State.IsFinal(), err
	})
	return hold, err
}

func (t *httpTransport) restore(ctx context.Context, id, receipt string) (Restored, error) {
	answer, err := t.send(ctx, request{
		target: targetOf(contract.OpRestore, id), body: object{"receipt": receipt},
	})
	if err != nil {
		var restored Restored
		word, err := outcome(err, notRestored, &restored)
		restored.Outcome = RestoreOutcome(word)
		return restored, err
	}
	restored := Restored{Outcome: HoldKnown, Hold: &Hold{}}
	if answer.status == http.StatusCreated {
		restored.Outcome = HoldRestored
	}
	return restored, fromWire(answer.body, restored.Hold)
}
