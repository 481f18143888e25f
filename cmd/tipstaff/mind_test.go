package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// mind is a model behind a loopback address, which speaks chat completions. What it
// answers follows from the request alone, and it keeps count of who asked for what:
// each workspace comes with a key of its own.
type mind struct {
	*httptest.Server
	answer func(user string, step int) said

	mu    sync.Mutex
	asked map[string][]string // paths of the model calls, by key
}

// said is one answer of a mind.
type said struct {
	at    string // the path of the call that it answers
	text  string
	calls []string // tool and arguments in turn
}

// newMind serves what answer says to the last message of a user, of which step
// counts the answers since, from 1. A greeting it returns by itself.
func newMind(t testing.TB, answer func(user string, step int) said) *mind {
	m := &mind{answer: answer, asked: map[string][]string{}}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

// known gives a workspace a key, by which the mind knows it.
func (m *mind) known(w *workspace, name string) (key string) {
	key = "key-of-the-workspace-" + name
	w.Env = []string{"MIND_KEY=" + key, "MIND_URL=" + m.URL + "/v1"}
	return key
}

// heard are the model calls that somebody with this key has made so far.
func (m *mind) heard(key string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked[key])
}

func (m *mind) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	user, step := "", 1
	for _, msg := range body.Messages {
		switch msg.Role {
		case "user":
			user, step = string(msg.Content), 1
		case "assistant":
			step++
		}
	}
	got := said{at: "greeting", text: "Good morning."}
	if user != `"Hello."` {
		got = m.answer(user, step)
	}
	m.mu.Lock()
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	m.asked[key] = append(m.asked[key], got.at)
	m.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	got.stream(w, step)
}

// stream writes an answer piece by piece.
func (r said) stream(w http.ResponseWriter, step int) {
	send := func(choices string, more string) {
		fmt.Fprintf(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"mind","choices":[%s]%s}`+"\n\n", choices, more)
		w.(http.Flusher).Flush()
	}
	for word := range strings.SplitAfterSeq(r.text, " ") {
		send(fmt.Sprintf(`{"index":0,"delta":{"content":%s}}`, quoted(word)), "")
	}
	reason := "stop"
	for i := 0; i+1 < len(r.calls); i += 2 {
		reason = "tool_calls"
		send(fmt.Sprintf(`{"index":0,"delta":{"tool_calls":[{"index":%d,"id":"call_%d_%d","type":"function","function":{"name":"builtin__%s","arguments":%s}}]}}`,
			i/2, step, i/2+1, r.calls[i], quoted(r.calls[i+1])), "")
	}
	send(fmt.Sprintf(`{"index":0,"delta":{},"finish_reason":%q}`, reason), "")
	send("", `,"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120}`)
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func quoted(text string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // of a string: never fails
	return bytes.TrimSpace(b.Bytes())
}
