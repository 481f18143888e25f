package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Earlier versions froze chat completions as openai, which is now the word for another
// API. A run of theirs goes on with what it began with, whatever the manifest means today;
// what is begun today is told what to write.
func TestARunGoesOnWithTheAPIThatItBeganWith(t *testing.T) {
	m := newMind(t, func(string, int) said { return said{at: "step", text: "Nearly full."} })
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/chat/completions" {
			http.NotFound(w, r) // as servers do that know nothing else
			return
		}
		m.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	w := newWorkspace(t, minds, `-- ask.yaml --
kind: plan
version: 1
root:
  kind: sequential
  children:
    - {id: first, kind: gate, question: "Go on?"}
    - {id: ask, kind: step, prompt: Is the disk full?}
outputs: {said: "${ask.output}"}
`)
	key := m.known(w, "api")
	w.Env = append(w.Env, "MIND_URL="+s.URL+"/v1")
	w.Must(4, "run", "ask.yaml", "--unattended")
	w.Write("tipstaff.yaml", strings.Replace(w.Read("tipstaff.yaml"), "openai-chat", "openai", 1))
	w.answer("root/first", "approve", 0)
	w.Must(0, "verify", "@")
	if got := m.heard(key); len(got) != 1 {
		t.Errorf("chat completions were asked for %d times", len(got))
	}
	w.Must(4, "run", "ask.yaml", "--unattended")
	w.Must(0, "decide", "@", "root/first", "approve")
	if r := w.Must(1, "resume", "@", "--unattended"); !strings.Contains(r.Out+r.Err, "write provider: openai-chat") {
		t.Errorf("%v", r)
	}
}
