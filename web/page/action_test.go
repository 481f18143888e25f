package page

import (
	"errors"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
)

// A form does what it asks for once, however often and however fast it is sent. What has
// failed is tried again, and another form is another act.
func TestAFormIsOneAct(t *testing.T) {
	site, began := new(Site), time.Unix(1e9, 0)
	done := 0
	send := func(at time.Time, key string, fails error) (string, error) {
		v := &view{s: site, r: httptest.NewRequest("POST", "/ui/runs/x/cancel", nil), now: at}
		return v.once(url.Values{"key": {key}}, func() (string, error) { done++; return "/there", fails })
	}
	if _, err := send(began, "a", errors.New("not now")); err == nil || done != 1 {
		t.Errorf("%d acts, %v", done, err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if to, err := send(began.Add(time.Second), "a", nil); to != "/there" || err != nil {
				t.Errorf("it is answered %q, %v", to, err)
			}
		})
	}
	all.Wait()
	if done != 2 {
		t.Errorf("%d acts", done)
	}
	if _, err := send(began, "b", nil); err != nil || done != 3 {
		t.Errorf("another form: %d acts, %v", done, err)
	}
	if _, err := send(began.Add(time.Hour), "a", nil); err != nil || done != 4 || len(site.acts.sent) != 1 {
		t.Errorf("an hour later: %d acts, %d kept, %v", done, len(site.acts.sent), err)
	}
}

// A session sends ten decisions in a second and no more; others are not concerned.
func TestDecisionsArePaced(t *testing.T) {
	var p pace
	one, other, began := &session{}, &session{nonce: [nonceSize]byte{1}}, time.Unix(1e9, 0)
	for i := range 10 {
		if err := p.take(one, began.Add(time.Duration(i)*time.Millisecond)); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := p.take(one, began.Add(time.Second)); tipstaff.CodeOf(err) != tipstaff.LimitReached {
		t.Errorf("the eleventh is answered %v", err)
	}
	if err := p.take(other, began.Add(time.Second)); err != nil {
		t.Errorf("another session is answered %v", err)
	}
	if err := p.take(one, began.Add(time.Second+2*time.Millisecond)); err != nil {
		t.Errorf("a second after the first it is answered %v", err)
	}
	if err := p.take(one, began.Add(time.Hour)); err != nil || len(p.sent) != 1 {
		t.Errorf("%d sessions are remembered", len(p.sent))
	}
}
