package page

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
)

// A page is told what a model says and how far calls are, with what does not print marked, and
// not what the model thinks.
func TestWhatAPageIsTold(t *testing.T) {
	run := tipstaff.NewID(time.Unix(1, 0))
	of := func(kind tipstaff.Kind, path string, body any) *tipstaff.Event {
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		return &tipstaff.Event{Run: run, Kind: kind, Path: path, Body: text}
	}
	text, shown := toldOf(of(tipstaff.KindAgentTextDelta, "turn/model#1", tipstaff.AgentTextDelta{Step: 1, Channel: "answer", Offset: 4, Text: "é\u202e\n<b>"}))
	if !shown || text.Offset != 4 || text.End != 13 || !strings.HasPrefix(text.Text, "é") || !strings.HasSuffix(text.Text, "\n<b>") || strings.Contains(text.Text, "\u202e") || !strings.HasPrefix(text.Path, run.String()+" turn") {
		t.Errorf("%v %+v", shown, text)
	}
	if _, shown := toldOf(of(tipstaff.KindAgentTextDelta, "turn/model#1", tipstaff.AgentTextDelta{Step: 1, Channel: "reasoning", Text: "hm"})); shown {
		t.Error("it is told what the model thinks")
	}
	far, shown := toldOf(of(tipstaff.KindToolProgress, "turn/call#1", tipstaff.ToolProgress{Progress: 3, Message: "three \x1b[2J" + strings.Repeat("x", 1000)}))
	if !shown || far.Path != run.String()+" turn/call#1" || !strings.Contains(far.Progress, "three") || strings.Contains(far.Progress, "\x1b") || len(far.Progress) > 400 {
		t.Errorf("%v %+v", shown, far)
	}
	if _, shown := toldOf(of(tipstaff.KindAgentMessage, "turn/model#1", tipstaff.AgentMessage{})); shown {
		t.Error("it is told a record")
	}
}

// Images are shown that the run keeps, that are small, and of types that run nothing.
func TestImagesOfATranscript(t *testing.T) {
	i := transcriptItem{run: tipstaff.NewID(time.Unix(1, 0))}
	good := tipstaff.ConversationMedia{Type: "image/png", Bytes: 10, Digest: "sha256:ab", Kept: true}
	if got, want := i.Image(good), "/ui/runs/"+i.run.String()+"/files/sha256:ab?image=1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	large, lost, svg := good, good, good
	large.Bytes, lost.Kept, svg.Type = imageMost+1, false, "image/svg+xml"
	for _, m := range []tipstaff.ConversationMedia{large, lost, svg} {
		if got := i.Image(m); got != "" {
			t.Errorf("%+v is shown at %s", m, got)
		}
	}
}
