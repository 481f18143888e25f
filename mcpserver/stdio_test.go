package mcpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
)

// noisy is a Service that prints whatever it is asked.
type noisy struct{ fake }

func (n *noisy) Get(ctx context.Context, id tipstaff.ID) (tipstaff.Run, error) {
	fmt.Println("a line that somebody left in the code")
	fmt.Fprint(os.Stdout, "half a line")
	return n.fake.Get(ctx, id)
}

func (n *noisy) Validate(context.Context, tipstaff.ValidateRequest) (tipstaff.Validated, error) {
	panic("nobody checks programs here")
}

// TestMain makes this binary a server whose code prints, where it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "serve-noisily" {
		out, err := TakeStdout()
		if err == nil {
			fmt.Println("before anything is served")
			s := New(Options{Control: tipstaff.Control{Runs: new(noisy), Now: time.Now}})
			err = s.Stdio(context.Background(), os.Stdin, out)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Whatever a process prints, its client reads messages and nothing else; and it ends in good
// order when there is nobody to ask any more, though a call has no answer yet.
func TestOnlyMessagesAreWritten(t *testing.T) {
	server := exec.CommandContext(t.Context(), os.Args[0], "serve-noisily")
	in, err := server.StdinPipe()
	must(t, err)
	out, err := server.StdoutPipe()
	must(t, err)
	must(t, server.Start())
	asked := 0
	ask := func(method string, params any) {
		asked++
		line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": asked, "method": method, "params": params})
		must(t, err)
		_, err = in.Write(append(line, '\n'))
		must(t, err)
	}
	ask("initialize", map[string]any{"protocolVersion": oldest, "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "t", "version": "1"}})
	for name := range hinted {
		ask("tools/call", map[string]any{"name": name, "arguments": valid(name)})
	}
	must(t, in.Close()) // what was asked is answered all the same
	answered := map[float64]bool{}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var message struct {
			JSONRPC string `json:"jsonrpc"`
			ID      float64
		}
		if err := json.Unmarshal(lines.Bytes(), &message); err != nil || message.JSONRPC != "2.0" {
			t.Errorf("this is no message: %s", lines.Text())
		}
		answered[message.ID] = true
	}
	if err := server.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
	if len(answered) != asked {
		t.Errorf("%d of %d requests were answered", len(answered), asked)
	}
}
