package rushgate

import (
	"bytes"
	"strconv"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
	"github.com/rushgate/rushgate/clients/go/internal/resp"
)

// packed reads a packed record from its beginning. After the first failure it reads zeros, and err is set.
type packed struct {
	rest []byte
	err  error
}

func (p *packed) take(length int) []byte {
	if length > len(p.rest) {
		p.err, p.rest = strange(), nil
		return nil
	}
	part := p.rest[:length]
	p.rest = p.rest[length:]
	return part
}

func (p *packed) number(length int) uint64 {
	number := uint64(0)
	for _, digit := range p.take(length) {
		number = number<<8 | uint64(digit)
	}
	return number
}

// sized reads bytes whose length precedes them.
func (p *packed) sized(lengthBytes int) []byte { return p.take(int(p.number(lengthBytes))) }

func (p *packed) text(lengthBytes int) string { return string(p.sized(lengthBytes)) }

// numbers are the fields of the fixed part of a record.
type numbers map[string]uint64

func (p *packed) fields(layout contract.Layout) numbers {
	read := numbers{}
	for _, field := range layout {
		read[field.Name] = p.number(field.Bytes)
	}
	return read
}

func (n numbers) int(name string) int { return int(n[name]) }

func (n numbers) moment(name string) time.Time { return moment(n[name]) }

// moment is a time in µs since 1970. 0 is none.
func moment(us uint64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(us))
}

// pack writes the fixed part of a record.
func pack(layout contract.Layout, values numbers) []byte {
	var record []byte
	for _, field := range layout {
		for shift := field.Bytes - 1; shift >= 0; shift-- {
			record = append(record, byte(values[field.Name]>>(8*shift)))
		}
	}
	return record
}

// list reads a list of an answer from its beginning. After the first failure it reads zeros, and err is set.
type list struct {
	entries []any
	err     error
}

func listOf(reply any) *list {
	entries, is := reply.([]any)
	if !is {
		return &list{err: strange()}
	}
	return &list{entries: entries}
}

func (l *list) more() bool { return l.err == nil && len(l.entries) > 0 }

func (l *list) next() any {
	if !l.more() {
		l.err = strange()
		return nil
	}
	entry := l.entries[0]
	l.entries = l.entries[1:]
	return entry
}

func (l *list) bytes() []byte {
	content, is := l.next().([]byte)
	if !is {
		l.err = strange()
	}
	return content
}

func (l *list) text() string { return string(l.bytes()) }

func (l *list) number() uint64 {
	number, err := numberOf(l.next())
	if err != nil {
		l.err = err
	}
	return number
}

// optional reads a number, or false for an empty string.
func (l *list) optional() (uint64, bool) {
	entry := l.next()
	if text, is := entry.([]byte); is && len(text) == 0 {
		return 0, false
	}
	number, err := numberOf(entry)
	if err != nil {
		l.err = err
	}
	return number, true
}

func (l *list) moment() time.Time {
	us, _ := l.optional()
	return moment(us)
}

func (l *list) list() *list {
	entry := l.next()
	if l.err != nil {
		return &list{err: l.err}
	}
	inner := listOf(entry)
	if inner.err != nil {
		l.err = inner.err
	}
	return inner
}

// word reads the meaning of a number.
func (l *list) word(words []string) string {
	word, err := meaning(l.number(), words)
	if err != nil {
		l.err = err
	}
	return word
}

func numberOf(reply any) (uint64, error) {
	switch value := reply.(type) {
	case int64:
		if value >= 0 {
			return uint64(value), nil
		}
	case []byte:
		if number, err := strconv.ParseUint(string(value), 10, 64); err == nil {
			return number, nil
		}
		// Lua writes large numbers with an exponent or a point.
		if number, err := strconv.ParseFloat(string(value), 64); err == nil && number >= 0 {
			return uint64(number), nil
		}
	}
	return 0, strange()
}

// meaning returns the word for a number. An unknown number belongs to a later protocol.
func meaning(number uint64, words []string) (string, error) {
	if number >= uint64(len(words)) || words[number] == "" {
		return "", strange()
	}
	return words[number], nil
}

func isStatus(reply any, status string) bool {
	got, is := reply.(resp.Status)
	return is && string(got) == status
}

// arguments collects the arguments of a call.
type arguments [][]byte

func (a *arguments) text(texts ...string) {
	for _, text := range texts {
		*a = append(*a, []byte(text))
	}
}

func (a *arguments) bytes(content []byte) { *a = append(*a, content) }

func (a *arguments) number(number uint64) { a.text(strconv.FormatUint(number, 10)) }

func (a *arguments) duration(duration time.Duration) { a.text(microsText(duration)) }

func (a *arguments) flag(flag bool) {
	if flag {
		a.text("1")
	} else {
		a.text("0")
	}
}

func microsText(duration time.Duration) string { return strconv.FormatInt(duration.Microseconds(), 10) }

func concat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
