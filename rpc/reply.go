package rpc

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

// domain is that of the ErrorInfo of every error; its reason is the code.
const domain = "tipstaff"

// commandLine is how the command line calls itself.
const commandLine = "tipstaff/"

// reply is the status of an error as its caller may see it. It travels in the trailer, and
// clients take no more than 8 KiB of headers: to those who get more the call has failed for
// an unknown reason. whole adds all that the error says, for clients that know its type.
func (s *Server) reply(ctx context.Context, e *tipstaff.Error, code codes.Code, whole bool) error {
	var st *status.Status
	asks := strings.HasPrefix(tipstaff.CallerFrom(ctx).Client, commandLine)
	e.Reply(s.o.Folders, asks, func(e *tipstaff.Error) bool {
		st = detailed(e, code, whole)
		return sentSize(st) <= tipstaff.MaxReply
	})
	return st.Err()
}

func detailed(e *tipstaff.Error, code codes.Code, whole bool) *status.Status {
	message := e.Message
	if e.Hint != "" {
		message += " (" + e.Hint + ")"
	}
	info := &errdetails.ErrorInfo{Domain: domain, Reason: string(e.Code), Metadata: map[string]string{}}
	if !e.Run.IsZero() {
		info.Metadata["run_id"] = e.Run.String()
	}
	details := []protoadapt.MessageV1{info}
	if len(e.Problems) > 0 { // each with its place; its code is the reason of the violation
		bad := new(errdetails.BadRequest)
		for _, p := range e.Problems {
			text := p.Code + ": " + p.Message
			if p.Line > 0 {
				text = fmt.Sprintf("%d:%d: %s", p.Line, p.Column, text)
			}
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: p.Path, Description: text, Reason: p.Code})
		}
		details = append(details, bad)
	}
	if whole {
		if text, err := json.Marshal(e); err == nil {
			details = append(details, &pb.Json{Value: text})
		}
	}
	st := status.New(code, message)
	if with, err := st.WithDetails(details...); err == nil {
		st = with
	}
	return st
}

// sentSize is what a status takes of a trailer: the message, with escapes, and all of it
// once more in base64.
func sentSize(st *status.Status) int {
	n := base64.StdEncoding.EncodedLen(proto.Size(st.Proto()))
	for _, b := range []byte(st.Message()) {
		if b < ' ' || b > '~' || b == '%' {
			n += 2
		}
		n++
	}
	return n
}
