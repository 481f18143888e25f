package rpc

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

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

// What an error may say. It travels in the trailer, and clients take no more than 8 KiB
// of headers: to those who get more the call has failed for an unknown reason.
const (
	maxReply     = 6 << 10 // bytes of a status as it is sent, its message and its details
	maxProblems  = 20
	maxErrorText = 1000 // characters
	maxProblem   = 300  // characters of a problem's message
	maxQuoted    = 100  // characters of what the client itself has sent
	longWord     = 160  // characters of what nobody has written by hand
)

// commandLine is how the command line calls itself.
const commandLine = "tipstaff/"

// failure is an error on its way to a client.
type failure struct {
	tipstaff.Error
	left int // problems that are not told
}

// failure is an error as its caller may see it: without the folders of this machine,
// without advice for another surface, and no longer than anybody reads.
func (s *Server) failure(ctx context.Context, e *tipstaff.Error) *failure {
	f := &failure{Error: tipstaff.Error{Code: e.Code, Run: e.Run, Message: s.shorten(e.Error(), maxErrorText), Hint: s.shorten(e.Hint, maxProblem)}}
	if strings.HasPrefix(tipstaff.CallerFrom(ctx).Client, commandLine) {
		f.Command = s.shorten(e.Command, maxProblem)
	}
	for _, p := range e.Problems[:min(len(e.Problems), maxProblems)] {
		p.Path, p.File, p.Message = s.shorten(p.Path, maxProblem), s.shorten(p.File, maxProblem), s.shorten(p.Message, maxProblem)
		f.Problems = append(f.Problems, p)
	}
	f.left = len(e.Problems) - len(f.Problems)
	return f
}

// status is that of a failure; whole adds all that it says, for clients that know its
// type. Of what does not fit, the last problems go first.
func (f *failure) status(code codes.Code, whole bool) error {
	for {
		st := f.detailed(code, whole)
		if sentSize(st) <= maxReply {
			return st.Err()
		}
		switch n := len(f.Problems); {
		case n > 0:
			f.Problems, f.left = f.Problems[:n-1], f.left+1
		case f.Hint != "" || f.Command != "":
			f.Hint, f.Command = "", ""
		default:
			f.Message = cut(f.Message, utf8.RuneCountInString(f.Message)/2)
		}
	}
}

// told are the problems, and how many are not among them.
func (f *failure) told() []tipstaff.Problem {
	if f.left == 0 {
		return f.Problems
	}
	return append(slices.Clip(f.Problems), tipstaff.Problem{Code: "more", Message: fmt.Sprintf("%d more problems are not shown", f.left)})
}

func (f *failure) detailed(code codes.Code, whole bool) *status.Status {
	e := f.Error
	e.Problems = f.told()
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
		if text, err := json.Marshal(&e); err == nil {
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

// shorten is a text as clients may see it, with at most so many characters.
func (s *Server) shorten(text string, most int) string {
	for _, dir := range s.o.Folders {
		text = strings.ReplaceAll(strings.ReplaceAll(text, dir+"/", ""), dir, ".")
	}
	text = quoted.ReplaceAllStringFunc(strings.ToValidUTF8(text, "\uFFFD"), func(q string) string { return `"` + cut(q[1:len(q)-1], maxQuoted) + `"` })
	return cut(cutWords(text), most)
}

// quoted is what stands in quotation marks.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// cutWords shortens what has no end: a key, a name, a path that somebody sent.
func cutWords(text string) string {
	if len(text) <= longWord {
		return text
	}
	words := strings.Split(text, " ")
	for i, word := range words {
		if utf8.RuneCountInString(word) > longWord {
			words[i] = cut(word, maxQuoted)
		}
	}
	return strings.Join(words, " ")
}

// cut is the first so many characters of a text, and a sign where there were more.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	n := 0
	for at := range text {
		if n == most {
			return text[:at] + "…"
		}
		n++
	}
	return text
}
