package worker

import (
	"context"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
)

// Limits that an invocation may reach.
const (
	limitWall   = "wall"
	limitIdle   = "idle"
	limitOutput = "output"
	limitTokens = "tokens"
	limitCost   = "cost_usd"
)

// cause is why an invocation was stopped.
type cause struct {
	limit     string
	cancelled bool
	lingered  bool
	channel   string // what is wrong with it
	refused   error  // the sink could not take something
}

// pulse is when a stream last showed life. Bytes of a line that has not ended count until
// the line turns out to be a notice of a retry.
type pulse struct {
	mu               sync.Mutex
	sure, unfinished time.Time
}

func (p *pulse) begin() { p.sure = time.Now() }

// partial hears of bytes of a line that has not ended.
func (p *pulse) partial() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unfinished = time.Now()
}

// ended hears of the end of a line.
func (p *pulse) ended(counts bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unfinished = time.Time{}
	if counts {
		p.sure = time.Now()
	}
}

func (p *pulse) last() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unfinished.After(p.sure) {
		return p.unfinished
	}
	return p.sure
}

// watch stops a process when it must not go on.
type watch struct {
	limits          Limits
	connect, linger time.Duration
	pulses          [2]*pulse  // of stdout and stderr
	causes          chan cause // what readers have found
}

// trip stops the process, unless something else did already.
func (w *watch) trip(c cause) {
	select {
	case w.causes <- c:
	default:
	}
}

// spending trips the limits of tokens and cost, as far as the stream shows them.
func (w *watch) spending(u tipstaff.ModelUsage, cost tipstaff.USD, known bool) {
	if w.limits.Tokens > 0 && u.TotalTokens > w.limits.Tokens {
		w.trip(cause{limit: limitTokens})
	}
	if w.limits.CostUSD > 0 && known && cost > w.limits.CostUSD {
		w.trip(cause{limit: limitCost})
	}
}

// run returns when the program has ended by itself, or was stopped: then with the cause.
func (w *watch) run(ctx context.Context, p Process, ch channel) *cause {
	wall := optional(w.limits.Wall)
	idle := optional(w.limits.Idle)
	connect := time.NewTimer(w.connect)
	defer connect.Stop()
	var linger <-chan time.Time
	authenticated, spoke := ch.authenticated(), ch.spoke()
	for {
		var c cause
		select {
		case <-p.Exited():
			return nil
		case <-ctx.Done():
			c = cause{cancelled: true}
		case c = <-w.causes:
		case <-wall:
			c = cause{limit: limitWall}
		case <-idle:
			last := w.pulses[0].last()
			if other := w.pulses[1].last(); other.After(last) {
				last = other
			}
			if left := w.limits.Idle - time.Since(last); left > 0 {
				idle = time.After(left)
				continue
			}
			c = cause{limit: limitIdle}
		case <-connect.C:
			c = cause{channel: "the CLI has not connected to the channel within " + w.connect.String()}
		case <-authenticated:
			authenticated = nil
			connect.Stop()
			continue
		case <-spoke:
			spoke = nil
			linger = time.After(w.linger)
			continue
		case <-linger:
			c = cause{lingered: true}
		}
		p.Stop(w.limits.Grace)
		return &c
	}
}

// optional is a timer, or one that never fires.
func optional(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	return time.After(d)
}
