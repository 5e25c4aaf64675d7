package rushgate

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode"
)

// The wire form of a struct is a JSON object whose names are in snake case. A time.Time is microseconds since 1970 and
// ends in _us, a time.Duration is milliseconds and ends in _ms.

var (
	timeType     = reflect.TypeOf(time.Time{})
	durationType = reflect.TypeOf(time.Duration(0))
	contentType  = reflect.TypeOf(Content{})
)

// fromWire reads the wire form into a pointer. Unknown names are skipped.
func fromWire(data []byte, into any) error {
	if err := readWire(data, reflect.ValueOf(into).Elem()); err != nil {
		failure := strange()
		failure.Cause = err
		return failure
	}
	return nil
}

func readWire(data []byte, value reflect.Value) error {
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	switch {
	case value.Type() == timeType:
		var us int64
		err := json.Unmarshal(data, &us)
		value.Set(reflect.ValueOf(time.UnixMicro(us)))
		return err
	case value.Type() == durationType:
		var ms int64
		err := json.Unmarshal(data, &ms)
		value.SetInt(int64(millis(ms)))
		return err
	}
	switch value.Kind() {
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		return readWire(data, value.Elem())
	case reflect.Struct:
		var object map[string]json.RawMessage
		if err := json.Unmarshal(data, &object); err != nil {
			return err
		}
		return readObject(object, value)
	case reflect.Slice:
		return readArray(data, value)
	default:
		return json.Unmarshal(data, value.Addr().Interface())
	}
}

func readObject(object map[string]json.RawMessage, value reflect.Value) error {
	if value.Type() == contentType {
		content, err := readContent(object)
		value.Set(reflect.ValueOf(content))
		return err
	}
	for at := 0; at < value.NumField(); at++ {
		field := value.Type().Field(at)
		var err error
		if field.Anonymous {
			err = readObject(object, value.Field(at))
		} else if data, found := object[wireName(field)]; found {
			err = readWire(data, value.Field(at))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", field.Name, err)
		}
	}
	return nil
}

func readArray(data []byte, value reflect.Value) error {
	var entries []json.RawMessage
	if err := json.Unmarshal(data, &entries); err != nil {
		return err
	}
	list := reflect.MakeSlice(value.Type(), len(entries), len(entries))
	for at, entry := range entries {
		if err := readWire(entry, list.Index(at)); err != nil {
			return err
		}
	}
	value.Set(list)
	return nil
}

// readContent reads a payload: JSON as it is, text as a JSON string, and other bytes in base64.
func readContent(object map[string]json.RawMessage) (Content, error) {
	var head struct {
		Type  string `json:"content_type"`
		Kind  string `json:"kind"`
		Trace string `json:"traceparent"`
		Bytes string `json:"payload_base64"`
	}
	whole, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(whole, &head)
	}
	content := Content{ContentType: head.Type, Kind: head.Kind, Traceparent: head.Trace}
	payload, found := object["payload"]
	switch {
	case err != nil:
	case !found:
		content.Payload, err = base64.StdEncoding.DecodeString(head.Bytes)
	case isJSON(head.Type):
		content.Payload = payload
	default:
		var text string
		err = json.Unmarshal(payload, &text)
		content.Payload = []byte(text)
	}
	return content, err
}

// wireName returns the name of a field on the wire. The tag `wire` overrides it.
func wireName(field reflect.StructField) string {
	if name, tagged := field.Tag.Lookup("wire"); tagged {
		return name
	}
	name := snake(field.Name)
	switch {
	case field.Type == timeType:
		return name + "_us"
	case field.Type == durationType:
		return name + "_ms"
	default:
		return name
	}
}

// snake turns LeaseUntil into lease_until, and ID into id.
func snake(name string) string {
	var text strings.Builder
	chars := []rune(name)
	for at, char := range chars {
		begins := at > 0 && unicode.IsUpper(char) && unicode.IsLower(chars[at-1])
		if begins {
			text.WriteByte('_')
		}
		text.WriteRune(unicode.ToLower(char))
	}
	return text.String()
}

// object is the body of a request. Entries that are nil are left out.
type object map[string]any

// set adds an entry unless it is the zero value of its type.
func (o object) set(name string, value any) {
	if reflected := reflect.ValueOf(value); reflected.IsValid() && !reflected.IsZero() {
		o[name] = value
	}
}

// setMoment adds a time unless it is zero.
func (o object) setMoment(name string, at time.Time) {
	if !at.IsZero() {
		o[name] = at.UnixMicro()
	}
}

// setDuration adds a duration, rounded up to whole milliseconds, unless it is 0.
func (o object) setDuration(name string, duration time.Duration) {
	if duration != 0 {
		o[name] = wireMillis(duration)
	}
}

// setContent adds a payload in base64, which keeps every byte.
func (o object) setContent(content Content) {
	o["payload_base64"] = base64.StdEncoding.EncodeToString(content.Payload)
	o["content_type"] = content.ContentType
	o.set("kind", content.Kind)
	o.set("traceparent", content.Traceparent)
}

func wireMillis(duration time.Duration) int64 {
	return int64((duration + time.Millisecond - 1) / time.Millisecond)
}
