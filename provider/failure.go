package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// Codes of failed model calls.
const (
	CodeAuth        = "provider_auth"        // the key is not accepted
	CodeRejected    = "provider_rejected"    // the request is not accepted
	CodeOverflow    = "context_overflow"     // the request is too long for the model
	CodeRateLimited = "rate_limited"         // too many requests
	CodeTruncated   = "stream_truncated"     // the answer broke off
	CodeUnavailable = "provider_unavailable" // the vendor cannot be reached, or is overloaded
	CodeProtocol    = "provider_protocol"    // the answer is not what the format says
)

// longestWait is the longest wait that a vendor may ask for; with a longer one the
// call fails at once and says when it would be welcome.
const longestWait = 120 * time.Second

// fault is what a vendor says went wrong, in a response or within a stream.
type fault struct {
	Status  int    // of HTTP; within a stream the one that the kind stands for
	Kind    string // the vendor's name for it; may be ""
	Message string
	Wait    time.Duration // that the error object asks for; 0: it says nothing
	Header  http.Header   // nil within a stream
}

// refused is the failure that a response other than an event stream stands for.
func (w *wire) refused(res *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(res.Body, maxFault))
	f := parseFault(body)
	f.Header = res.Header
	if res.StatusCode == http.StatusOK {
		if f.Kind != "" { // an error under a status that says otherwise
			f.Status = cmp.Or(f.Status, statusOf(f.Kind))
			return w.failure(f)
		}
		return w.protocol("it answered with %s instead of an event stream", mediaType(res.Header))
	}
	f.Status = res.StatusCode
	if errors.Is(err, errIdle) {
		return w.unreachable(err)
	}
	return w.failure(f)
}

// parseFault reads the error object of a body, which all vendors and those who
// imitate them write alike: {"error": {"type", "code", "message"}}, or {"error":
// "text"}; Google sometimes in a list. Anything else is the message.
func parseFault(text []byte) fault {
	type document struct {
		Error json.RawMessage `json:"error"`
	}
	docs := make([]document, 1)
	if json.Unmarshal(text, &docs[0]) != nil && json.Unmarshal(text, &docs) != nil || len(docs) == 0 || isNull(docs[0].Error) {
		return fault{Message: string(bytes.TrimSpace(text))}
	}
	return parseErrorObject(docs[0].Error)
}

func parseErrorObject(raw json.RawMessage) fault {
	var object struct {
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"`
		Status  string          `json:"status"` // of Google
		Message string          `json:"message"`
		Details []struct {
			RetryDelay string `json:"retryDelay"` // of Google
		} `json:"details"`
	}
	if json.Unmarshal(raw, &object) != nil {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = string(raw)
		}
		return fault{Kind: "error", Message: text}
	}
	f := fault{Kind: cmp.Or(object.Status, object.Type, "error"), Message: object.Message}
	code := strings.Trim(string(object.Code), `"`)
	if status, err := strconv.Atoi(code); err == nil && status >= 400 && status < 600 {
		f.Status = status
	} else if code != "" && code != "null" {
		f.Kind = code // of the two the more exact
	}
	for _, d := range object.Details {
		if wait, err := time.ParseDuration(d.RetryDelay); err == nil {
			f.Wait = max(f.Wait, wait)
		}
	}
	return f
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// statusOf is the status that a kind stands for where there is no other: within a
// stream. What is unknown is taken for a fault of the server.
func statusOf(kind string) int {
	kind = strings.ToLower(kind)
	for _, known := range []struct {
		part   string
		status int
	}{
		{"overloaded", 529},
		{"image", http.StatusBadRequest}, // that is too large, or cannot be read
		{"policy", http.StatusBadRequest},
		{"rate_limit", http.StatusTooManyRequests},
		{"insufficient_quota", http.StatusTooManyRequests},
		{"resource_exhausted", http.StatusTooManyRequests},
		{"timeout", http.StatusGatewayTimeout},
		{"authentication", http.StatusUnauthorized},
		{"invalid_api_key", http.StatusUnauthorized},
		{"permission", http.StatusForbidden},
		{"not_found", http.StatusNotFound},
		{"too_large", http.StatusRequestEntityTooLarge},
		{"billing", http.StatusPaymentRequired},
		{"context_length", http.StatusBadRequest},
		{"invalid", http.StatusBadRequest},
	} {
		if strings.Contains(kind, known.part) {
			return known.status
		}
	}
	return http.StatusInternalServerError
}

// failure says what a fault means for the call.
func (w *wire) failure(f fault) *flow.Error {
	// A refusal is an answer: it has used no tokens. Within a stream some were used.
	e := &flow.Error{Message: w.clean(f.describe(w.vendor)), Answered: f.Header != nil}
	switch {
	case f.overflow():
		e.Code = CodeOverflow
	case f.Status == http.StatusUnauthorized || f.Status == http.StatusForbidden || strings.Contains(f.Message, "API key not valid"):
		e.Code = CodeAuth
		e.Message += ": check the key that api_key names, and what it may use"
	case f.Status == http.StatusTooManyRequests:
		e.Code, e.Retry = CodeRateLimited, true
	case slices.Contains(passing, f.Status):
		e.Code, e.Retry = CodeUnavailable, true
	case f.Status >= 500:
		e.Code = CodeUnavailable
	default:
		e.Code = CodeRejected
	}
	if w.unknownPath != "" && slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented}, f.Status) && f.Header != nil {
		e.Message += ": " + w.unknownPath
	}
	if wait := max(retryAfter(f.Header), f.Wait); e.Retry && wait > longestWait {
		e.Code, e.Retry = CodeRateLimited, false
		at := time.Now().Add(wait).UTC().Truncate(time.Second)
		e.Message += fmt.Sprintf(": it asks to be left alone until %s", at.Format(time.RFC3339))
		e.Detail = flow.JSON(map[string]string{"retry_at": at.Format(time.RFC3339)})
	} else if e.Retry {
		e.After = wait
	}
	return e
}

func (f fault) describe(vendor string) string {
	text := fmt.Sprintf("%s answered %d", vendor, f.Status)
	if f.Header == nil {
		text = vendor + " broke off"
	}
	if f.Kind != "" {
		text += " (" + f.Kind + ")"
	}
	if f.Message != "" {
		text += ": " + f.Message
	}
	return text
}

// passing are states that another attempt may not meet again.
var passing = []int{http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway,
	http.StatusServiceUnavailable, http.StatusGatewayTimeout, 529}

// overflow recognises that a request was too long. Only OpenAI has a code for it;
// of the others the wording is known.
func (f fault) overflow() bool {
	if f.Status == http.StatusRequestEntityTooLarge {
		return true
	}
	if f.Status != http.StatusBadRequest && f.Status != http.StatusUnprocessableEntity {
		return false
	}
	if strings.Contains(f.Kind, "context_length_exceeded") || strings.Contains(f.Kind, "exceed_context_size") {
		return true
	}
	message := strings.ToLower(f.Message)
	return slices.ContainsFunc([]string{
		"prompt is too long",
		"exceed context limit",
		"maximum context length",
		"context_length_exceeded",
		"exceeds the context window",
		"exceeds the available context size",
		"input is too long",
		"exceeds the maximum number of tokens",
	}, func(wording string) bool { return strings.Contains(message, wording) })
}

// retryAfter is the wait that a response asks for, in seconds or until a date.
func retryAfter(h http.Header) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		if !(seconds > 0) {
			return 0
		}
		return time.Duration(min(seconds, 1e9) * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

func (w *wire) redirected(res *http.Response) error {
	to := "elsewhere"
	if res != nil {
		if u, err := res.Location(); err == nil {
			to = "to " + u.Host
		}
	}
	return &flow.Error{Code: CodeRejected, Message: w.clean(fmt.Sprintf("%s redirects %s: redirects are not followed, since they would carry the key along; set base_url to the address that answers", w.host, to))}
}

// unreachable is the failure of a connection, before or within an answer.
func (w *wire) unreachable(err error) *flow.Error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // without the address, which is named below
	}
	var unsent *dialError
	return &flow.Error{Code: CodeUnavailable, Retry: true, NotSent: errors.As(err, &unsent),
		Message: w.clean(fmt.Sprintf("%s at %s: %v", w.vendor, w.host, err))}
}

// truncated is the failure of an answer that broke off.
func (w *wire) truncated(format string, args ...any) *flow.Error {
	return &flow.Error{Code: CodeTruncated, Retry: true, Message: w.clean(w.vendor + " broke off: " + fmt.Sprintf(format, args...))}
}

func (w *wire) protocol(format string, args ...any) *flow.Error {
	return &flow.Error{Code: CodeProtocol, Message: w.clean(fmt.Sprintf("%s at %s: ", w.vendor, w.host) + fmt.Sprintf(format, args...))}
}

const maxMessage = 2 << 10

// clean makes a text fit for messages: without the key, also where a vendor shows
// parts of it, and not too long.
func (w *wire) clean(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if w.key != "" {
		text = strings.ReplaceAll(text, w.key, "[key]")
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n\"'`,", r) })
	for _, word := range words {
		if strings.Contains(word, "***") {
			text = strings.ReplaceAll(text, word, "[key]")
		}
	}
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return text
}

func mediaType(h http.Header) string {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return "an unknown type"
	}
	return kind
}
