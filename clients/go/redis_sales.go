package rushgate

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
)

// specification of a sale, which never changes. The fields are in alphabetical order, as every writer has them.
type specification struct {
	Closes *int64         `json:"closes_us"`
	Hold   int64          `json:"hold_us"`
	Ledger bool           `json:"ledger"`
	Opens  *int64         `json:"opens_us"`
	Secret string         `json:"secret"`
	SKUs   []specifiedSKU `json:"skus"`
	secret []byte
}

// specifiedSKU is the list of a name, a number of units and a limit per buyer.
type specifiedSKU struct {
	sku             string
	units, perBuyer int
}

// MarshalJSON writes the list.
func (s specifiedSKU) MarshalJSON() ([]byte, error) {
	return marshal([]any{s.sku, s.units, s.perBuyer})
}

// UnmarshalJSON reads the list.
func (s *specifiedSKU) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&s.sku, &s.units, &s.perBuyer})
}

// marshal writes JSON without escapes for HTML.
func marshal(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

func (s *specification) sku(number uint64) (string, error) {
	if number >= uint64(len(s.SKUs)) {
		return "", strange()
	}
	return s.SKUs[number].sku, nil
}

// number returns -1 for a SKU that the sale does not have.
func (s *specification) number(sku string) int {
	for at, one := range s.SKUs {
		if one.sku == sku {
			return at
		}
	}
	return -1
}

func momentOf(us *int64) time.Time {
	if us == nil {
		return time.Time{}
	}
	return time.UnixMicro(*us)
}

func microsOf(at time.Time) *int64 {
	if at.IsZero() {
		return nil
	}
	return Ptr(at.UnixMicro())
}

func (t *redisTransport) createSale(ctx context.Context, sale NewSale) (bool, error) {
	if err := t.register(ctx, contract.SaleDirectory, sale.ID); err != nil {
		return false, err
	}
	spec := specification{
		Closes: microsOf(sale.ClosesAt), Hold: sale.HoldFor.Microseconds(), Ledger: sale.Ledger != nil && *sale.Ledger,
		Opens: microsOf(sale.OpensAt), secret: make([]byte, contract.SecretBytes),
	}
	if _, err := rand.Read(spec.secret); err != nil {
		return false, err
	}
	spec.Secret = hex.EncodeToString(spec.secret)
	for _, sku := range sale.SKUs {
		spec.SKUs = append(spec.SKUs, specifiedSKU{sku.SKU, sku.Units, sku.PerBuyer})
	}
	text, err := marshal(spec)
	if err != nil {
		return false, err
	}
	reply, err := t.call(ctx, "sale_create", []group{homeGroup(sale.ID), saleGroup(sale.ID)}, spec.arguments(text))
	if err != nil {
		return false, err
	}
	number, err := numberOf(reply)
	if err != nil {
		return false, err
	}
	outcome, err := meaning(number, contract.Created)
	return outcome == "created", err
}

func (s *specification) arguments(text []byte) arguments {
	args := arguments{text, s.secret}
	args.number(uint64(s.Hold))
	for _, at := range []*int64{s.Opens, s.Closes} {
		if at == nil {
			args.text("")
		} else {
			args.number(uint64(*at))
		}
	}
	args.flag(s.Ledger)
	for _, sku := range s.SKUs {
		args.number(uint64(sku.units))
		args.number(uint64(sku.perBuyer))
	}
	return args
}

// spec reads the specification of a sale, once per client.
func (t *redisTransport) spec(ctx context.Context, id string) (*specification, error) {
	if known, found := t.specs.Load(id); found {
		return known.(*specification), nil
	}
	home := homeGroup(id)
	reply, err := t.read(ctx, "GET", home.key(home.endings[0]))
	if err != nil {
		return nil, err
	}
	text, found := reply.([]byte)
	if !found {
		return nil, &Error{
			Kind: ErrNotFound, Message: fmt.Sprintf("there is no sale %q", id), Hint: "Run: rushgate sale ls",
		}
	}
	spec := &specification{}
	if err := json.Unmarshal(text, spec); err != nil {
		return nil, strange()
	}
	if spec.secret, err = hex.DecodeString(spec.Secret); err != nil {
		return nil, strange()
	}
	t.specs.Store(id, spec)
	return spec, nil
}

// callSale calls a function of a sale, with its secret in front. A sale that was created again has another specification.
func (t *redisTransport) callSale(
	ctx context.Context, id, verb string, args func(*specification) arguments,
) (any, *specification, error) {
	spec, err := t.spec(ctx, id)
	for err == nil {
		var reply any
		all := append(arguments{spec.secret}, args(spec)...)
		if reply, err = t.call(ctx, "sale_"+verb, []group{saleGroup(id)}, all); err != nil {
			break
		}
		if !isStatus(reply, contract.MissingStatus) {
			return reply, spec, nil
		}
		used := spec.secret
		t.specs.Delete(id)
		if spec, err = t.spec(ctx, id); err == nil && bytes.Equal(spec.secret, used) {
			err = &Error{
				Kind: ErrCorrupt, Message: fmt.Sprintf("the keys of the sale %q are missing", id),
				Hint: "Rebuild the sale from its ledger, or restore a backup.",
			}
		}
	}
	return nil, nil, err
}

func noArguments(*specification) arguments { return nil }

func (t *redisTransport) openSale(ctx context.Context, id string) (SaleStatus, error) {
	return t.setStatus(ctx, id, "open")
}

func (t *redisTransport) endSale(ctx context.Context, id string) (SaleStatus, error) {
	return t.setStatus(ctx, id, "end")
}

func (t *redisTransport) setStatus(ctx context.Context, id, verb string) (SaleStatus, error) {
	reply, _, err := t.callSale(ctx, id, verb, noArguments)
	if err != nil {
		return "", err
	}
	number, err := numberOf(reply)
	if err != nil {
		return "", err
	}
	status, err := meaning(number, contract.SaleStatus)
	return SaleStatus(status), err
}

func (t *redisTransport) saleState(ctx context.Context, id string) (*SaleState, error) {
	reply, spec, err := t.callSale(ctx, id, "show", func(spec *specification) arguments {
		args := arguments{}
		args.number(uint64(len(spec.SKUs)))
		return args
	})
	if err != nil {
		return nil, err
	}
	answer := listOf(reply)
	state := &SaleState{
		ID: id, Hold: micros(spec.Hold), OpensAt: momentOf(spec.Opens), ClosesAt: momentOf(spec.Closes), Ledger: spec.Ledger,
		Status: SaleStatus(answer.word(contract.SaleStatus)), Generation: int(answer.number()), Seq: answer.number(),
		NextExpiry: answer.moment(), Now: answer.moment(),
	}
	for _, sku := range spec.SKUs {
		stock, err := readSKU(sku.sku, answer.bytes())
		if err != nil {
			return nil, err
		}
		state.SKUs = append(state.SKUs, stock)
	}
	halt := Halt{Since: answer.moment(), Reason: answer.word(contract.HaltReason)}
	if !halt.Since.IsZero() {
		state.Halted = &halt
	}
	state.ReceiptsUntil = answer.moment()
	orders := Orders{
		Through: answer.number(), BehindSince: answer.moment(), Failed: int(answer.number()), WorkerUntil: answer.moment(),
	}
	if spec.Ledger {
		state.Orders = &orders
	}
	return state, answer.err
}

func readSKU(sku string, record []byte) (SKUState, error) {
	p := packed{rest: record}
	fields := p.fields(contract.SKULayout)
	free := fields.int("total") + fields.int("returned") - fields.int("next") - fields.int("ahead")
	return SKUState{
		SKU: sku, Total: fields.int("total"), Free: free, Held: fields.int("held"), Confirmed: fields.int("confirmed"),
		Withdrawn: fields.int("withdrawn"), PerBuyer: fields.int("perBuyer"),
	}, p.err
}

func (t *redisTransport) reserve(ctx context.Context, id string, reservation Reservation) (Reserved, error) {
	reply, spec, err := t.callSale(ctx, id, "reserve_by_key", func(spec *specification) arguments {
		args := arguments{}
		args.text(reservation.Key, reservation.Buyer)
		args.flag(reservation.SameNumber)
		for _, line := range reservation.Lines {
			args.text(fmt.Sprint(spec.number(line.SKU)))
			args.number(uint64(line.Quantity))
		}
		return args
	})
	if err != nil {
		return Reserved{}, err
	}
	answer := listOf(reply)
	word := answer.word(contract.Reserved)
	reserved := Reserved{Outcome: ReserveOutcome(word)}
	switch reserved.Outcome {
	case HoldReserved, HoldReplayed:
		record := answer.bytes()
		reserved.Hold, err = readHold(spec, hex.EncodeToString(answer.bytes()), record)
		if err == nil {
			reserved.Hold.Receipt, err = writeReceipt(id, spec.secret, reserved.Hold)
		}
	case SoldOut, AllHeld:
		reserved.SKU, err = spec.sku(answer.number())
		reserved.Free = int(answer.number())
		if reserved.Outcome == AllHeld {
			reserved.NextExpiry = answer.moment()
		}
	case LimitReached:
		reserved.SKU, err = spec.sku(answer.number())
		reserved.Limit, reserved.Has = int(answer.number()), int(answer.number())
	case NotOpen:
		reserved.OpensAt = momentOf(spec.Opens)
	case Halted:
		reserved.RetryAt = answer.moment()
	case "no_such_sku":
		line := answer.number()
		if line < uint64(len(reservation.Lines)) {
			return Reserved{}, noSuchSKU(id, reservation.Lines[line].SKU)
		}
		err = strange()
	}
	return reserved, firstError(answer.err, err)
}

func readHold(spec *specification, id string, record []byte) (*Hold, error) {
	p := packed{rest: record}
	fields := p.fields(contract.HoldLayout)
	state, err := meaning(fields["state"], contract.HoldState)
	if err != nil {
		return nil, err
	}
	hold := &Hold{
		ID: id, State: HoldState(state), Deadline: fields.moment("deadline"), Seq: fields["event"],
		Generation: fields.int("generation"), Buyer: p.text(contract.BuyerLengthBytes),
	}
	p.take(fields.int("linesLength"))
	for len(p.rest) > 0 {
		units := p.fields(contract.UnitsLayout)
		sku, err := spec.sku(units["sku"])
		if err := firstError(p.err, err); err != nil {
			return nil, err
		}
		for unit := units.int("first"); unit <= units.int("last"); unit++ {
			hold.Units = append(hold.Units, Unit{SKU: sku, Unit: unit})
		}
	}
	return hold, p.err
}

func (t *redisTransport) confirmHold(ctx context.Context, id, reservation string) (Decision, error) {
	return t.decide(ctx, id, "confirm", reservation)
}

func (t *redisTransport) cancelHold(ctx context.Context, id, reservation string) (Decision, error) {
	return t.decide(ctx, id, "cancel_hold", reservation)
}

// reservationArguments turns the ID of a reservation, which was checked, into the arguments of a call.
func reservationArguments(reservation string) func(*specification) arguments {
	id, _ := hex.DecodeString(reservation)
	return func(*specification) arguments { return arguments{id} }
}

func (t *redisTransport) decide(ctx context.Context, id, verb, reservation string) (Decision, error) {
	reply, spec, err := t.callSale(ctx, id, verb, reservationArguments(reservation))
	if err != nil {
		return Decision{}, err
	}
	answers := listOf(reply)
	answer := answers.list()
	decision := Decision{Outcome: DecideOutcome(answer.word(contract.Decided))}
	if err := firstError(answers.err, answer.err); err != nil {
		return Decision{}, err
	}
	switch decision.Outcome {
	case Decided, DecidePending:
		decision.Hold, err = readHold(spec, reservation, answer.bytes())
	case DecideRefused:
		var hold *Hold
		if hold, err = readHold(spec, reservation, answer.bytes()); err == nil {
			decision.State = hold.State
		}
	}
	return decision, firstError(answer.err, err)
}

func (t *redisTransport) hold(ctx context.Context, id, reservation string) (*Hold, error) {
	reply, spec, err := t.callSale(ctx, id, "reservation", reservationArguments(reservation))
	if err != nil {
		return nil, err
	}
	answer := listOf(reply)
	if !answer.more() {
		return nil, answer.err
	}
	return readHold(spec, reservation, answer.bytes())
}

func (t *redisTransport) waitFinal(ctx context.Context, id, reservation string, wait time.Duration) (*Hold, error) {
	if err := t.inbox.open(ctx); err != nil {
		return nil, err
	}
	events := t.inbox.listen(saleTopic(id))
	defer events.ignore()
	for until := time.Now().Add(wait); ; {
		state, err := t.saleState(ctx, id)
		if err != nil {
			return nil, err
		}
		hold, err := t.hold(ctx, id, reservation)
		left := time.Until(until)
		if err != nil || hold == nil || hold.State.IsFinal() || left <= 0 {
			return hold, err
		}
		pause := contract.SaleSleep
		if hold.State == HoldHeld {
			pause = least(pause, hold.Deadline.Sub(state.Now))
		}
		if pause <= 0 {
			err = t.expire(ctx, id)
		} else {
			err = t.sleepForEvent(ctx, id, events.bell, state.Seq, least(left, pause))
		}
		if err != nil {
			return nil, err
		}
	}
}

func (t *redisTransport) expire(ctx context.Context, id string) error {
	_, _, err := t.callSale(ctx, id, "expire", func(*specification) arguments {
		args := arguments{}
		args.number(uint64(contract.Expire.Max))
		return args
	})
	return err
}

// sleepForEvent returns at once if the sale has an event after the one that the client knows.
func (t *redisTransport) sleepForEvent(ctx context.Context, id string, events bell, seq uint64, pause time.Duration) error {
	reply, _, err := t.callSale(ctx, id, "listen", func(*specification) arguments {
		args := arguments{}
		args.text(t.inbox.hex())
		args.number(seq)
		return args
	})
	if err != nil {
		return err
	}
	registered, err := numberOf(reply)
	if err != nil || registered == 0 {
		return err
	}
	if pause < time.Millisecond {
		pause = time.Millisecond
	}
	events.wait(ctx, pause)
	if ctx.Err() != nil {
		return interrupted(ctx.Err(), false)
	}
	return nil
}

func (t *redisTransport) restore(ctx context.Context, id, text string) (Restored, error) {
	first, err := t.spec(ctx, id)
	if err != nil {
		return Restored{}, err
	}
	read, valid := readReceipt(id, first.secret, text)
	if !valid {
		return Restored{Outcome: RestoreRefused}, nil
	}
	reply, spec, err := t.callSale(ctx, id, "restore", read.arguments)
	if err != nil {
		return Restored{}, err
	}
	answer := listOf(reply)
	restored := Restored{Outcome: RestoreOutcome(answer.word(contract.Restored))}
	switch restored.Outcome {
	case HoldRestored, HoldKnown:
		if restored.Hold, err = readHold(spec, read.ID, answer.bytes()); err == nil {
			restored.Hold.Receipt, err = writeReceipt(id, spec.secret, restored.Hold)
		}
	case RestoreNoneLeft:
		restored.SKU, err = spec.sku(answer.number())
		restored.Free = int(answer.number())
	case RestoreLimitReached:
		restored.SKU, err = spec.sku(answer.number())
		restored.Limit, restored.Has = int(answer.number()), int(answer.number())
	case RestoreHalted:
		restored.RetryAt = answer.moment()
	}
	return restored, firstError(answer.err, err)
}

func (r receipt) arguments(spec *specification) arguments {
	id, _ := hex.DecodeString(r.ID)
	args := arguments{id}
	args.text(r.Buyer)
	args.number(r.Generation)
	args.number(r.Deadline)
	args.flag(r.isSameNumber())
	args.bytes(r.packUnits(spec))
	return args
}

// packUnits packs ranges of consecutive units, line by line.
func (r receipt) packUnits(spec *specification) []byte {
	var ranges []numbers
	for _, unit := range r.Units {
		sku := uint64(spec.number(unit.sku))
		if last := len(ranges) - 1; last >= 0 && ranges[last]["sku"] == sku && ranges[last]["last"]+1 == unit.unit {
			ranges[last]["last"] = unit.unit
			continue
		}
		ranges = append(ranges, numbers{"sku": sku, "first": unit.unit, "last": unit.unit})
	}
	var packed []byte
	for _, one := range ranges {
		packed = append(packed, pack(contract.UnitsLayout, one)...)
	}
	return packed
}
