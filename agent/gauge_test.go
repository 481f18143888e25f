package agent

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Weighing a conversation while it grows comes to the same as weighing all of it.
func TestGrowingConversationsAreCutAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages, turn := genHistory(t)
		talk := newConversation(messages)
		w := window{model: "m", budget: rapid.Int64Range(0, 3000).Draw(t, "budget"), fixed: weight{bytes: 10}, turn: turn}
		g := newGauge(w)
		for n := turn + 1; n <= len(messages); n++ {
			grown, grownErr := g.fit(talk.entries[:n])
			anew, anewErr := w.fit(talk.entries[:n])
			if (grownErr == nil) != (anewErr == nil) || grown.size != anew.size || grown.Cut != anew.Cut || !slices.Equal(grown.entries, anew.entries) {
				t.Fatalf("after %d messages %+v (%v), anew %+v (%v)", n, grown, grownErr, anew, anewErr)
			}
		}
	})
}

// What is sent has the digest of a conversation of those messages, cut or not.
func TestWhatIsSentIsNamedByItsMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages, turn := genHistory(t)
		talk := newConversation(messages)
		c, err := window{model: "m", budget: rapid.Int64Range(0, 3000).Draw(t, "budget"), turn: turn}.fit(talk.entries)
		if err != nil {
			return
		}
		if diff := cmp.Diff(c.messages(), talk.sent(c)); diff != "" {
			t.Fatalf("sent otherwise than cut:\n%s", diff)
		}
		if got, want := talk.headOf(c), HeadOf(c.messages()); got != want {
			t.Fatalf("named %s, not %s", got, want)
		}
	})
}
