package flow

import (
	"fmt"
	"slices"
	"time"
)

// besides asks what the drafts want written to other runs. Nothing is stored yet,
// so that one that refuses leaves nothing behind.
func (m *Mem) besides(drafts []Draft) (all []beside, err error) {
	for _, d := range drafts {
		if d.Beside == nil {
			continue
		}
		r, ok := m.runs[d.Beside.Run]
		if !ok {
			return nil, fmt.Errorf("%w: %s", ErrNoRun, d.Beside.Run)
		}
		more, err := d.Beside.Write(&memTx{id: d.Beside.Run, run: r, now: time.Now().UTC()})
		switch {
		case err != nil:
			return nil, err
		case r.ended != "" && len(more) > 0:
			return nil, fmt.Errorf("%w: %s", ErrEnded, d.Beside.Run)
		}
		all = append(all, beside{r, more})
	}
	return all, nil
}

// beside is what another run is given.
type beside struct {
	run    *memRun
	drafts []Draft
}

func (b beside) store() {
	for _, d := range b.drafts {
		if rec, ok := b.run.addChecked(d, 0); ok {
			b.run.tell(rec)
		}
	}
}

// memTx is what a foreign writer sees of a run in memory: of its row, what the log
// itself knows.
type memTx struct {
	id  string
	run *memRun
	now time.Time
}

func (t *memTx) Now() time.Time { return t.now }

func (t *memTx) Row() Row {
	return Row{ID: t.id, State: string(t.run.ended), Epoch: t.run.epoch, Head: int64(t.run.len()), Cont: int64(t.run.cont + 1), Cancel: t.run.cancel != nil}
}

func (t *memTx) Gates(open bool) (gates []GateRow, err error) {
	at := map[string]int{}
	for _, rec := range t.run.from(0) {
		switch {
		case Opens(rec.Kind):
			b, err := ReadOpened(rec.Kind, rec.Body)
			if err != nil {
				return nil, err
			}
			at[b.Gate] = len(gates)
			gates = append(gates, GateRow{Run: t.id, ID: b.Gate, Kind: b.Kind, Key: rec.Path, Opened: rec.Seq, OpenedAt: rec.At,
				Body: rec.Body, ExpiresAt: b.ExpiresAt.Time})
		case Closes(rec.Kind):
			b, err := ReadResolved(rec.Kind, rec.Body)
			if err != nil {
				return nil, err
			}
			if i, ok := at[b.Gate]; ok {
				gates[i].Decided, gates[i].Via, gates[i].Decision = rec.Seq, b.Via, rec.Body
			}
		}
	}
	if open {
		gates = slices.DeleteFunc(gates, func(g GateRow) bool { return g.Decided > 0 })
	}
	return gates, nil
}
