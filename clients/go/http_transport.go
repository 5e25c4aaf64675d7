package rushgate

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
)

const (
	// The server closes connections that are idle for longer.
	idleTime        = 5 * time.Second
	idleConnections = 64
	// Shortest time between two requests, if the server does not wait.
	shortestWait = 250 * time.Millisecond
)

// httpTransport carries out the verbs by the HTTP API.
type httpTransport struct {
	base     string
	token    string
	timeout  time.Duration
	retryFor time.Duration
	client   *http.Client
	closing  context.Context
	stop     context.CancelFunc
}

func newHTTP(base string, options Options) (*httpTransport, error) {
	if parsed, err := url.Parse(base); err != nil || parsed.Host == "" || parsed.RawQuery != "" || parsed.User != nil {
		return nil, invalid("url", "must be http://host:port or https://host:port, without user and query")
	}
	if strings.ContainsAny(options.Token, "\r\n") {
		return nil, invalid("token", "contains a line break")
	}
	t := &httpTransport{
		base: strings.TrimRight(base, "/"), token: options.Token, timeout: options.Timeout, retryFor: options.RetryFor,
	}
	t.client = &http.Client{Transport: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: options.Timeout}).DialContext,
		TLSClientConfig:     options.TLS,
		TLSHandshakeTimeout: options.Timeout,
		MaxIdleConnsPerHost: idleConnections,
		IdleConnTimeout:     idleTime,
		DisableCompression:  true,
	}}
	t.closing, t.stop = context.WithCancel(context.Background())
	return t, nil
}

func (t *httpTransport) close() {
	t.stop()
	t.client.CloseIdleConnections()
}

// request to the API.
type request struct {
	target
	body object
	// key is sent as Idempotency-Key, so that a repeat gets the same answer. "" is none.
	key string
	// wait is how long the server may wait.
	wait time.Duration
}

// response of the API. The body is JSON.
type response struct {
	status   int
	body     json.RawMessage
	replayed bool
}

// problem is an error that the server answered.
type problem struct {
	status int
	body   json.RawMessage
	Code   string `json:"code"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
	Hint   string `json:"hint"`
	Field  string `json:"field"`
	Retry  int64  `json:"retry_after_ms"`
}

func (p *problem) Error() string {
	for _, text := range []string{p.Detail, p.Title} {
		if text != "" {
			return text
		}
	}
	return fmt.Sprintf("HTTP status %d", p.status)
}

// target of a request.
type target struct{ method, path string }

var parameter = regexp.MustCompile(`\{\w+\}`)

// targetOf fills in the parameters of a path, in their order.
func targetOf(operation contract.Operation, parameters ...string) target {
	path := parameter.ReplaceAllStringFunc(operation.Path, func(string) string {
		next := url.PathEscape(parameters[0])
		parameters = parameters[1:]
		return next
	})
	return target{operation.Method, path}
}

func (t target) with(query url.Values) target { return target{t.method, t.path + "?" + query.Encode()} }

func newKey() string {
	var key [16]byte
	if _, err := rand.Read(key[:]); err != nil {
		panic("rushgate: the system has no random numbers: " + err.Error())
	}
	return hex.EncodeToString(key[:])
}

// send sends a request until it is answered, for as long as the retry budget lasts. It fails with a *problem if the server
// refuses the request.
func (t *httpTransport) send(ctx context.Context, r request) (response, error) {
	until := time.Now().Add(t.retryFor + r.wait)
	mayHaveHappened := false
	for pauses := (pauses{}); ; {
		answer, err := t.try(ctx, r)
		if err == nil {
			return answer, nil
		}
		if t.closing.Err() != nil {
			return response{}, closedError()
		}
		if ctx.Err() != nil {
			return response{}, interrupted(ctx.Err(), true)
		}
		pause := pauses.draw()
		var refusal *problem
		if errors.As(err, &refusal) {
			if positionOf(refusal.Code, contract.PassingProblems) < 0 {
				return response{}, err
			}
			mayHaveHappened = mayHaveHappened || refusal.Code == "outcome_unknown"
			if wish := millis(refusal.Retry); wish > pause {
				pause = wish
			}
		} else {
			mayHaveHappened = mayHaveHappened || !errors.Is(err, syscall.ECONNREFUSED)
		}
		if time.Now().Add(pause).After(until) {
			return response{}, gaveUp("server", err, mayHaveHappened)
		}
		sleep(ctx, pause)
	}
}

// try sends a request once.
func (t *httpTransport) try(ctx context.Context, r request) (response, error) {
	ctx, cancel := context.WithTimeout(ctx, t.timeout+r.wait)
	defer cancel()
	stop := cancelAtEnd(t.closing, cancel)
	defer stop()
	sent, err := t.build(ctx, r)
	if err != nil {
		return response{}, err
	}
	got, err := t.client.Do(sent)
	if err != nil {
		return response{}, err
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		return response{}, err
	}
	if got.StatusCode >= http.StatusMultipleChoices {
		refusal := &problem{status: got.StatusCode, body: body}
		if strings.HasPrefix(got.Header.Get("Content-Type"), contract.HTTPProblemType) {
			json.Unmarshal(body, refusal)
		}
		return response{}, refusal
	}
	return response{got.StatusCode, body, got.Header.Get(contract.HTTPReplayedHeader) == "true"}, nil
}

// cancelAtEnd cancels a request when the client is closed.
func cancelAtEnd(closing context.Context, cancel func()) (stop func()) {
	over := make(chan struct{})
	go func() {
		select {
		case <-closing.Done():
			cancel()
		case <-over:
		}
	}()
	return func() { close(over) }
}

func (t *httpTransport) build(ctx context.Context, r request) (*http.Request, error) {
	var body io.Reader
	if r.body != nil {
		encoded, err := json.Marshal(r.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(encoded)
	}
	sent, err := http.NewRequestWithContext(ctx, r.method, t.base+r.path, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		sent.Header.Set("Content-Type", contract.JSONType)
	}
	if t.token != "" {
		sent.Header.Set("Authorization", "Bearer "+t.token)
	}
	if r.key != "" {
		sent.Header.Set(contract.HTTPKeyHeader, r.key)
	}
	if r.wait > 0 {
		seconds := (r.wait + time.Second - 1) / time.Second
		sent.Header.Set("Prefer", "wait="+strconv.FormatInt(int64(seconds), 10))
	}
	return sent, nil
}

// ask sends a request and reads its answer. Every refusal is an error of this package.
func (t *httpTransport) ask(ctx context.Context, r request, into any) error {
	answer, err := t.send(ctx, r)
	if err != nil {
		return httpError(err)
	}
	if into == nil {
		return nil
	}
	return fromWire(answer.body, into)
}

// codeOf returns the code of a problem, or "" for any other error.
func codeOf(err error) string {
	var refusal *problem
	if errors.As(err, &refusal) {
		return refusal.Code
	}
	return ""
}

var kindsByCode = map[string]error{
	"corrupt": ErrCorrupt, "misconfigured": ErrMisconfigured, "full": ErrFull, "not_found": ErrNotFound,
	"nothing_kept": ErrInvalid, "outcome_unknown": ErrOutcomeUnknown, "queue_full": ErrConflict,
	"idempotency_key_reused": ErrConflict, "bug": ErrBug,
}

// httpError is the error for a problem. Other errors stay as they are.
func httpError(err error) error {
	var refusal *problem
	if !errors.As(err, &refusal) {
		return err
	}
	return &Error{
		Kind: kindOf(refusal), Message: "the server refused the request: " + refusal.Error(), Field: refusal.Field,
		Hint: refusal.Hint, Code: refusal.Code, RetryAfter: millis(refusal.Retry), Cause: err,
	}
}

func kindOf(refusal *problem) error {
	if kind, known := kindsByCode[refusal.Code]; known {
		return kind
	}
	switch status := refusal.status; {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return ErrForbidden
	case status == http.StatusConflict || status == http.StatusGone:
		return ErrConflict
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		return ErrUnavailable
	case status < http.StatusInternalServerError:
		return ErrInvalid
	default:
		return ErrBug
	}
}

// waiting repeats a request that the server lets wait, until its answer is final or the wait ends.
func waiting(ctx context.Context, wait time.Duration, ask func(part time.Duration) (final bool, err error)) error {
	for until := time.Now().Add(wait); ; {
		sent := time.Now()
		part := least(until.Sub(sent), contract.HTTPWait)
		if part < 0 {
			part = 0
		}
		final, err := ask(part)
		if err != nil || final || !time.Now().Before(until) {
			return err
		}
		if early := shortestWait - time.Since(sent); early > 0 {
			sleep(ctx, least(early, time.Until(until)))
		}
		if ctx.Err() != nil {
			return interrupted(ctx.Err(), false)
		}
	}
}
