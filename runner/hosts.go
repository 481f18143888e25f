package runner

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
)

// Limits of what a host may say of itself.
const (
	maxHostAgents      = 256
	maxHostConcurrency = 10_000
)

var hostForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$`)

// hostPool is where the stages of pipelines meet the hosts that serve their agents.
// It knows who is attached and which call is where, and nothing that must outlive
// the process: a call whose drive is over is forgotten, and what still comes of it
// is late.
type hostPool struct {
	store    flow.Store
	redactor func() (func([]byte) []byte, error) // of credentials
	absent   time.Duration                       // how long a once call waits for the host that it was lost with
	grace    time.Duration                       // how long one that was told to stop may still answer

	mu    sync.Mutex
	hosts []*host                // in the order in which they came
	calls map[string]*remoteCall // by id
	moved chan struct{}          // closed, and made anew, when a host came or left, or has room
}

func newHostPool(store flow.Store, redactor func() (func([]byte) []byte, error)) *hostPool {
	return &hostPool{store: store, redactor: redactor, absent: time.Minute, grace: cancelGrace, calls: map[string]*remoteCall{}, moved: make(chan struct{})}
}

// host is one that is attached.
type host struct {
	pool   *hostPool
	user   string // whose token attached it
	id     string
	agents map[string]*hosted
	gone   chan struct{} // closed when it has left
	more   chan struct{} // one place: there are orders

	// Under the pool's lock:
	orders   []tipstaff.HostOrder
	draining bool
	left     bool
}

// hosted is an agent as one host serves it.
type hosted struct {
	class      flow.Class
	room, busy int
}

var (
	_ tipstaff.Hosts = (*hostPool)(nil)
	_ tipstaff.Host  = (*host)(nil)
)

// Hosts takes in the hosts of agents that the runs of this process need.
func (r *Runner) Hosts() tipstaff.Hosts { return r.hosts }

// Register implements [tipstaff.Hosts]. A host that comes back while its former
// attachment still stands takes its place.
func (d *hostPool) Register(ctx context.Context, reg tipstaff.HostRegistration) (tipstaff.Host, error) {
	if err := may(ctx, basic(tipstaff.ScopeHost)); err != nil {
		return nil, err
	}
	h := &host{pool: d, user: userOf(ctx), id: reg.HostID, gone: make(chan struct{}), more: make(chan struct{}, 1)}
	var err error
	if h.agents, err = hostedAgents(reg); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, other := range slices.Clone(d.hosts) {
		if other.user == h.user && other.id == h.id {
			other.leave()
		}
	}
	if err := d.conflict(h); err != nil {
		return nil, err
	}
	d.hosts = append(d.hosts, h)
	d.announce()
	return h, nil
}

func hostedAgents(reg tipstaff.HostRegistration) (map[string]*hosted, error) {
	bad := func(format string, args ...any) (map[string]*hosted, error) {
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, format, args...)
	}
	switch {
	case !hostForm.MatchString(reg.HostID):
		return bad("a host needs a host_id of 1 to 128 of A-Z, a-z, 0-9, '.', '_', ':', '@' and '-'")
	case len(reg.Agents) == 0:
		return bad("the host serves no agent")
	case len(reg.Agents) > maxHostAgents:
		return bad("the host serves %d agents: %d are the most", len(reg.Agents), maxHostAgents)
	}
	agents := map[string]*hosted{}
	for _, a := range reg.Agents {
		class, room := cmp.Or(flow.Class(a.Effect), flow.Once), cmp.Or(a.Concurrency, 1)
		switch {
		case !pipeline.ValidName(a.Name):
			return bad("%q cannot name an agent: it has 1 to 64 of A-Z, a-z, 0-9, '_' and '-', a letter first", shortened(a.Name))
		case agents[a.Name] != nil:
			return bad("agent %s is listed twice", a.Name)
		case strictness(class) < 0:
			return bad("agent %s: %q is not an effect class: use read, idempotent or once", a.Name, shortened(a.Effect))
		case room < 0 || room > maxHostConcurrency:
			return bad("agent %s takes 1 to %d calls at once, not %d", a.Name, maxHostConcurrency, a.Concurrency)
		}
		agents[a.Name] = &hosted{class: class, room: room}
	}
	return agents, nil
}

func shortened(text string) string { return text[:min(len(text), 80)] }

// strictness orders effect classes; -1: it is none.
func strictness(c flow.Class) int {
	return slices.Index([]flow.Class{flow.Read, flow.Idempotent, flow.Once}, c)
}

// conflict finds an agent that others of the user serve with another effect class:
// then nobody could say what may be done about a lost call. Called with mu held.
func (d *hostPool) conflict(h *host) error {
	for _, other := range d.hosts {
		if other.user != h.user {
			continue
		}
		for name, a := range h.agents {
			if b := other.agents[name]; b != nil && b.class != a.class {
				return tipstaff.Errorf(tipstaff.HostConflict, "agent %s is served by host %s with effect %s, not %s", name, other.id, b.class, a.class).
					WithHint("all hosts of an agent must declare the same effect")
			}
		}
	}
	return nil
}

// announce wakes whoever waits for a host, or for room. Called with mu held.
func (d *hostPool) announce() {
	close(d.moved)
	d.moved = make(chan struct{})
}

// owners are whose hosts serve a run. Both are known from tokens: what a client calls
// its user is a label, and leads to nobody's host.
type owners struct {
	user  string // to whom the run belongs
	maker string // who made it on that user's behalf; "": the user did
}

func (b *draftBody) owners() owners {
	return owners{b.User, strings.TrimPrefix(b.By, "token:")}
}

// pick is the host for a call: of those of the run's user, or where none serves the
// agent of its maker, the one that has room and the fewest open calls, then the
// earliest. serving tells whether there is one at all. Called with mu held.
func (d *hostPool) pick(o owners, agent string) (best *host, serving bool) {
	for _, user := range []string{o.user, o.maker} {
		for _, h := range d.hosts {
			a := h.agents[agent]
			if a == nil || h.draining || h.user != user {
				continue
			}
			serving = true
			if a.busy < a.room && (best == nil || h.load() < best.load()) {
				best = h
			}
		}
		if serving {
			break
		}
	}
	return best, serving
}

// load is how many calls it has. Called with mu held.
func (h *host) load() (n int) {
	for _, a := range h.agents {
		n += a.busy
	}
	return n
}

// serves reports whether the host may have to do with a run's calls.
func (h *host) serves(o owners) bool { return h.user == o.user || h.user == o.maker }

// order hands something to the host. Called with mu held.
func (h *host) order(o tipstaff.HostOrder) {
	if h.left {
		return
	}
	h.orders = append(h.orders, o)
	select {
	case h.more <- struct{}{}:
	default:
	}
}

// give hands a call to the host. Called with mu held.
func (h *host) give(c *remoteCall) {
	h.agents[c.Agent].busy++
	c.at = h
	if !slices.Contains(c.given, h.id) {
		c.given = append(c.given, h.id)
	}
	delivery := c.HostCall
	h.order(tipstaff.HostOrder{Call: &delivery})
}

// errLeft is what Next says of a host that was left, by itself or because another
// took its place.
var errLeft = errors.New("the host has left")

// Next implements [tipstaff.Host].
func (h *host) Next(ctx context.Context) (tipstaff.HostOrder, error) {
	for {
		h.pool.mu.Lock()
		if len(h.orders) > 0 && !h.left {
			next := h.orders[0]
			h.orders = h.orders[1:]
			h.pool.mu.Unlock()
			return next, nil
		}
		h.pool.mu.Unlock()
		select {
		case <-h.more:
		case <-h.gone:
			return tipstaff.HostOrder{}, &tipstaff.Error{Code: tipstaff.WrongState, Err: errLeft, Message: "the host is no longer attached here",
				Hint: "another process has registered with the same host_id; give each its own"}
		case <-ctx.Done():
			return tipstaff.HostOrder{}, ctx.Err()
		}
	}
}

// Drain implements [tipstaff.Host].
func (h *host) Drain() {
	h.pool.mu.Lock()
	defer h.pool.mu.Unlock()
	h.draining = true
}

// Leave implements [tipstaff.Host].
func (h *host) Leave() {
	h.pool.mu.Lock()
	defer h.pool.mu.Unlock()
	h.leave()
}

// leave takes the host out of the pool. Those who wait for its answers see it. Called
// with mu held.
func (h *host) leave() {
	if h.left {
		return
	}
	h.left, h.orders = true, nil
	close(h.gone)
	h.pool.hosts = slices.DeleteFunc(h.pool.hosts, func(other *host) bool { return other == h })
	h.pool.announce()
}
