package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// readLaunch reads the column that holds the process which was started for a run.
func readLaunch(b []byte) (*flow.Launch, error) {
	if len(b) == 0 {
		return nil, nil
	}
	l := new(flow.Launch)
	if err := json.Unmarshal(b, l); err != nil {
		return nil, fmt.Errorf("%w: the stored launch of a run: %w", ErrDamaged, err)
	}
	return l, nil
}

func (t *Tx) launchOf(st *runState) (l *flow.Launch, err error) {
	if err = t.alone("launch " + st.id); err != nil {
		return nil, err
	}
	err = t.query(func(r Row) (err error) { l, err = readLaunch(r.Bytes(0)); return err }, `SELECT launch FROM runs WHERE n = ?`, st.n)
	return l, err
}

func (t *Tx) setLaunch(st *runState, l *flow.Launch) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	t.Launches = append(t.Launches, st.id)
	return t.exec(`UPDATE runs SET launch = ? WHERE n = ?`, string(text), st.n)
}

// launch stores what is about to be started for a run, if one more may be.
func (t *Tx) launch(st *runState, l *flow.Launch) error {
	if err := t.room(st, l); err != nil {
		return err
	}
	return t.setLaunch(st, l)
}

// room looks at the other runs that have a process: at those that were launched, and at
// those that somebody drives in the same project.
func (t *Tx) room(st *runState, l *flow.Launch) error {
	if err := t.alone("launches"); err != nil {
		return err
	}
	type other struct {
		id            string
		n             int64
		project       string
		lives, driven bool
	}
	var (
		others []other
		own    string
	)
	err := t.query(func(r Row) error {
		launch, err := readLaunch(r.Bytes(3))
		if err != nil {
			return err
		}
		o := other{n: r.Int(0), id: r.Text(1), project: r.Text(2), lives: launch.Lives(t.s.opts.Alive, r.Time(5), t.now)}
		if r[4] != nil {
			owner, err := ReadOwner(r.Bytes(4))
			if err != nil {
				return err
			}
			o.driven = t.s.opts.Alive(*owner, r.Time(5))
		}
		if o.n == st.n {
			own = o.project
		} else {
			others = append(others, o)
		}
		return nil
	}, `SELECT n, id, project, launch, owner, heartbeat FROM runs
		WHERE (launch IS NOT NULL OR holder IS NOT NULL OR n = ?) AND state NOT IN ('completed', 'failed', 'cancelled')`, st.n)
	if err != nil {
		return err
	}
	living := 0
	for _, o := range others {
		if o.lives {
			living++
		}
		if !l.Checkout || o.project != own || !o.lives && !o.driven {
			continue
		}
		draft, err := readDraft(context.Background(), t.c, o.id, o.n)
		if err != nil {
			return err
		}
		if draft.Files != nil && draft.Files.Mode == document.FilesCheckout {
			return fmt.Errorf("%w: run %s", flow.ErrProjectBusy, o.id)
		}
	}
	if living >= l.Max {
		return fmt.Errorf("%w: %d of %d", flow.ErrCapacity, living, l.Max)
	}
	return nil
}

// takeLaunch lets the process that was launched for a run take its lease, and nobody else
// while that is to be expected. Another process may have the token: it is taken once, and
// again by who took it.
func (t *Tx) takeLaunch(st *runState, owner flow.Owner) error {
	l, err := t.launchOf(st)
	if err != nil || l == nil {
		return err
	}
	switch {
	case l.Token == owner.Launch && (l.Exit != nil || l.Over || l.Epoch > 0 && *l.Process != owner):
		return fmt.Errorf("%w: %s: its launch was used before", flow.ErrLeaseLost, st.id)
	case l.Token == owner.Launch:
		l.Process, l.Epoch = &owner, st.epoch+1
		return t.setLaunch(st, l)
	case l.Pending(t.s.opts.Alive, t.now):
		return fmt.Errorf("%w: a process was just started for %s", flow.ErrBusy, st.id)
	}
	return nil
}

// endLaunch notes that the process of a run was found dead.
func (t *Tx) endLaunch(st *runState) error {
	l, err := t.launchOf(st)
	if err != nil || l == nil || l.Over {
		return err
	}
	l.Over = true
	return t.setLaunch(st, l)
}

// UpdateLaunch changes what is known of a launch, unless another has followed it.
func (s *Store) UpdateLaunch(ctx context.Context, run, token string, change func(*flow.Launch)) error {
	return s.db.Do(ctx, &Op{Apply: func(t *Tx) error {
		st, err := t.state(run)
		if err != nil {
			return err
		}
		l, err := t.launchOf(st)
		if err != nil || l == nil || l.Token != token {
			return err
		}
		change(l)
		return t.setLaunch(st, l)
	}})
}

// supervisorSchema is the schema of supervisor.json.
const supervisorSchema = "tipstaff.supervisor.v1"

// SupervisorFile is what supervisor.json says of a run: its latest launch, and the lease
// that it took. nil: it was never launched.
func (s *Store) SupervisorFile(ctx context.Context, run string) ([]byte, error) {
	row, err := s.Run(ctx, run)
	if err != nil || row.Launch == nil {
		return nil, err
	}
	l := row.Launch
	file := tipstaff.SupervisorFile{Schema: supervisorSchema, Run: row.ID, Workspace: s.Keys().Executor, Launch: l.Token, Epoch: l.Epoch,
		Argv: l.Argv, StartedAt: l.At.UTC(), Containment: l.Containment, Exit: l.Exit}
	if p := l.Process; p != nil {
		file.Pid, file.Pgid, file.Start, file.Boot, file.PidNS, file.Host = p.Pid, p.Pid, p.Start, p.Boot, p.PidNS, p.Host
	}
	text, err := json.MarshalIndent(file, "", "  ")
	return append(text, '\n'), err
}
