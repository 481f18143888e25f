package mcp

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// turns adds an agent to a manifest that declares server-everything. It echoes and
// adds at once, works for a while when it is allowed to, and says so.
const turns = `models:
  rehearsed: {provider: scripted, script: script.yaml}
agents:
  default:
    model: rehearsed
    tools: [mcp://everything/echo@2.0.0, mcp://everything/get-sum@2.0.0, mcp://everything/trigger-long-running-operation@2.0.0]
policy: {rules: [{id: reads, tool: "everything/*", effect: read, do: allow}]}
`

const turnFiles = `-- script.yaml --
version: 1
answers:
  - {text: "I try both first.", chunks: 4, calls: [{tool: everything/echo, args: {message: hello}}, {tool: everything/get-sum, args: {a: 1, b: 2}}]}
  - {text: "Now the work.", calls: [{tool: everything/trigger-long-running-operation, args: {duration: 0.4, steps: 4}}]}
  - {calls: [{tool: everything/echo, args: {message: done}}]}
  - {text: "It is done.", chunks: 3}
-- turn.json --
{"kind": "turn", "message": "Do the work."}
`

// worked is what the server says when the work is done.
const worked = `{"content":[{"type":"text","text":"Long running operation completed. Duration: 0.4 seconds, Steps: 4."}]}`

// turned is what a turn leaves that any other run of it leaves, too.
type turned struct {
	head   string              // of the conversation
	events map[string][]string // kinds, by path
	model  []string            // paths of recorded answers
}

func newTurn(t *testing.T) *workspace {
	t.Helper()
	w := newWorkspace(t)
	w.declare(w.listening(everything))
	declared := w.Read("tipstaff.yaml")
	for tool, class := range map[string]string{"echo": "read", "get-sum": "read", "trigger-long-running-operation": "once"} {
		declared = strings.Replace(declared, tool+": {}", tool+": {effect: "+class+"}", 1)
	}
	w.Write("tipstaff.yaml", declared+turns)
	w.files(turnFiles).pin()
	w.Write("received", "")
	return w
}

// finish brings the turn to its end. Of work whose end nobody saw the server's own
// account tells whether it was asked for.
func (w *workspace) finish() {
	w.Helper()
	for range 6 {
		s := w.show()
		for _, g := range s.OpenGates {
			how := []string{"allow"}
			if strings.Contains(g.Key, "/in_doubt") {
				how = []string{"retry"}
				if w.worked() > 0 {
					how = []string{"use_result", "--answer", worked}
				}
			}
			w.Must(0, append([]string{"decide", "@", g.Key}, how...)...)
		}
		if s.State == "completed" {
			return
		}
		p := w.Start("resume", "@", "--unattended")
		<-p.Ended
		if code := p.Cmd.ProcessState.ExitCode(); code != 0 && code != 4 {
			p.Must(0)
		}
	}
	w.Fatal("six times taken up, and the turn has not ended")
}

// worked is how often the server was asked to work.
func (w *workspace) worked() int {
	return strings.Count(w.Read("received"), `"name":"trigger-long-running-operation"`)
}

// turned checks the newest run, and says what it left.
func (w *workspace) turned() turned {
	w.Helper()
	w.Must(0, "verify", "@")
	w.Must(0, "replay", "@")
	w.noServers()
	if n := w.worked(); n != 1 {
		w.Errorf("the server was asked to work %d times", n)
	}
	out := turned{events: map[string][]string{}}
	for line := range strings.Lines(w.Must(0, "events", "@", "--json").Out) {
		var r struct {
			Kind, Path string
			Body       struct {
				Name     string
				Evidence struct{ Session struct{ Head string } }
			}
		}
		w.Check(json.Unmarshal([]byte(line), &r))
		switch {
		case strings.HasPrefix(r.Kind, "agent."):
			out.events[r.Path] = append(out.events[r.Path], r.Kind)
		case r.Kind == "effect.finished" && r.Body.Name == "model.call":
			out.model = append(out.model, r.Path)
		case r.Kind == "intent.attest":
			out.head = r.Body.Evidence.Session.Head
		}
	}
	return out
}

// records is how many records the store has; 0 if it is yet to be made.
func (w *workspace) records() (n int) {
	w.Helper()
	db, err := sql.Open("sqlite", "file:"+w.Path(".tipstaff", "tipstaff.db")+"?mode=ro&_pragma=busy_timeout(5000)")
	w.Check(err)
	defer db.Close()
	_ = db.QueryRow(`SELECT count(*) FROM records`).Scan(&n) // fails where there is no store yet
	return n
}

// perish runs a command until the store has so many records, and kills it then. It
// reports false if the command ended before.
func (w *workspace) perish(records int, args ...string) bool {
	w.Helper()
	p := w.Start(args...)
	ended := func() bool {
		select {
		case <-p.Ended:
			return true
		default:
			return false
		}
	}
	w.Until("records", func() bool { return w.records() >= records || ended() })
	if ended() {
		return false
	}
	p.Kill()
	return true
}

// wholeTurn takes a turn that uses a server of other people to its end, and returns what it
// left.
func wholeTurn(t *testing.T) (*workspace, turned) {
	t.Helper()
	w := newTurn(t)
	w.Must(4, "run", "turn.json", "--unattended")
	w.finish()
	got := w.turned()
	if got.head == "" || len(got.model) != 4 {
		t.Fatalf("undisturbed: %+v", got)
	}
	return w, got
}

func TestTurnWithAServerOfOthers(t *testing.T) {
	t.Parallel()
	wholeTurn(t)
}

// TestKilledTurn kills Tipstaff at moments spread over that turn: the conversation comes
// out the same, and the server was asked for nothing twice that may happen only once.
func TestKilledTurn(t *testing.T) {
	cmdtest.SkipSweep(t)
	t.Parallel()
	whole, want := wholeTurn(t)
	records := whole.records()
	const kills = 12
	for i := range kills {
		after := 1 + i*(records-1)/kills
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			t.Parallel()
			w := newTurn(t)
			if !w.perish(after, "run", "turn.json", "--unattended") {
				w.Must(0, "decide", "@", "turn/tool#2.1/approval", "allow")
				w.perish(after, "resume", "@", "--unattended")
			}
			w.finish()
			got := w.turned()
			if got.head != want.head || !slices.Equal(got.model, want.model) || !maps.EqualFunc(got.events, want.events, slices.Equal) {
				t.Errorf("it came out as\n%+v, undisturbed it is\n%+v", got, want)
			}
		})
	}
}
