package grpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/tipstaff/tipstaff/pb"
	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// daemon is `tipstaff serve` over a workspace.
type daemon struct {
	t     testing.TB
	dir   string
	addr  string
	site  string // the address of HTTP
	token string
	taken int // runs that it took up again

	cmd *exec.Cmd
	log *bytes.Buffer // its standard error, whole when it has ended
}

// pipelines that clients of a daemon can name. The second is the first with time to
// disturb it.
var pipelines = map[string]string{
	"loop": `
name: loop
max_iterations: 3
agents:
  - {name: intent, stage_order: 1, default_next: critic, scripted: {repeat: last, answers: [{output: {task: "say it"}, usage: {llm_calls: 1, tokens_in: 10}}]}}
  - {name: critic, stage_order: 2, routing_rules: [{when: "iteration < 2", target: intent}], scripted: {repeat: last, answers: [{output: {verdict: again}}]}}
`,
	"slow": `
name: slow
max_iterations: 8
agents:
  - {name: intent, stage_order: 1, default_next: critic, scripted: {repeat: last, answers: [{output: {task: "say it"}, delay_ms: 40}]}}
  - {name: critic, stage_order: 2, routing_rules: [{when: "iteration < 8", target: intent}], scripted: {repeat: last, answers: [{output: {verdict: again}, delay_ms: 40}]}}
`,
	"asking": `
name: asking
agents:
  - {name: ask, scripted: {answers: [{output: {}, control: {interrupt: {kind: confirmation, question: "Shall it?"}}}, {output: {}}]}}
`,
	"stuck": `
name: stuck
agents:
  - {name: waiting, timeout_seconds: 60, scripted: {answers: [{hang: true}]}}
`,
}

// turnsOfSlow is how often each stage of the slow pipeline runs.
const turnsOfSlow = 9

// serve starts a daemon over a new workspace.
func serve(t *testing.T) *daemon {
	t.Helper()
	dir := t.TempDir()
	for name, text := range pipelines {
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := &daemon{t: t, dir: dir}
	d.start()
	t.Cleanup(d.end)
	return d
}

// start waits for the line by which the daemon says that it listens.
func (d *daemon) start() {
	d.t.Helper()
	tipstaff, err := cmdtest.Command()
	if err != nil {
		d.t.Fatal(err)
	}
	d.log = new(bytes.Buffer)
	d.cmd = exec.Command(tipstaff, "serve", "--json", "--workspace", d.dir, "--grpc-addr", "127.0.0.1:0", "--addr", "127.0.0.1:0", "--pipelines", d.dir, "--default-pipeline", "loop")
	d.cmd.Stderr = d.log
	out, err := d.cmd.StdoutPipe()
	if err == nil {
		err = d.cmd.Start()
	}
	if err != nil {
		d.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var told struct {
		Addr  string `json:"grpc_addr"`
		Site  string `json:"addr"`
		File  string `json:"token_file"`
		Taken int    `json:"taken_up"`
	}
	if err == nil {
		err = json.Unmarshal(line, &told)
	}
	if err != nil {
		d.t.Fatalf("the daemon says %q: %v\n%s", line, err, d.log)
	}
	token, err := os.ReadFile(told.File)
	if err != nil {
		d.t.Fatal(err)
	}
	d.addr, d.site, d.token, d.taken = told.Addr, told.Site, strings.TrimSpace(string(token)), told.Taken
}

// kill leaves the daemon no time for anything.
func (d *daemon) kill() {
	d.t.Helper()
	if err := d.cmd.Process.Kill(); err != nil {
		d.t.Fatal(err)
	}
	_ = d.cmd.Wait() // it was killed, and that is what it says
	d.cmd = nil
}

// terminate stops the daemon in good order.
func (d *daemon) terminate() {
	d.t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		d.t.Fatal(err)
	}
	if err := d.cmd.Wait(); err != nil { // a race that was found is an exit code too
		d.t.Errorf("the daemon ended with %v\n%s", err, d.log)
	}
	d.cmd = nil
}

// end stops a daemon that still serves.
func (d *daemon) end() {
	if d.cmd != nil {
		d.terminate()
	}
}

// run has the command do something in the workspace.
func (d *daemon) run(args ...string) (string, error) {
	d.t.Helper()
	tipstaff, err := cmdtest.Released()
	if err != nil {
		d.t.Fatal(err)
	}
	out, err := exec.Command(tipstaff, append(args, "--workspace", d.dir)...).CombinedOutput()
	return string(out), err
}

func (d *daemon) authorization() string { return "Bearer " + d.token }

// client calls the daemon, at an address that leads there.
func (d *daemon) client(addr string, more ...grpc.DialOption) *client {
	d.t.Helper()
	conn, err := grpc.NewClient(addr, append(more, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { conn.Close() })
	return &client{pb.NewCoreServiceClient(conn), d}
}

type client struct {
	pb.CoreServiceClient
	d *daemon
}

// ctx is one of a call that should not take a minute.
func (c *client) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	c.d.t.Cleanup(cancel)
	return metadata.AppendToOutgoingContext(ctx, "authorization", c.d.authorization())
}

// create makes a draft of a pipeline.
func (c *client) create(pipeline string) *pb.Envelope {
	c.d.t.Helper()
	env, err := c.CreateEnvelope(c.ctx(), &pb.CreateEnvelopeRequest{RawInput: "hello", Pipeline: named(pipeline)})
	if err != nil {
		c.d.t.Fatal(err)
	}
	return env
}

func named(pipeline string) *pb.PipelineConfig {
	return &pb.PipelineConfig{Source: &pb.PipelineConfig_Name{Name: pipeline}}
}

func (c *client) execute(ctx context.Context, env *pb.Envelope) *tape {
	c.d.t.Helper()
	stream, err := c.ExecutePipeline(ctx, &pb.ExecuteRequest{Envelope: &pb.Envelope{EnvelopeId: env.EnvelopeId}})
	if err != nil {
		c.d.t.Fatal(err)
	}
	return &tape{stream: stream}
}

// watch reads what comes after a seq.
func (c *client) watch(env *pb.Envelope, after int64) *tape {
	c.d.t.Helper()
	ref := &pb.RunRef{Ref: &pb.RunRef_EnvelopeId{EnvelopeId: env.EnvelopeId}}
	stream, err := c.Watch(c.ctx(), &pb.WatchRequest{Ref: ref, AfterSeq: after, Follow: true})
	if err != nil {
		c.d.t.Fatal(err)
	}
	return &tape{stream: stream}
}

// tape is what came by a stream.
type tape struct {
	stream interface {
		Recv() (*pb.ExecutionEvent, error)
		Trailer() metadata.MD
	}
	events []*pb.ExecutionEvent
}

// next reads some events; fewer, if the stream ends.
func (p *tape) next(n int) error {
	for range n {
		e, err := p.stream.Recv()
		if err != nil {
			return err
		}
		p.events = append(p.events, e)
	}
	return nil
}

// rest reads to the end of the stream; nil: a good one.
func (p *tape) rest() error {
	for {
		if err := p.next(1); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (p *tape) last() int64 {
	if len(p.events) == 0 {
		return 0
	}
	return p.events[len(p.events)-1].Seq
}

// story is what events tell, one a line.
func story(events ...*pb.ExecutionEvent) []string {
	lines := make([]string, len(events))
	for i, e := range events {
		lines[i] = fmt.Sprint(e.Seq, " ", e.Type, " ", e.Stage, " ", string(e.Payload))
	}
	return lines
}

// finished are the ends of stages, as stage#visit.
func finished(t testing.TB, events []*pb.ExecutionEvent) (ends []string) {
	t.Helper()
	for _, e := range events {
		if e.Type != pb.ExecutionEvent_STAGE_COMPLETED {
			continue
		}
		var b struct {
			Visit int `json:"visit"`
		}
		if err := json.Unmarshal(e.Payload, &b); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, fmt.Sprintf("%s#%d", e.Stage, b.Visit))
	}
	return ends
}
