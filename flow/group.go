package flow

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// group is a running Go: its branches start in order, at most limit at once.
type group struct {
	d        *drive
	path     string // of its group.closed
	at       string // of the Context that called Go
	scope    *scope
	keep     bool
	limit    int
	branches []Branch
	results  []error
	skipped  map[string]bool // not started, by an earlier drive's record
	next     int             // the first branch not yet looked at
	begun    int             // those before this one start whatever the limit is
	active   int
	done     chan struct{}
}

func (c *fctx) Go(g Group, branches ...Branch) error {
	d := c.b.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := c.enter(); err != nil {
		return err
	}
	run, err := c.newGroup(g, branches)
	if err != nil || len(branches) == 0 {
		return err
	}
	c.b.busy = methodGo
	run.start()
	d.leave()
	d.mu.Unlock()
	<-run.done
	d.mu.Lock()
	c.b.busy = ""
	return c.joined(run)
}

func (c *fctx) newGroup(g Group, branches []Branch) (*group, error) {
	d := c.b.d
	p := c.counts()
	p.gos++
	path := join(c.path, numbered("go", p.gos))
	if len(branches) > MaxBranches {
		return nil, d.failLocked(fatal, &Misuse{path, fmt.Sprintf("a group has at most %d branches, not %d", MaxBranches, len(branches))})
	}
	run := &group{d: d, path: path, at: c.path, keep: g.KeepGoing, limit: g.Limit,
		results: make([]error, len(branches)), done: make(chan struct{})}
	run.scope = &scope{parent: c.b.scope, group: run}
	if run.limit <= 0 {
		run.limit = len(branches)
	}
	if p.branches == nil {
		p.branches = make(map[string]bool, len(branches))
	}
	for i, b := range branches {
		if b.Name == "" {
			b.Name = strconv.Itoa(i)
		}
		if fault := pathFault(join(c.path, b.Name), b.Name); fault != "" {
			return nil, d.failLocked(fatal, &Misuse{join(c.path, b.Name), fault})
		}
		if p.branches[b.Name] {
			return nil, d.failLocked(fatal, &Misuse{join(c.path, b.Name), "two branches have this name"})
		}
		p.branches[b.Name] = true
		run.branches = append(run.branches, b)
	}
	if past := d.past.groups[path]; past != nil {
		past.asked = true
		run.scope.closed, run.skipped = true, past.skipped
	}
	return run, nil
}

// start begins as many branches as may run. Called with mu held. A scope that
// an outer failure closed still starts its branches: each finds that out by
// itself, live as in replay.
func (g *group) start() {
	for g.next < len(g.branches) && (g.active < g.limit || g.next < g.begun) {
		i := g.next
		g.next++
		switch {
		case g.skipped[g.branches[i].Name]: // Go returns the failure that has closed the group
			continue
		case g.d.ending != notEnding && !g.begunBefore(g.branches[i].Name): // a later drive starts it
			g.results[i] = ErrParked
			continue
		}
		g.active++
		g.d.running++
		go g.run(i)
	}
	if g.active == 0 && g.next == len(g.branches) {
		g.d.running++ // the parent goes on: counted before it can run
		close(g.done)
	}
}

// startBegun starts the branches at which something is left of what was recorded, and
// those before them.
func (g *group) startBegun(left map[emitKey]string) bool {
	begun := g.begun
	for i := g.next; i < len(g.branches); i++ {
		path := join(g.at, g.branches[i].Name)
		for at := range left {
			if at.path == path || strings.HasPrefix(at.path, path+"/") {
				begun = i + 1
			}
		}
	}
	if begun == g.begun {
		return false
	}
	g.begun = begun
	g.start()
	return true
}

// begunBefore reports whether a drive that a correction cuts must still come by a
// branch: no later drive asks for its records, and what it has done counts.
func (g *group) begunBefore(name string) bool {
	return g.d.ending == cut && g.d.past.childrenOf(g.at)[name]
}

func (g *group) run(i int) {
	b := &branch{d: g.d, scope: g.scope}
	path := join(g.at, g.branches[i].Name)
	err := g.d.guard(b, path, g.branches[i].Run)
	g.d.mu.Lock()
	defer g.d.mu.Unlock()
	if errors.As(err, new(*continued)) {
		err = g.d.failLocked(fatal, &Misuse{path, "Continue came from a branch: only the root flow may return it"})
	}
	g.results[i] = err
	g.active--
	if failing(err) && !g.keep && !g.scope.closed {
		g.close()
	}
	g.start()
	g.d.leave()
}

// failing tells which ends of a branch close its group.
func failing(err error) bool {
	return err != nil && !Parked(err) && !errors.Is(err, ErrCancelled)
}

// close ends the group at its first failure: branches not yet started are
// skipped for good, and what is in flight is cut.
func (g *group) close() {
	g.scope.closed = true
	var names []string
	g.skipped = map[string]bool{}
	begun := g.d.past.childrenOf(g.at)
	for _, b := range g.branches[g.next:] {
		if !begun[b.Name] { // else an earlier drive started it, and its records must be asked for
			names = append(names, b.Name)
			g.skipped[b.Name] = true
		}
	}
	g.d.put(Draft{Kind: KindGroupClosed, Path: g.path, Body: JSON(GroupClosed{orEmpty(names)})})
	g.d.closeScope(g.scope)
	g.d.supersede(g.scope)
}

// joined is what Go returns: the failure of the first branch in order; with
// none, that one parked, or was cancelled. Called with mu held.
func (c *fctx) joined(g *group) error {
	d := c.b.d
	if d.ending == fatal {
		return d.failure
	}
	var failed error
	var anyParked, anyCancelled bool
	for _, err := range g.results {
		switch {
		case err == nil:
		case Parked(err):
			anyParked = true
		case errors.Is(err, ErrCancelled):
			anyCancelled = true
		case failed == nil:
			failed = err
		}
	}
	// In a drive that ends a branch may have parked where it would else have
	// failed, or been cancelled: only a later drive can say how the group ended.
	if anyParked && (failed == nil || g.keep || d.ending != notEnding) {
		return c.park()
	}
	if failed != nil {
		return failed
	}
	if anyCancelled {
		return ErrCancelled
	}
	return nil
}
