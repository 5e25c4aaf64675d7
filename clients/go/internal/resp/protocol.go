// Package resp is a client of the Redis protocol (RESP2) for a single server, a primary behind sentinels, and a Cluster.
//
// A reply is an int64, a Status, a []byte, an Error, nil, or a []any of these.
package resp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Status is a simple string.
type Status string

// Error is an error that the server answered.
type Error string

func (e Error) Error() string { return string(e) }

// Code returns the first word, such as MOVED.
func (e Error) Code() string {
	code, _, _ := strings.Cut(string(e), " ")
	return code
}

// ConnectionError reports that no answer arrived. Sent is false if the command was certainly not sent.
type ConnectionError struct {
	Err  error
	Sent bool
}

func (e *ConnectionError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ConnectionError) Unwrap() error { return e.Err }

var errMalformed = errors.New("the server sent a malformed reply")

// Largest length of a string or list that a reply may announce.
const maxLength = 512 << 20

func writeCommand(w *bufio.Writer, args [][]byte) error {
	fmt.Fprintf(w, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(w, "$%d\r\n", len(arg))
		w.Write(arg)
		w.WriteString("\r\n")
	}
	// The writer keeps its first error.
	_, err := w.Write(nil)
	return err
}

func readReply(r *bufio.Reader) (any, error) {
	line, err := readLine(r)
	if err != nil {
		return nil, err
	}
	switch rest := string(line[1:]); line[0] {
	case '+':
		return Status(rest), nil
	case '-':
		return Error(rest), nil
	case ':':
		return strconv.ParseInt(rest, 10, 64)
	case '$':
		return readBulk(r, rest)
	case '*':
		return readList(r, rest)
	default:
		return nil, errMalformed
	}
}

func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, errMalformed
	}
	return line[:len(line)-2], nil
}

// readLength returns -1 for a null.
func readLength(text string) (int, error) {
	length, err := strconv.Atoi(text)
	if err != nil || length < -1 || length > maxLength {
		return 0, errMalformed
	}
	return length, nil
}

func readBulk(r *bufio.Reader, text string) (any, error) {
	length, err := readLength(text)
	if err != nil || length < 0 {
		return nil, err
	}
	content := make([]byte, length+2)
	if _, err := io.ReadFull(r, content); err != nil {
		return nil, err
	}
	return content[:length:length], nil
}

func readList(r *bufio.Reader, text string) (any, error) {
	length, err := readLength(text)
	if err != nil || length < 0 {
		return nil, err
	}
	var list []any
	for len(list) < length {
		entry, err := readReply(r)
		if err != nil {
			return nil, err
		}
		list = append(list, entry)
	}
	if list == nil {
		list = []any{}
	}
	return list, nil
}
