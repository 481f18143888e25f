package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/store"
)

// clock is a clock that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func testCollect(t *testing.T, place Place) {
	c := &clock{now: time.Now()}
	b := place.Bench(t, &store.Options{Now: c.Now})
	put := func(text string) string {
		t.Helper()
		digest, err := b.PutBlob(t.Context(), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return digest
	}
	forgotten, kept, mentioned := put("forgotten"), put("kept by a run"), put("mentioned in an input")
	program, again := put("a program"), put("stored again")
	large := `"` + strings.Repeat("x", 70<<10) + `"`

	run := b.MustCreate()
	if err := b.Create(t.Context(), flow.NewRun{ID: "01JCQ8R4T5V6W7X8Y9Z0A1B2C3", Blobs: []string{kept}}, Begun(b.Keys())); err != nil {
		t.Fatal(err)
	}
	b.MustAppend(b.MustAcquire(run),
		flow.Draft{Kind: "effect.intended", Body: Body(`{"input":{"messages":[%q]}}`, mentioned)},
		flow.Draft{Kind: "effect.finished", Body: Body(`{"value":%s}`, large)},
		flow.Draft{Kind: "intent.correct", From: "executor", Body: Body(`{"target":"plan","reason":"r","material":false,"reasons":[],"intent_hash":%q,"program_digest":%q,"revision":2,"on_behalf_of":"local:cli"}`, ZeroDigest, program)})
	collect := func() int {
		t.Helper()
		n, err := b.Collect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := collect(); n != 0 {
		t.Fatalf("%d went at once", n)
	}
	c.pass(50 * time.Minute)
	put("stored again")
	c.pass(11 * time.Minute)
	if n := collect(); n != 1 {
		t.Fatalf("%d went after an hour", n)
	}
	if _, err := b.Blob(t.Context(), forgotten); !errors.Is(err, flow.ErrNoBlob) {
		t.Errorf("the forgotten one: %v", err)
	}
	for _, digest := range []string{kept, mentioned, program, again, journal.Sum([]byte(large)).String()} {
		if _, err := b.Blob(t.Context(), digest); err != nil {
			t.Error(err)
		}
	}
	c.pass(24 * time.Hour)
	if n := collect(); n != 1 {
		t.Errorf("%d went after a day, want the one stored again", n)
	}
	if got := put("forgotten"); got != forgotten {
		t.Fatalf("%s is now %s", forgotten, got)
	}
	if data, err := b.Blob(t.Context(), forgotten); err != nil || string(data) != "forgotten" {
		t.Errorf("stored anew: %q %v", data, err)
	}
}

// A blob whose file went while it was being stored again is written once more.
func testCollectRacesWithPut(t *testing.T, place Place) {
	c := &clock{now: time.Now()}
	b := place.Bench(t, &store.Options{Now: c.Now})
	for i := range 20 {
		data := fmt.Appendf(nil, "blob %d", i)
		if _, err := b.PutBlob(t.Context(), data); err != nil {
			t.Fatal(err)
		}
		c.pass(2 * time.Hour)
		collected := make(chan error, 1)
		go func() { _, err := b.Collect(t.Context()); collected <- err }()
		digest, err := b.PutBlob(t.Context(), data)
		if err := errors.Join(err, <-collected); err != nil {
			t.Fatal(err)
		}
		if got, err := b.Blob(t.Context(), digest); err == nil && string(got) != string(data) || err != nil {
			t.Fatalf("round %d: %q %v", i, got, err)
		}
	}
}

func testBlobNames(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	for _, digest := range []string{"", "sha256:", "sha256:../../keys/user.key", ZeroDigest, strings.ToUpper(ZeroDigest)} {
		if _, err := b.Blob(t.Context(), digest); !errors.Is(err, flow.ErrNoBlob) {
			t.Errorf("%q: %v", digest, err)
		}
	}
	err := b.Create(t.Context(), flow.NewRun{ID: "01JCQ8R4T5V6W7X8Y9Z0A1B2C3", Blobs: []string{ZeroDigest}}, Begun(b.Keys()))
	if !errors.Is(err, flow.ErrNoBlob) {
		t.Errorf("a run of a blob that is not there: %v", err)
	}
}
