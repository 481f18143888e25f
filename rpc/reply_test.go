package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

// limit is what clients take of a trailer, with room for its other fields.
const limit = 6 << 10

func problems(n int, text string) (all []tipstaff.Problem) {
	for i := range n {
		all = append(all, tipstaff.Problem{Code: "field_unknown", Path: "agents[" + fmt.Sprint(i) + "]." + text, File: "/srv/work/p.yaml", Line: i + 1, Column: 2, Message: fmt.Sprintf("unknown field %q", text)})
	}
	return all
}

// Whatever an error has to say, it fits into the headers that clients take: the reason
// always, and of the rest what there is room for.
func TestErrorsFitIntoTheTrailer(t *testing.T) {
	s := New(nil, nil, Options{Folders: []string{"/srv/work"}})
	long := strings.Repeat("k", 100_000)
	for name, e := range map[string]*tipstaff.Error{
		"many problems":        {Code: tipstaff.InvalidProgram, Message: "the pipeline is not valid", Problems: problems(5000, "x")},
		"long problems":        {Code: tipstaff.InvalidProgram, Message: "the pipeline is not valid", Problems: problems(5000, long)},
		"problems in Persian":  {Code: tipstaff.InvalidProgram, Message: strings.Repeat("سلام ", 20_000), Problems: problems(30, strings.Repeat("سلام ", 1000))},
		"one long word":        tipstaff.Errorf(tipstaff.RunNotFound, "%s", long),
		"a long quotation":     tipstaff.Errorf(tipstaff.RunNotFound, "there is no thread %q", strings.Repeat("a b ", 30_000)),
		"many words":           tipstaff.Errorf(tipstaff.RunNotFound, "%s", strings.Repeat("word ", 30_000)),
		"emoji":                tipstaff.Errorf(tipstaff.RunNotFound, "%s", strings.Repeat("🙂", 30_000)).WithHint("%s", strings.Repeat("🙂 ", 3000)),
		"what is not UTF-8":    tipstaff.Errorf(tipstaff.RunNotFound, "%s", strings.Repeat("\xff", 9000)),
		"escapes in quotation": tipstaff.Errorf(tipstaff.RunNotFound, "%q", strings.Repeat("\"\\", 9000)),
	} {
		for what, err := range map[string]error{"plain": s.status(context.Background(), e), "whole": s.withError(context.Background(), e)} {
			st := status.Convert(err)
			if n := sentSize(st); n > limit {
				t.Errorf("%s, %s: it takes %d bytes", name, what, n)
			}
			if info, ok := st.Details()[0].(*errdetails.ErrorInfo); !ok || info.Reason != string(e.Code) {
				t.Errorf("%s, %s: the details begin with %v", name, what, st.Details()[0])
			}
			if strings.Contains(err.Error(), strings.Repeat("k", 101)) {
				t.Errorf("%s, %s: what was sent comes back in full", name, what)
			}
		}
	}
}

func TestProblemsThatAreNotShownAreCounted(t *testing.T) {
	s := New(nil, nil, Options{Folders: []string{"/srv/work"}})
	for n, last := range map[int]string{1: "1:2: field_unknown", 20: "20:2: field_unknown", 21: "more: 1 more problem", 5000: "more: 4980 more problem"} {
		err := s.status(context.Background(), &tipstaff.Error{Code: tipstaff.InvalidProgram, Message: "the pipeline /srv/work/p.yaml is not valid", Problems: problems(n, "x")})
		bad := status.Convert(err).Details()[1].(*errdetails.BadRequest).FieldViolations
		if len(bad) != min(n, 21) || !strings.HasPrefix(bad[len(bad)-1].Description, last) {
			t.Errorf("of %d problems there are told %d, the last: %v", n, len(bad), bad[len(bad)-1])
		}
		if strings.Contains(err.Error(), "/srv/work") || !strings.Contains(err.Error(), "the pipeline p.yaml is") {
			t.Errorf("the server's folder is told: %v", err)
		}
	}
	// Where 20 do not fit, fewer are told, and the number is still right.
	err := s.withError(context.Background(), &tipstaff.Error{Code: tipstaff.InvalidProgram, Problems: problems(100, strings.Repeat("word ", 50))})
	bad := status.Convert(err).Details()[1].(*errdetails.BadRequest).FieldViolations
	if want := fmt.Sprintf("more: %d more", 100-len(bad)+1); len(bad) > 20 || len(bad) < 5 || !strings.HasPrefix(bad[len(bad)-1].Description, want) {
		t.Errorf("%d are told, the last: %v", len(bad), bad[len(bad)-1])
	}
}

// Advice about commands is for the command line: other clients have none.
func TestCommandsAreToldToTheCommandLineAlone(t *testing.T) {
	s := New(nil, nil, Options{})
	e := tipstaff.Errorf(tipstaff.GateNotFound, "there is no such gate").WithHint("it has two others").WithCommand("`tipstaff show` lists them")
	for client, told := range map[string]bool{"tipstaff/1.0 grpc-go/1.85.0": true, "grpcurl/1.9": false, "": false} {
		ctx := tipstaff.WithCaller(context.Background(), tipstaff.Caller{Client: client})
		var whole string
		for _, d := range status.Convert(s.withError(ctx, e)).Details() {
			if text, ok := d.(*pb.Json); ok {
				whole = string(text.Value)
			}
		}
		if strings.Contains(whole, "tipstaff show") != told || !strings.Contains(whole, "it has two others") {
			t.Errorf("%q is told %s", client, whole)
		}
		if err := s.status(ctx, e); strings.Contains(err.Error(), "tipstaff show") {
			t.Errorf("%q is told %v", client, err)
		}
	}
}

// commandWords are how advice betrays that it is for the command line.
var commandWords = regexp.MustCompile("`tipstaff |\\btipstaff [a-z]+ |--[a-z]|\\.tipstaff|TIPSTAFF_|the command")

// No package that clients can reach gives advice about commands to everybody.
func TestHintsNameNoCommands(t *testing.T) {
	own := map[string]bool{"cli": true, "cmd": true, "test": true, "examples": true, "client.go": true, ".cache": true, ".git": true}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case own[d.Name()] && d.IsDir():
			return filepath.SkipDir
		case own[d.Name()] || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			var hint ast.Expr
			switch n := n.(type) {
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "WithHint" {
					hint = n.Args[0]
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Hint" {
					hint = n.Value
				}
			}
			if text, ok := hint.(*ast.BasicLit); ok && commandWords.MatchString(text.Value) {
				t.Errorf("%s: %s is for the command line: use WithCommand", path, text.Value)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A fault of ours has a number that the client sees and the log explains.
func TestInternalErrorsAreFoundInTheLog(t *testing.T) {
	var log bytes.Buffer
	s := New(nil, nil, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	err := s.status(context.Background(), errors.New("the very cause"))
	_, id, found := strings.Cut(err.Error(), "as error ")
	if !found || !strings.Contains(log.String(), id) || !strings.Contains(log.String(), "the very cause") {
		t.Errorf("the client is told %v, the log\n%s", err, log.String())
	}
}

// What breaks because the server goes down can be asked for again, whatever it looks like
// from the inside; what the request has wrong, the caller is told all the same.
func TestWhatShuttingDownBreaksIsUnavailable(t *testing.T) {
	s := New(nil, nil, Options{})
	s.quiesce()
	for err, want := range map[error]codes.Code{
		errors.New("sql: database is closed"): codes.Unavailable,
		context.Canceled:                      codes.Unavailable,
		&tipstaff.Error{Code: tipstaff.Internal, Err: context.Canceled}: codes.Unavailable,
		tipstaff.Errorf(tipstaff.WrongState, "it was interrupted"):      codes.Unavailable,
		tipstaff.Errorf(tipstaff.LeaseLost, "it was released"):          codes.Unavailable,
		status.Error(codes.Unavailable, "transport is closing"):         codes.Unavailable,
		tipstaff.Errorf(tipstaff.InvalidArgument, "no"):                 codes.InvalidArgument,
		tipstaff.Errorf(tipstaff.Forbidden, "no"):                       codes.PermissionDenied,
		tipstaff.Errorf(tipstaff.Integrity, "no"):                       codes.DataLoss,
	} {
		for _, got := range []error{s.status(context.Background(), err), s.withError(context.Background(), err)} {
			st := status.Convert(got)
			if info, ok := st.Details()[0].(*errdetails.ErrorInfo); st.Code() != want || !ok || want == codes.Unavailable && info.Reason != "shutting_down" {
				t.Errorf("%v is told as %v %v", err, got, st.Details())
			}
		}
	}
}
