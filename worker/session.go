package worker

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// sessionPath names the session of a step or stage in its run.
func sessionPath(l *Local) string { return l.Path + "#" + strconv.Itoa(l.Session) }

// sessionUUID is the id that Tipstaff gives a session: a UUID of version 5 over run, path
// and number. It is the same whenever the call is made again, and another one in a fork.
func sessionUUID(run, path string) string {
	h := sha1.New()
	h.Write([]byte{0x6b, 0xa7, 0xb8, 0x12, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8}) // the name space of object ids
	fmt.Fprintf(h, "tipstaff:%s:%s", run, path)
	u := h.Sum(nil)[:16]
	u[6] = u[6]&0x0f | 0x50
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// find looks for the session of an invocation. Where there is none it is described, and
// stored when it is leased.
func (x *turn) find(ctx context.Context) (err error) {
	path := sessionPath(x.local)
	if x.session, err = x.host.Store.FindSession(ctx, x.run, path); unknownSession(err) {
		err, x.unknown = nil, true
		x.session = tipstaff.WorkerSession{ID: x.host.NewID(), Worker: x.local.Worker, Type: x.local.Type, Host: x.host.Self.Host, Dir: x.dir, Model: x.local.Model,
			Posture: string(x.local.Posture), Settings: x.local.Settings, RoleDigest: digestOf(x.local.Preamble), Run: x.run, Path: path, Task: x.local.TaskID,
			User: x.host.User, State: tipstaff.SessionNew, Previous: []string{}, Invocations: []tipstaff.SessionInvocation{}}
	}
	x.session.Folder = filepath.Join(x.host.Folder, x.session.ID) // where the store is now
	return err
}

// lease takes the session for the invocation. One that was used since it was found is busy.
func (x *turn) lease(ctx context.Context) (err error) {
	take := func(s *tipstaff.WorkerSession) error {
		if err := x.usable(s); err != nil {
			return err
		}
		if s.SessionID != x.session.SessionID || s.State != x.session.State {
			return x.busy(s)
		}
		owner := x.host.Self
		s.Lease, s.Folder = &owner, x.session.Folder
		s.Invocations = append(s.Invocations, tipstaff.SessionInvocation{ID: x.id, Started: x.host.Now()})
		return nil
	}
	if s := x.session; x.unknown {
		if err = take(&s); err == nil {
			err = x.host.Store.PutSession(ctx, s)
		}
	} else {
		err = x.host.Store.UpdateSession(ctx, s.ID, take)
	}
	x.leased = err == nil
	return err
}

// usable says why a session cannot be gone on with.
func (x *turn) usable(s *tipstaff.WorkerSession) error {
	l := x.local
	switch {
	case s.Lease != nil && x.host.Alive(*s.Lease):
		return x.busy(s)
	case s.Worker != l.Worker || s.Type != l.Type:
		return tipstaff.Errorf(tipstaff.SessionMismatch, "session %s is of worker %s (%s), not of %s (%s)", s.ID, s.Worker, s.Type, l.Worker, l.Type)
	case s.Host != x.host.Self.Host:
		return tipstaff.Errorf(tipstaff.SessionElsewhere, "session %s is on host %s: its files are there", s.ID, s.Host)
	case s.State == tipstaff.SessionLost:
		return tipstaff.Errorf(tipstaff.SessionIsClosed, "worker %s does not know session %s any more", s.Worker, s.SessionID).WithHint("begin a fresh one")
	case s.State == tipstaff.SessionClosed:
		return tipstaff.Errorf(tipstaff.SessionIsClosed, "session %s is closed: its task has ended", s.ID)
	}
	return nil
}

func (x *turn) busy(s *tipstaff.WorkerSession) error {
	return tipstaff.Errorf(tipstaff.SessionBusy, "session %s of worker %s has an invocation under way, by another process", s.ID, s.Worker).WithHint("wait until it has ended")
}

// update changes the session's row.
func (x *turn) update(f func(*tipstaff.WorkerSession)) error {
	return x.host.Store.UpdateSession(context.WithoutCancel(x.ctx), x.session.ID, func(s *tipstaff.WorkerSession) error {
		f(s)
		return nil
	})
}

// release gives the session back with what became of it.
func (x *turn) release(res *Result) error {
	if !x.leased {
		return nil
	}
	return x.update(func(s *tipstaff.WorkerSession) {
		s.Lease = nil
		if n := len(s.Invocations) - 1; n >= 0 && s.Invocations[n].ID == x.id {
			if res == nil { // nothing ran
				s.Invocations = s.Invocations[:n]
				return
			}
			s.Invocations[n].Ended, s.Invocations[n].Outcome = x.host.Now(), string(res.Outcome)
		}
		if res == nil {
			return
		}
		s.CLIVersion = res.CLIVersion
		s.Totals = res.Totals
		switch {
		case res.Outcome == SessionLost:
			s.State = tipstaff.SessionLost
		case res.Outcome == SessionConflict && s.State == tipstaff.SessionNew && res.SessionID != "": // the CLI has it, whoever made it
			s.SessionID, s.State = res.SessionID, tipstaff.SessionLive
		}
	})
}

// told takes the id that the CLI tells.
func (x *turn) told(id string) error {
	if id == "" {
		return nil
	}
	return x.update(func(s *tipstaff.WorkerSession) {
		if s.SessionID != "" && s.SessionID != id && !slices.Contains(s.Previous, s.SessionID) {
			s.Previous = append(s.Previous, s.SessionID)
		}
		s.SessionID, s.State = id, tipstaff.SessionLive
	})
}

// conversation is what the CLI is asked to go on with or to begin.
func (x *turn) conversation(ctx context.Context) (c Conversation, resume bool, err error) {
	s := &x.session
	c = Conversation{ID: s.SessionID, Totals: s.Totals}
	if s.State == tipstaff.SessionLive && s.SessionID != "" {
		return c, true, nil
	}
	if makesID(s.Type) {
		c.ID = sessionUUID(x.run, s.Path)
	}
	if x.resumes && x.host.Base != "" { // a fork shares no session
		source, err := x.host.Store.FindSession(ctx, x.host.Base, s.Path)
		if err != nil && !unknownSession(err) {
			return c, false, err
		}
		if source.SessionID != "" && copiesSessions(s.Type) {
			c.ForkOf, c.Totals = source.SessionID, source.Totals
		}
	}
	return c, false, nil
}

func unknownSession(err error) bool {
	var e *tipstaff.Error
	return errors.As(err, &e) && e.Code == tipstaff.SessionUnknown
}

// Store keeps tasks and sessions.
type Store interface {
	// OpenTask makes the task that stands for a path of a run, or finds it.
	OpenTask(ctx context.Context, run, path string, t tipstaff.Task) (tipstaff.Task, error)
	// RunTask is the task that the records of a run name so.
	RunTask(ctx context.Context, run, name string) (tipstaff.Task, error)
	// FindSession is session_unknown where there is none.
	FindSession(ctx context.Context, run, path string) (tipstaff.WorkerSession, error)
	// PutSession makes a session.
	PutSession(context.Context, tipstaff.WorkerSession) error
	// UpdateSession changes a session in one transaction. An error of f changes nothing.
	UpdateSession(ctx context.Context, id string, f func(*tipstaff.WorkerSession) error) error
}

// Host is what invocations need of where they run.
type Host struct {
	Store   Store
	Self    flow.Owner
	Alive   func(flow.Owner) bool
	Make    func(Settled) (Worker, error)
	User    string // whose run it is
	Base    string // the run that this one was forked from; "": none
	Folder  string // of the run's sessions and logs
	Dir     func(context.Context, Posture) (string, error)
	Environ func(Settled) ([]string, error)
	Policy  func(l *Local, dir string) Policy
	Price   Price
	Starter Starter
	Redact  func([]byte) []byte
	// Watch looks at the user's repository before an invocation. What it returns tells
	// afterwards what has changed, with digests of documents that are to be kept.
	Watch func(ctx context.Context, path string) (func(note func(flow.Event)) ([]tipstaff.Notice, []string), error)
	// Worktree: the run works in one of its own.
	Worktree bool

	NewID func() string
	Now   func() time.Time
}
