package worker

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"
)

// What a worker says of its own credentials is looked for as what servers say is.
func TestCredentialsOfWorkersAreFoundInEveryForm(t *testing.T) {
	const key = `sk-a"b&c/0123456789`
	clean := redaction(nil, map[string]string{"KEY": key, "PEM": "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\n-----END KEY-----"})
	said, err := json.Marshal(map[string]string{"said": "it is " + key, "html": html.EscapeString(key)})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{key, string(said), url.QueryEscape(key), base64.StdEncoding.EncodeToString([]byte(key)), "stderr: MIIEvQIBADANBgkqhkiG9w0BAQEF"} {
		got := string(clean([]byte(text)))
		if strings.Contains(got, "0123456789") || strings.Contains(got, "MIIE") || !strings.Contains(got, "$env:") {
			t.Errorf("%s became %s", text, got)
		}
	}
	if got := clean(said); !json.Valid(got) {
		t.Errorf("it is no JSON any more: %s", got)
	}
}

// A key of several lines that a worker prints line by line is in no log, event or result.
func TestAKeyOfSeveralLines(t *testing.T) {
	lines := []string{"-----BEGIN PRIVATE KEY-----", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "BKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj", "-----END PRIVATE KEY-----"}
	steps := []fakeStep{}
	for _, line := range lines {
		steps = append(steps, fakeStep{Err: line}, fakeStep{Err: "key: " + line + "\r"}, fakeStep{Out: line})
	}
	b := newBed(t, "claude", happy(steps...)...)
	b.options.Env = append(b.options.Env, "ANTHROPIC_API_KEY="+strings.Join(lines, "\n")+"\n")
	r := b.spawn()
	all := fmt.Sprintf("%+v", r)
	for _, e := range b.sink.events {
		all += fmt.Sprintf("%+v\n", e)
	}
	for _, name := range []string{r.Logs.Raw, r.Logs.Readable, strings.TrimSuffix(r.Logs.Raw, ".jsonl") + ".stderr"} {
		all += b.read(name)
	}
	for _, line := range lines[1:3] {
		if strings.Contains(all, line) {
			t.Errorf("%s is told", line)
		}
	}
	if n := strings.Count(all, "$env:ANTHROPIC_API_KEY"); n < 6 {
		t.Errorf("%d replacements in %s", n, all)
	}
}
