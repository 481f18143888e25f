package page

import (
	"crypto/sha256"
	"net/url"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
)

// actTime is how long the outcome of a form is kept, so that it is one act however often it
// is sent.
const actTime = 10 * time.Minute

// acts are the outcomes of forms that were sent.
type acts struct {
	mu   sync.Mutex
	sent map[[sha256.Size]byte]*act
}

// act is one form. Whoever sends it again while it is under way waits for it.
type act struct {
	made time.Time
	mu   sync.Mutex
	done bool
	to   string // where its outcome is shown
}

// of is the act of a form, a new one if it was not sent lately.
func (a *acts) of(key [sha256.Size]byte, now time.Time) *act {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sent == nil {
		a.sent = map[[sha256.Size]byte]*act{}
	}
	for other, one := range a.sent {
		if now.Sub(one.made) > actTime {
			delete(a.sent, other)
		}
	}
	if a.sent[key] == nil {
		a.sent[key] = &act{made: now}
	}
	return a.sent[key]
}

// once does what a form asks for, unless the same form has done it before: then its outcome
// is shown again. What has failed may be tried again.
func (v *view) once(in url.Values, do func() (to string, err error)) (string, error) {
	if in.Get("key") == "" {
		return do()
	}
	same := url.Values{}
	for name, values := range in {
		if name != "confirmed" && name != "command" {
			same[name] = values
		}
	}
	one := v.s.acts.of(sha256.Sum256([]byte(v.r.URL.Path+"?"+same.Encode())), v.now)
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.done {
		return one.to, nil
	}
	to, err := do()
	one.done, one.to = err == nil, to
	return to, err
}

// decisionsMost is how many decisions a session may send in a second: no person reads as fast.
const decisionsMost = 10

// pace is when sessions have sent decisions, within the last second.
type pace struct {
	mu   sync.Mutex
	sent map[[nonceSize]byte][]time.Time
}

// take refuses a decision of a session that sends too many.
func (p *pace) take(s *session, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sent == nil {
		p.sent = map[[nonceSize]byte][]time.Time{}
	}
	for other, times := range p.sent {
		if p.sent[other] = recent(times, now, time.Second); len(p.sent[other]) == 0 {
			delete(p.sent, other)
		}
	}
	if len(p.sent[s.nonce]) >= decisionsMost {
		return tipstaff.Errorf(tipstaff.LimitReached, "more than %d decisions were sent in a second", decisionsMost).WithHint("wait a moment, and send it again")
	}
	p.sent[s.nonce] = append(p.sent[s.nonce], now)
	return nil
}

// needs refuses who has not a scope.
func (v *view) needs(scope string) error {
	if v.signed.May(scope) {
		return nil
	}
	return tipstaff.Errorf(tipstaff.Forbidden, "you may not do this").WithHint("the token that you signed in with needs the scope %s", scope)
}
