package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
)

func aSession() *Session {
	s := &Session{ID: "01JCQ8R4T5V6W7X8Y9Z0A1B2C3", Created: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)}
	s.Append(time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC),
		Message{Role: User, Text: "Is the disk <full>?"},
		Message{Role: Assistant, Calls: []Call{{ID: "a", Name: "ops__df", Arguments: `{"path":`}}, Model: "m", Usage: &Usage{InputTokens: 3}, Opaque: json.RawMessage(`[{"signature":"x"}]`)},
		Message{Role: FromTool, CallID: "a", IsError: true, Content: []Content{{Type: ContentText, Text: "no"}, {Type: ContentImage, MimeType: "image/png", Data: []byte{0, 255}}}},
		Message{Role: Assistant, Text: "I do not", Partial: true})
	return s
}

func TestSessionsAreSavedAndLoaded(t *testing.T) {
	s := aSession()
	var file bytes.Buffer
	if err := s.Save(&file); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(file.String(), "\n"); n != 5 {
		t.Errorf("%d lines", n)
	}
	if first := `{"type":"session.header","id":"01JCQ8R4T5V6W7X8Y9Z0A1B2C3","created":"2026-01-02T03:04:05.000000006Z","updated":"2026-01-02T03:05:00Z"}`; !strings.HasPrefix(file.String(), first+"\n"+`{"type":"session.message","role":"user","text":"Is the disk <full>?"}`+"\n") {
		t.Errorf("it begins\n%s", file.String())
	}
	got, err := Load(&file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, got); diff != "" {
		t.Errorf("(-saved +loaded):\n%s", diff)
	}
}

func TestWhatIsNoSession(t *testing.T) {
	const header = `{"type":"session.header","id":"x"}` + "\n"
	user := `{"type":"session.message","role":"user","text":"hi"}` + "\n"
	for name, c := range map[string]struct{ file, want string }{
		"nothing":                    {"", "no header"},
		"no header":                  {user, "before the header"},
		"two headers":                {header + header, "second header"},
		"no JSON":                    {header + "hello\n", "line 2"},
		"no type":                    {header + `{"role":"user"}` + "\n", "no type"},
		"an unknown type":            {header + `{"type":"session.mood"}` + "\n" + user, ""},
		"an unknown type in front":   {`{"type":"comment"}` + "\n" + header, ""},
		"an empty line":              {header + "\n" + user, ""},
		"an unknown role":            {header + `{"type":"session.message","role":"judge"}` + "\n", "judge"},
		"a result without a call":    {header + `{"type":"session.message","role":"tool","call_id":"a"}` + "\n", "did not make"},
		"a call without a result":    {header + `{"type":"session.message","role":"assistant","calls":[{"id":"a"}]}` + "\n", "no results"},
		"a message too early":        {header + `{"type":"session.message","role":"assistant","calls":[{"id":"a"}]}` + "\n" + user, "before all calls"},
		"an id that stands twice":    {header + `{"type":"session.message","role":"assistant","calls":[{"id":"a"},{"id":"a"}]}` + "\n", "stands twice"},
		"an id that is empty":        {header + `{"type":"session.message","role":"assistant","calls":[{"name":"f"}]}` + "\n", "empty"},
		"a user who calls":           {header + `{"type":"session.message","role":"user","calls":[{"id":"a"}]}` + "\n", "not the assistant's"},
		"a line of more than 4 MiB":  {header + `{"type":"session.message","role":"user","text":"` + strings.Repeat("x", maxLine) + `"}` + "\n", "more than"},
		"fields of the wrong type":   {header + `{"type":"session.message","role":7}` + "\n", "line 2"},
		"a header of the wrong type": {`{"type":"session.header","id":7}` + "\n", "line 1"},
	} {
		_, err := Load(strings.NewReader(c.file))
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.Is(err, &tipstaff.Error{Code: SessionInvalid}) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestWhatCannotBeSaved(t *testing.T) {
	for name, m := range map[string]Message{
		"a message of more than 4 MiB": {Role: User, Text: strings.Repeat("x", maxLine)},
		"a broken conversation":        {Role: FromTool, CallID: "a"},
	} {
		var file bytes.Buffer
		s := &Session{Messages: []Message{m}}
		if err := s.Save(&file); err == nil || file.Len() > 0 {
			t.Errorf("%s: %v, %d bytes written", name, err, file.Len())
		}
	}
}

func FuzzLoad(f *testing.F) {
	var file bytes.Buffer
	if err := aSession().Save(&file); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Add([]byte(`{"type":"session.header","created":"2026-01-02T03:04:05Z"}` + "\n" + `{"type":"x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Load(bytes.NewReader(data))
		if err != nil {
			return
		}
		if err := s.Valid(); err != nil {
			t.Fatalf("a loaded session is not valid: %v", err)
		}
		var file bytes.Buffer
		if err := s.Save(&file); err != nil {
			if file.Len() > 0 {
				t.Fatalf("half of it was saved: %v", err)
			}
			return
		}
		again, err := Load(&file)
		if err != nil {
			t.Fatalf("what was saved cannot be loaded: %v", err)
		}
		if HeadOf(s.Messages) != HeadOf(again.Messages) {
			t.Fatalf("another conversation came back")
		}
	})
}

func TestConversationsAreNamedByTheirMessages(t *testing.T) {
	// sha256 of [] and of {"role":"user","text":"hi"}, then of the two in a list.
	if got, want := HeadOf(nil), "sha256:4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"; got != want {
		t.Errorf("no conversation is %s, want %s", got, want)
	}
	if got, want := HeadOf([]Message{{Role: User, Text: "hi"}}), "sha256:7b11d38003b88b2288516d6080eb52552d5b59b489c15300e2409ab136341555"; got != want {
		t.Errorf("one message is %s, want %s", got, want)
	}
}
