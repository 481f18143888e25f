package agent

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/tool"
)

// What is read without a decoder is what the decoder would have read.
func FuzzOneText(f *testing.F) {
	for _, s := range []string{`{"content":[{"type":"text","text":"ok"}]}`, `{"content":[{"type":"text","text":""}]}`, `{"content":[{"type":"text","text":"a\nb"}]}`,
		`{"content":[{"type":"text","text":"é"}]}`, `{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, `{"content":[{"type":"text","text":"}]}`,
		`{"content":[{"type":"text","text":"a"}],"structured":{}}`, `{"content":[]}`, `"a"`, ``} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		text, ok := oneText(json.RawMessage(value))
		if !ok {
			return
		}
		var want tool.Reply
		if err := json.Unmarshal([]byte(value), &want); err != nil {
			t.Fatalf("%q is read as %q, but it is no reply: %v", value, text, err)
		}
		if diff := cmp.Diff(want, tool.Reply{Content: []tool.Content{{Type: tool.ContentText, Text: text}}}); diff != "" {
			t.Fatal(diff)
		}
	})
}
