package page

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

// toldEvent is what a call tells while it goes on and nobody records: a piece of a text, or how far
// it has come. A page sets it as text, in the place of the transcript that has the same path.
type toldEvent struct {
	Path string `json:"path"`
	// Of a text: where the piece stands in it, in bytes as the model says it. A gap means that
	// pieces were lost, and offset 0 that the text begins anew.
	Offset   int64  `json:"offset"`
	End      int64  `json:"end,omitempty"`
	Text     string `json:"text,omitempty"`
	Progress string `json:"progress,omitempty"` // of a call
}

// toldPath is what an item of a transcript is known by.
func toldPath(run tipstaff.ID, of string) string {
	if of == "" {
		return ""
	}
	return run.String() + " " + printed(of, 1000)
}

// toldOf reads what a page is told; false: it shows nothing of it.
func toldOf(e *tipstaff.Event) (t toldEvent, shown bool) {
	t.Path = toldPath(e.Run, tipstaff.ToldOf(e))
	switch e.Kind {
	case tipstaff.KindAgentTextDelta:
		b := tipstaff.BodyOf[tipstaff.AgentTextDelta](e)
		t.Offset, t.End, t.Text = b.Offset, b.Offset+int64(len(b.Text)), passage(b.Text)
		return t, b.Channel == "answer" // what it thinks is folded once it is recorded
	case tipstaff.KindToolProgress:
		t.Progress = printed(tipstaff.BodyOf[tipstaff.ToolProgress](e).String(), 200)
		return t, true
	}
	return t, false
}

// toldParts are the parts that show transcripts.
var toldParts = []string{"talk", "session"}

// tellLive sends a page with a transcript what is told, past the parts, which are drawn a few
// times a second. Who reads slowly misses some of it, and the run does not wait.
func tellLive(ctx context.Context, l *live, frames chan<- []byte) {
	if !slices.ContainsFunc(l.names, func(name string) bool { return slices.Contains(toldParts, name) }) {
		return
	}
	hear := func(run tipstaff.ID, after int64) error {
		for e, err := range l.s.control.Runs.Events(ctx, tipstaff.EventsRequest{Run: run, After: after, Follow: true, Stay: true}) {
			if err != nil {
				return err
			}
			t, shown := toldOf(&e)
			if !shown {
				continue
			}
			data, err := json.Marshal(t)
			if err != nil {
				return err
			}
			select {
			case frames <- frameOf("told", 0, data):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
	if session, is := chatOf(l.page.Path); is {
		l.s.eachTurn(ctx, session, func() {}, hear)
		return
	}
	if r, err := l.s.control.Runs.Get(ctx, l.run); err == nil {
		_ = hear(r.ID, r.HeadSeq) // the page says what is the matter
	}
}

// chatOf is the session whose page an address is.
func chatOf(path string) (session string, is bool) {
	session, is = strings.CutPrefix(path, "/ui/sessions/")
	return session, is && session != "" && !strings.Contains(session, "/")
}

// eachTurn calls hear with the turn of a conversation that is under way and the record up to
// which it has come, until hear has heard its end, and then with the next. wake is called
// whenever another turn may have come.
func (s *Site) eachTurn(ctx context.Context, session string, wake func(), hear func(run tipstaff.ID, after int64) error) {
	var changed <-chan struct{}
	if s.control.Follow != nil {
		signals, stop := s.control.Follow()
		defer stop()
		changed = signals
	}
	for ctx.Err() == nil {
		chat, err := s.o.Sessions.Chat(ctx, session, tipstaff.ID{}, 1)
		if err != nil {
			return // the page says so
		}
		wake()
		if last := chat.Last(); !last.State.Terminal() {
			if hear(last.ID, last.HeadSeq) != nil {
				return
			}
			continue
		}
		select {
		case <-changed:
		case <-time.After(lookEvery):
		case <-ctx.Done():
		}
	}
}
