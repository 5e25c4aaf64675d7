package rushgate

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
)

// Content is the payload of a task or its result, as it is stored.
type Content struct {
	// Payload has the bytes. Decode reads them.
	Payload []byte
	// ContentType is the media type, without the kind and the trace.
	ContentType string
	// Kind selects the handler of a worker. "" is none.
	Kind string
	// Traceparent is the W3C trace to which the task belongs. "" is none.
	Traceparent string
}

// Decode reads the payload into a pointer: JSON as encoding/json does, text into a *string, and anything into a *[]byte.
// The error is ErrCorrupt if the payload does not match its media type or the pointer. The task stays as it is.
func (c Content) Decode(into any) error {
	switch target := into.(type) {
	case *[]byte:
		*target = c.Payload
		return nil
	case *string:
		if !isJSON(c.ContentType) {
			if !utf8.Valid(c.Payload) {
				return &Error{Kind: ErrCorrupt, Message: "the payload is not valid UTF-8"}
			}
			*target = string(c.Payload)
			return nil
		}
	}
	if !isJSON(c.ContentType) {
		return &Error{Kind: ErrCorrupt, Message: "the payload is " + c.ContentType + ", not JSON"}
	}
	if err := json.Unmarshal(c.Payload, into); err != nil {
		return &Error{Kind: ErrCorrupt, Message: "the payload cannot be decoded: " + err.Error(), Cause: err}
	}
	return nil
}

func essenceOf(media string) string {
	essence, _, _ := strings.Cut(media, ";")
	return strings.ToLower(strings.TrimSpace(essence))
}

func isJSON(media string) bool {
	essence := essenceOf(media)
	return essence == contract.JSONType || strings.HasSuffix(essence, "+json")
}

func isText(media string) bool { return strings.HasPrefix(essenceOf(media), "text/") }

// encodeContent checks a value and turns it into bytes: []byte stays as it is, a string of a text type is UTF-8, and
// everything else becomes JSON.
func encodeContent(field string, value any, media string, most int) (Content, error) {
	if media == "" {
		media = defaultType(value)
	}
	media = parameterSpace.ReplaceAllString(strings.TrimSpace(media), ";")
	if err := checkContentType(media); err != nil {
		return Content{}, err
	}
	payload, err := bytesOf(field, value, media)
	if err != nil {
		return Content{}, err
	}
	if len(payload) > most {
		return Content{}, invalid(field, "has %d bytes; at most %d are allowed", len(payload), most)
	}
	return Content{Payload: payload, ContentType: media}, nil
}

var parameterSpace = regexp.MustCompile(`\s*;\s*`)

func defaultType(value any) string {
	switch value.(type) {
	case nil, []byte:
		return contract.BytesType
	default:
		return contract.JSONType
	}
}

func bytesOf(field string, value any, media string) ([]byte, error) {
	switch content := value.(type) {
	case nil:
		return nil, nil
	case []byte:
		return content, nil
	case string:
		if !isJSON(media) {
			return []byte(content), nil
		}
	}
	if !isJSON(media) {
		return nil, invalid(field, "must be a string or bytes, because the content type is %s", media)
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		failure := invalid(field, "cannot be written as JSON: %v", err)
		failure.Cause = err
		return nil, failure
	}
	return encoded, nil
}

// encodeResult encodes what a handler returned. Nil is no result.
func encodeResult(value any) (*Content, error) {
	if value == nil {
		return nil, nil
	}
	content, err := encodeContent("result", value, "", contract.ResultBytes)
	if err != nil {
		return nil, err
	}
	return &content, nil
}
