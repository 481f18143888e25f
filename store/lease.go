package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Acquire implements [flow.Log]. The records that the drive will load are checked
// first: nothing is written to a run that is not what was written before.
func (s *Store) Acquire(ctx context.Context, run string, owner flow.Owner) (lease flow.Lease, err error) {
	for {
		checked, err := s.load(ctx, run)
		if err != nil {
			return flow.Lease{}, err
		}
		if own := s.Keys(); checked.draft.Keys != (tipstaff.RunKeys{}) && checked.draft.Keys.Executor != own.Executor {
			return flow.Lease{}, s.otherKeys()
		}
		var now loading
		err = s.db.Do(ctx, &Op{Drafts: 1, Apply: func(t *Tx) (err error) {
			now = *checked
			lease, err = t.acquire(run, owner, &now)
			return err
		}})
		if errors.Is(err, errMoved) {
			continue
		}
		if err != nil {
			return flow.Lease{}, err
		}
		s.acquired.Store(run, &now)
		return lease, nil
	}
}

// errMoved: the run has begun another segment since it was looked at.
var errMoved = errors.New("the run has moved on")

// acquire gives the run to an owner and records it, unless it has ended or the
// process that holds the lease lives.
func (t *Tx) acquire(run string, owner flow.Owner, checked *loading) (flow.Lease, error) {
	st, err := t.state(run)
	if err == nil && st.ended() {
		err = fmt.Errorf("%w: %s", flow.ErrEnded, st.id)
	}
	if err == nil && st.held {
		err = t.refuseLiving(st)
	}
	if err == nil {
		err = t.takeLaunch(st, owner)
	}
	if err == nil {
		err = t.agree(st, checked)
	}
	if err != nil {
		return flow.Lease{}, err
	}
	process, err := json.Marshal(owner)
	if err != nil {
		return flow.Lease{}, err
	}
	err = t.exec(`UPDATE runs SET holder = ?, owner = ?, heartbeat = ?, driver = ? WHERE n = ?`, t.s.holder, string(process), t.now.UnixNano(), owner.Kind, st.n)
	if err != nil {
		return flow.Lease{}, err
	}
	st.sound, st.held, st.mine = true, true, true
	st.epoch++
	d := flow.Draft{Kind: flow.KindRunResumed, Body: flow.JSON(flow.RunStarted{Epoch: st.epoch, Kind: owner.Kind, Pid: owner.Pid})}
	if st.owned == "" {
		d.Kind = flow.KindRunStarted
	}
	return flow.Lease{Run: st.id, Epoch: st.epoch}, t.append(st, st.epoch, d)
}

// agree reads on what was checked a moment ago and compares where it ends with where
// the next record will be appended.
func (t *Tx) agree(st *runState, l *loading) error {
	if err := l.readOn(context.Background(), t.c, st.seq); err != nil {
		return err
	}
	switch head := l.part.Head(); {
	case l.moved:
		return errMoved
	case head.Seq != st.seq || head.Hash != st.hash:
		return fmt.Errorf("%w: run %s ends at record %d, the next one would follow %d", flow.ErrIntegrity, st.id, head.Seq, st.seq)
	case l.row.Head != head.Seq:
		return l.compare(string(st.machine.State))
	}
	return nil
}

// refuseLiving is ErrBusy if the process that holds the lease lives.
func (t *Tx) refuseLiving(st *runState) error {
	return t.query(func(r Row) error {
		owner, err := ReadOwner(r.Bytes(0))
		if err == nil && t.s.opts.Alive(*owner, r.Time(1)) {
			return fmt.Errorf("%w: %s is driven by process %d on %s", flow.ErrBusy, st.id, owner.Pid, owner.Host)
		}
		return err
	}, `SELECT owner, heartbeat FROM runs WHERE n = ?`, st.n)
}

// ReadOwner reads the column that names the process that holds a lease.
func ReadOwner(b []byte) (*flow.Owner, error) {
	owner := new(flow.Owner)
	if err := json.Unmarshal(b, owner); err != nil {
		return nil, fmt.Errorf("%w: the stored owner of a run: %w", ErrDamaged, err)
	}
	return owner, nil
}

// release frees the lease.
func (t *Tx) release(st *runState) error {
	if !st.held {
		return nil
	}
	st.held, st.mine = false, false
	return t.exec(`UPDATE runs SET holder = NULL, owner = NULL, heartbeat = NULL WHERE n = ?`, st.n)
}

// owned is the state of a run for its owner, who is fenced off by a later one.
func (t *Tx) owned(l flow.Lease) (*runState, error) {
	st, err := t.state(l.Run)
	switch {
	case err != nil:
		return nil, err
	case st.ended():
		return nil, fmt.Errorf("%w: %w: %s", flow.ErrLeaseLost, flow.ErrEnded, l.Run)
	case !st.held:
		return nil, fmt.Errorf("%w: %s: the lease of epoch %d was released by %s", flow.ErrLeaseLost, l.Run, l.Epoch, st.owned)
	case st.epoch != l.Epoch:
		return nil, fmt.Errorf("%w: %s: epoch %d follows %d", flow.ErrLeaseLost, l.Run, st.epoch, l.Epoch)
	}
	return st, nil
}

// lateAfter is how long after an append was asked for its owner can be sure that nobody has
// taken the run since: others wait for longer, for leases are renewed so often.
const lateAfter = heartbeatEvery

// unlessLate is done for an owner that may have slept, or waited for its database, until
// somebody else took the run: its records are in the journal, and what they announce must not
// be done any more.
func (s *Store) unlessLate(l flow.Lease, done func(error)) func(error) {
	began := time.Now()
	return func(err error) {
		if err == nil && time.Since(began) > lateAfter {
			err = s.db.Query(context.Background(), func(r Row) error {
				if r.Int(0) != l.Epoch {
					return fmt.Errorf("%w: %s: epoch %d follows %d", flow.ErrLeaseLost, l.Run, r.Int(0), l.Epoch)
				}
				return nil
			}, `SELECT epoch FROM runs WHERE id = ?`, l.Run)
		}
		done(err)
	}
}

// Append implements [flow.Log]. Payloads over the limit are made durable before
// it returns.
func (s *Store) Append(l flow.Lease, drafts []flow.Draft, done func(error)) {
	if s.opts.Shared {
		done = s.unlessLate(l, done)
	}
	drafts, blobs, err := s.detach(drafts)
	if err != nil {
		done(err)
		return
	}
	o := &Op{Drafts: len(drafts)}
	for _, d := range drafts {
		o.Bytes += len(d.Body)
	}
	o.Apply = func(t *Tx) error {
		st, err := t.owned(l)
		if err != nil {
			return err
		}
		return t.appendAll(st, l.Epoch, drafts, blobs)
	}
	s.db.Submit(o, done)
}

// Park implements [flow.Log].
func (s *Store) Park(l flow.Lease, p flow.Parking) (parked bool, err error) {
	err = s.db.Do(context.Background(), &Op{Drafts: 1, Apply: func(t *Tx) (err error) {
		parked, err = t.park(l, p)
		return err
	}})
	return parked && err == nil, err
}

func (t *Tx) park(l flow.Lease, p flow.Parking) (bool, error) {
	st, err := t.owned(l)
	if err != nil {
		return false, err
	}
	// A cancel holds until the run ends; a correction that came before the present
	// segment was honoured by it.
	if st.cancel > 0 || st.correction > st.cont {
		return false, nil
	}
	for _, gate := range p.Gates {
		decided, err := t.decided(st, gate)
		if err != nil || decided > 0 {
			return false, err
		}
	}
	st.wake = p.WakeAt
	for _, run := range p.Runs {
		if over, err := t.number(`SELECT count(*) FROM runs WHERE id = ? AND ended IS NOT NULL`, run); err != nil {
			return false, err
		} else if over > 0 {
			st.wake = t.now
		}
	}
	return true, t.append(st, l.Epoch, flow.Draft{Kind: flow.KindRunParked, Body: p.Body()})
}
