package rushgate

import (
	"math"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
	"github.com/rushgate/rushgate/clients/go/internal/nfc"
)

var (
	kindPattern  = regexp.MustCompile(`^[A-Za-z0-9._:/-]+$`)
	tracePattern = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)
)

// checkName returns a name in Normalization Form C.
func checkName(field, name string, most int) (string, error) {
	if !utf8.ValidString(name) {
		return "", invalid(field, "is not valid UTF-8")
	}
	name = nfc.String(name)
	if len(name) < 1 || len(name) > most {
		return "", invalid(field, "has %d bytes; it must have 1 to %d", len(name), most)
	}
	if name == "." || name == ".." {
		return "", invalid(field, "is %q, which is reserved in URLs", name)
	}
	if strings.ContainsAny(name, "{}") || strings.IndexFunc(name, isForbidden) >= 0 {
		return "", invalid(field, "contains white space, a brace, or a control or invisible character")
	}
	return name, nil
}

func isForbidden(char rune) bool {
	if unicode.IsSpace(char) || unicode.IsControl(char) {
		return true
	}
	for _, bounds := range contract.Invisible {
		if char >= bounds[0] && char <= bounds[1] {
			return true
		}
	}
	return false
}

func checkLabel(field, label string) error {
	if !utf8.ValidString(label) || strings.IndexFunc(label, unicode.IsControl) >= 0 {
		return invalid(field, "contains a control character or is not valid UTF-8")
	}
	if len(label) > contract.LabelBytes {
		return invalid(field, "has more than %d bytes", contract.LabelBytes)
	}
	return nil
}

func checkKind(kind string) error {
	if len(kind) > contract.KindBytes || !kindPattern.MatchString(kind) {
		return invalid("kind", "is %q; it must be 1 to %d ASCII letters, digits and . _ : / -", kind, contract.KindBytes)
	}
	return nil
}

func checkTraceparent(trace string) error {
	if !tracePattern.MatchString(trace) || strings.HasPrefix(trace, "ff") {
		return invalid("traceparent", "is not a W3C traceparent")
	}
	return nil
}

func checkContentType(media string) error {
	if len(media) > contract.ContentTypeBytes || !strings.Contains(media, "/") || !isVisible(media) {
		return invalid("contentType", "is not a media type in visible ASCII characters")
	}
	return nil
}

func isVisible(text string) bool {
	return strings.IndexFunc(text, func(char rune) bool { return char < '!' || char > '~' || char == '{' || char == '}' }) < 0
}

func checkIdempotencyKey(key string) error {
	if len(key) < 1 || len(key) > contract.IdempotencyKeyBytes || !isVisible(key) || key == "." || key == ".." {
		return invalid("key", "must have 1 to %d visible ASCII characters without braces", contract.IdempotencyKeyBytes)
	}
	return nil
}

func checkRange(field string, value int64, limits contract.Range) error {
	if value < limits.Min || value > limits.Max {
		return invalid(field, "is %d; it must be %d to %d", value, limits.Min, limits.Max)
	}
	return nil
}

func checkDuration(field string, value time.Duration, limits contract.Range) error {
	if us := value.Microseconds(); us < limits.Min || us > limits.Max || value < 0 {
		return invalid(field, "is %v; it must be %v to %v", value, micros(limits.Min), micros(limits.Max))
	}
	return nil
}

func checkMoment(field string, value time.Time) error {
	if us := value.UnixMicro(); us < contract.MomentMicros.Min || us > contract.MomentMicros.Max {
		return invalid(field, "is %v, which is out of range", value)
	}
	return nil
}

func checkWord(field, word string, words []string) error {
	for _, one := range words {
		if one == word && word != "" {
			return nil
		}
	}
	return invalid(field, "is %q; it must be one of %s", word, strings.Join(words, ", "))
}

func positionOf(word string, words []string) int {
	for at, one := range words {
		if one == word {
			return at
		}
	}
	return -1
}

// firstError returns the first error of a list of checks.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func micros(us int64) time.Duration {
	if us > math.MaxInt64/int64(time.Microsecond) {
		return math.MaxInt64
	}
	return time.Duration(us) * time.Microsecond
}

func millis(ms int64) time.Duration { return micros(ms * 1_000) }

// orDefault returns a duration, or the default in ms if it is 0.
func orDefault(value, other time.Duration) time.Duration {
	if value == 0 {
		return other
	}
	return value
}

func least(first time.Duration, others ...time.Duration) time.Duration {
	for _, other := range others {
		if other < first {
			first = other
		}
	}
	return first
}

// cut shortens a text to at most that many bytes, between characters.
func cut(text string, most int) string {
	text = strings.ToValidUTF8(text, "�")
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// tail keeps the end of a text: at most that many bytes, between characters.
func tail(text string, most int) string {
	text = strings.ToValidUTF8(text, "�")
	at := len(text) - most
	if at <= 0 {
		return text
	}
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	return text[at:]
}

// Ptr returns a pointer to a value, for options whose zero value is not their default.
func Ptr[T any](value T) *T { return &value }
