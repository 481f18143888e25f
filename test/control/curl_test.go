//go:build linux

package control

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// curl starts a run, follows it while it decides and resumes it, and is refused where it should be.
func TestCurl(t *testing.T) {
	b := newBed(t)
	curl := perhaps(t, "/usr/bin/curl")
	d := b.serve()
	call := func(path string, args ...string) (status int, body string) {
		t.Helper()
		out := b.must(program{argv: append([]string{curl, "--silent", "--show-error", "--no-buffer", "--max-time", "60", "--write-out", "\n%{http_code}", d.url + path}, args...)})
		cut := strings.LastIndexByte(out, '\n')
		status, err := strconv.Atoi(out[cut+1:])
		b.Check(err)
		return status, out[:cut]
	}
	token := []string{"--header", "Authorization: " + d.bearer()}
	events := append(token, "--header", "Accept: text/event-stream")
	json := append(token, "--json")

	run := d.submit(b.Read("ask.yaml"))
	following := make(chan string)
	go func() {
		out, err := exec.Command(curl, append([]string{"--silent", "--no-buffer", "--max-time", "60", d.url + "/runs/" + run + "/events"}, events...)...).Output()
		if err != nil {
			out = []byte(err.Error())
		}
		following <- string(out)
	}()
	gate := d.gate(run)
	if status, body := call("/runs/"+run+"/gates/"+gate+"/decision", append(json, `{"action":"approve","decided_by":"curl","resume":true}`)...); status != 200 || !strings.Contains(body, `"decided_by":"curl"`) {
		t.Errorf("a decision is answered with %d %s", status, body)
	}
	whole := framesOf(t, <-following)
	whole.complete(t, 0)
	b.wellDone(run, "curl")

	// Whoever comes back is told what they have not had, and nothing when that was all.
	half := len(whole.ids) / 2
	_, rest := call("/runs/"+run+"/events", append(events, "--header", "Last-Event-ID: "+strconv.Itoa(half))...)
	framesOf(t, rest).complete(t, half)
	if status, body := call("/runs/"+run+"/events", append(events, "--header", "Last-Event-ID: "+strconv.Itoa(len(whole.ids)))...); status != 204 || body != "" {
		t.Errorf("who has had all is answered with %d %q", status, body)
	}

	for name, c := range map[string]struct {
		status int
		code   string
		path   string
		args   []string
	}{
		"no token":           {401, "unauthenticated", "/runs", nil},
		"another token":      {401, "unauthenticated", "/runs", []string{"--header", "Authorization: Bearer x"}},
		"a token in the URL": {401, "unauthenticated", "/runs?token=" + d.token, nil},
		"another host":       {403, "forbidden", "/runs", append(token, "--header", "Host: example.com")},
		"another origin":     {403, "forbidden", "/runs", append(token, "--header", "Origin: http://example.com")},
		"no id":              {400, "invalid_argument", "/runs/..%2f..%2fetc", token},
		"no such run":        {404, "run_not_found", "/runs/01M7GGV724CE3RT0X18PVCP8A2", token},
		"no JSON":            {415, "", "/runs", append(token, "--data", "program=x")},
		"no program":         {422, "invalid_program", "/runs", append(json, `{"program":"kind: plan"}`)},
	} {
		if status, body := call(c.path, c.args...); status != c.status || !strings.Contains(body, `"code":"`+c.code) {
			t.Errorf("%s: %d %s, not %d %s", name, status, body, c.status, c.code)
		}
	}
}

// submit starts a run of a program.
func (d *daemon) submit(program string) string {
	d.Helper()
	var started struct{ Run string }
	d.post("/runs", map[string]any{"program": program}, &started)
	return started.Run
}

// gate waits for a run to ask something, and is the id of what it asks by.
func (d *daemon) gate(run string) (id string) {
	d.Helper()
	d.Until("a question of run "+run, func() bool {
		var pending struct {
			Decisions []struct {
				Run  string `json:"run_id"`
				Gate struct {
					ID string `json:"gate_id"`
				}
			}
		}
		d.get("/pending", &pending)
		for _, p := range pending.Decisions {
			if p.Run == run {
				id = p.Gate.ID
			}
		}
		return id != ""
	})
	return id
}

// frames is what a stream of events has said.
type frames struct {
	ids   []int
	ended bool
	text  string
}

func framesOf(t testing.TB, stream string) (f frames) {
	t.Helper()
	f.text = stream
	for frame := range strings.SplitSeq(stream, "\n\n") {
		for line := range strings.SplitSeq(frame, "\n") {
			if id, ok := strings.CutPrefix(line, "id: "); ok {
				n, err := strconv.Atoi(id)
				if err != nil {
					t.Fatal(err)
				}
				f.ids = append(f.ids, n)
			}
			f.ended = f.ended || line == "event: end"
		}
	}
	return f
}

// complete fails the test unless the stream has told every record after one, in order, to
// the end of the run.
func (f frames) complete(t testing.TB, after int) {
	t.Helper()
	for n, id := range f.ids {
		if id != after+n+1 {
			t.Fatalf("record %d came in place %d after %d", id, n+1, after)
		}
	}
	if len(f.ids) == 0 || !f.ended {
		t.Errorf("%d records came, and the stream has not ended with the run: %s", len(f.ids), f.text)
	}
}
