package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/cli"
	"github.com/tipstaff/tipstaff/provider"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/workspace"
)

const (
	firstDelta = time.Millisecond // from the vendor's first byte to the terminal

	// thinking is how long the vendor takes before it speaks, as all of them do. By
	// then the chat has caught up with the records of the run, so that the figure has
	// none of that in it.
	thinking = 200 * time.Millisecond
	shown    = 10 * time.Second // by then the first words are lost
)

// measureDelta: how much later the person at the terminal sees what a vendor says.
// The vendor is a server of this process on loopback; between its first byte and
// the write to the terminal lie HTTP, provider, agent, engine, runner, and the
// printer of `tipstaff chat`, as it is. The terminal itself, and the start of the
// command, are not in it.
func measureDelta(ctx context.Context, b *bench) (rows []row, err error) {
	v, err := newVendor()
	if err != nil {
		return nil, err
	}
	defer v.close()
	dir := filepath.Join(b.dir, "delta")
	if err := newWorkspace(dir, fmt.Sprintf("models: {vendor: {provider: anthropic, model: claude-sonnet-4-5, base_url: %q}}\n", v.address())); err != nil {
		return nil, err
	}
	var all []float64
	for range b.starts {
		late, err := v.chat(ctx, dir)
		if err != nil {
			return nil, err
		}
		all = append(all, late.Seconds())
	}
	mid := median(all)
	return []row{{figure: "from a vendor's first byte to the first words in `tipstaff chat`", value: mid, measured: fmt.Sprintf("%.0f µs", mid*1e6),
		beside: fmt.Sprintf("median of %d; fastest %.0f µs; in one process, HTTP on loopback", len(all), all[0]*1e6), // median sorted them
		bound:  goal("< "+milliseconds(firstDelta), mid < firstDelta.Seconds())}}, nil
}

// What the vendor says, in the format of its messages: what leads up to the first
// words comes with them, as one write.
const (
	firstWords = "All is well, "
	lastWords  = "and so it stays."

	opening = `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"claude-sonnet-4-5","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + firstWords + `"}}

`
	closing = `event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + lastWords + `"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":9}}

event: message_stop
data: {"type":"message_stop"}

`
)

// vendor answers one chat at a time. It goes on only when its first words were
// seen, so that they cannot have come with the rest.
type vendor struct {
	listener net.Listener
	server   http.Server

	mu      sync.Mutex
	looking *terminal
	began   time.Time // to speak
}

func newVendor() (*vendor, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	v := &vendor{listener: l}
	v.server.Handler = v
	go v.server.Serve(l) // until it is closed
	return v, nil
}

func (v *vendor) address() string { return "http://" + v.listener.Addr().String() }
func (v *vendor) close()          { _ = v.server.Close() } // nobody waits for an answer any more

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return // the chat reports it
	}
	time.Sleep(thinking)
	w.Header().Set("Content-Type", "text/event-stream")
	v.mu.Lock()
	seen := v.looking.seen
	v.began = time.Now()
	v.mu.Unlock()
	io.WriteString(w, opening)
	w.(http.Flusher).Flush()
	select {
	case <-seen:
	case <-r.Context().Done():
		return
	case <-time.After(shown):
	}
	io.WriteString(w, closing)
}

// chat takes a turn as the command does, and returns how long the first words were
// on their way.
func (v *vendor) chat(ctx context.Context, dir string) (time.Duration, error) {
	t := &terminal{seen: make(chan struct{})}
	v.mu.Lock()
	v.looking = t
	v.mu.Unlock()
	var talk bytes.Buffer
	env := &cli.Env{Stdin: strings.NewReader(""), Stdout: t, Stderr: &talk, StdinTTY: true, StdoutTTY: true, StderrTTY: true,
		Open: func(ctx context.Context, _ cli.OpenOptions) (cli.Session, error) {
			w, err := openWorkspace(ctx, dir, nil)
			return session{w}, err
		}}
	code := cli.Main(ctx, []string{"chat", "How are things?", "--approve", "park", "--workspace", dir}, env)
	v.mu.Lock()
	defer v.mu.Unlock()
	if code != 0 || !strings.Contains(t.text.String(), firstWords+lastWords) {
		return 0, fmt.Errorf("the chat ended with %d, and printed %q: %s", code, &t.text, &talk)
	}
	late := t.at.Sub(v.began)
	if late >= shown {
		return 0, fmt.Errorf("the first words were shown with the last, %s late", late)
	}
	return late, nil
}

// terminal notes when the first words reach it. One goroutine writes to it.
type terminal struct {
	text bytes.Buffer
	at   time.Time
	seen chan struct{} // closed then
}

func (t *terminal) Write(p []byte) (int, error) {
	if t.at.IsZero() && bytes.Contains(p, []byte(firstWords)) {
		t.at = time.Now()
		close(t.seen)
	}
	return t.text.Write(p)
}

// session is a workspace as the command line knows it.
type session struct{ *instance }

func (s session) Service() tipstaff.Service          { return s.Runner }
func (s session) Changed() (<-chan struct{}, func()) { return s.Runner.Changed() }
func (s session) Page() string                       { return "" }
func (s session) Memory() tipstaff.Memory            { return runner.Memory{Runner: s.Runner} }
func (s session) Sessions() tipstaff.Sessions        { return nil }
func (s session) Tasks() tipstaff.Tasks              { return nil }
func (s session) Exit(int, error) error              { return nil }
func (s session) Close() error                       { return s.close() }

// Attach is for pipelines, which are not measured through the command line.
func (s session) Attach(tipstaff.ID, []string, func(string)) (cli.Attached, error) {
	return cli.Attached{}, errors.ErrUnsupported
}

// models are those of vendors.
func models(c workspace.Model, _ workspace.File) (agent.Model, error) {
	return provider.Open(provider.Config{Provider: c.Provider, Model: c.Model, APIKey: c.APIKey, BaseURL: c.BaseURL})
}
