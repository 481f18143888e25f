package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff"
)

// errorReply is what a tool answers that could not do what it was asked to.
type errorReply struct {
	Error toolError `json:"error"`
}

// toolError is the error of every surface, with whether and how to go on.
type toolError struct {
	Code      tipstaff.Code       `json:"code"`
	Message   string              `json:"message"`
	Hint      string              `json:"hint,omitempty"`
	Retryable bool                `json:"retryable"`
	Run       tipstaff.ID         `json:"run_id,omitzero"`
	Problems  []tipstaff.Problem  `json:"problems"`
	Total     int                 `json:"total,omitempty"` // of the problems, where some are left out
	Details   map[string]string   `json:"details"`
	Next      []tipstaff.NextCall `json:"next"`
}

// mostErrorText is how long the text of an error may be, in bytes.
const mostErrorText = 2 << 10

// text is the error in words: many clients show a model nothing else. Of what does not fit, the
// last problems are left out first.
func (t toolError) text() string {
	problems := []string{}
	for _, p := range t.Problems {
		problems = append(problems, tipstaff.Printable(p.String()))
	}
	after := []string{}
	if t.Hint != "" {
		after = append(after, "hint: "+t.Hint)
	}
	for _, n := range t.Next {
		after = append(after, nextText(n))
	}
	for shown := len(problems); ; shown-- {
		lines := append([]string{t.Message, "code: " + string(t.Code)}, problems[:shown]...)
		if shown < len(problems) {
			lines = append(lines, fmt.Sprintf("%d more problems", len(problems)-shown))
		}
		text := strings.Join(append(lines, after...), "\n")
		if len(text) <= mostErrorText {
			return text
		}
		if shown == 0 {
			return strings.ToValidUTF8(text[:mostErrorText], "")
		}
	}
}

// nextText is a next call on a line.
func nextText(n tipstaff.NextCall) string {
	if n.Kind == tipstaff.PersonCall {
		return "next: a person runs " + n.Command
	}
	args, _ := json.Marshal(n.Args) // ids and numbers can be written
	return fmt.Sprintf("next: %s %s (%s)", n.Tool, args, n.Why)
}

// invalidArguments is what is wrong with the arguments of a call, as whoever checked them
// says it.
func invalidArguments(err error) error {
	var typed *tipstaff.Error
	if errors.As(err, &typed) {
		return typed
	}
	return tipstaff.Errorf(tipstaff.InvalidArgument, "the arguments do not fit: %s", inWords.Replace(err.Error()))
}

// inWords takes the names of schemas out of what their library says.
var inWords = strings.NewReplacer("validating root: ", "", "validating /properties/", "", "/properties/", ".", "json: ", "")

// errors makes the typed error of every error. One of a tool is a result, so that models see
// it; one of another request is an error of the protocol, with the same in its data.
func (s *Server) errors(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := surviving(func() (mcp.Result, error) { return next(ctx, method, req) })
		var wire *jsonrpc.Error
		if err == nil || errors.As(err, &wire) {
			return res, err
		}
		if method == "tools/call" {
			return s.failed(ctx, err)
		}
		reply := s.reply(ctx, method, err)
		text, merr := json.Marshal(reply)
		if merr != nil {
			return nil, merr
		}
		code := int64(jsonrpc.CodeInvalidParams)
		if reply.Error.Code == tipstaff.Internal {
			code = jsonrpc.CodeInternalError
		}
		return nil, &jsonrpc.Error{Code: code, Message: reply.Error.Message, Data: text}
	}
}

// surviving does what f does. A fault of ours fails one request, and not all of them.
func surviving[T any](f func() (T, error)) (res T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// failed is what a tool answers that could not do what it was asked to.
func (s *Server) failed(ctx context.Context, err error) (*mcp.CallToolResult, error) {
	reply := s.reply(ctx, "tools/call", err)
	text, err := json.Marshal(reply)
	return &mcp.CallToolResult{IsError: true, StructuredContent: json.RawMessage(text), Content: []mcp.Content{&mcp.TextContent{Text: reply.Error.text()}}}, err
}

// reply is an error as a client sees it. The text of one that nobody expected stays in the log.
func (s *Server) reply(ctx context.Context, method string, err error) errorReply {
	var e *tipstaff.Error
	switch {
	case errors.As(err, &e):
	case errors.Is(err, context.Canceled), ctx.Err() != nil && errors.Is(err, context.Cause(ctx)): // or the client has gone
		e = tipstaff.Errorf(tipstaff.CallCancelled, "the call was cancelled")
	case errors.Is(err, context.DeadlineExceeded):
		e = tipstaff.Errorf(tipstaff.DeadlineExceeded, "the call took too long")
	default:
		e = tipstaff.Errorf(tipstaff.Internal, "something went wrong inside of Tipstaff; its log says what")
		e.Err = err
	}
	if e.Code == tipstaff.Internal {
		s.o.Log.ErrorContext(ctx, "a call has failed", "method", method, "error", err.Error())
	}
	next := e.Next()
	r := e.Reply(s.o.Folders, false, func(e *tipstaff.Error) bool {
		text, err := json.Marshal(errorReply{replyOf(e, next)})
		return err != nil || len(text)+len(e.Message) <= tipstaff.MaxReply
	})
	reply := errorReply{replyOf(r, next)}
	if len(reply.Error.Problems) < len(e.Problems) {
		reply.Error.Total = len(e.Problems)
	}
	return reply
}

func replyOf(e *tipstaff.Error, next []tipstaff.NextCall) toolError {
	t := toolError{Code: e.Code, Message: e.Message, Hint: e.Hint, Retryable: e.Retryable(), Run: e.Run, Problems: e.Problems, Details: e.Details, Next: next}
	if t.Problems == nil {
		t.Problems = []tipstaff.Problem{}
	}
	if t.Details == nil {
		t.Details = map[string]string{}
	}
	return t
}
