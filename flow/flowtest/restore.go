package flowtest

import (
	"context"
	"fmt"

	"github.com/tipstaff/tipstaff/flow"
)

// restore writes the first n records of another run's journal into this one, as
// if the process had died there, and recovers. Both runs come from one kind of
// bed, so that what their creation wrote is equally long.
func (r *rig) restore(from journal, n int) {
	r.t.Helper()
	if err := r.copy(from[len(r.journal()):n]); err != nil {
		r.t.Fatalf("restoring %d records: %v%v", n, err, from[:n])
	}
	if got := len(r.journal()); got != n {
		r.t.Fatalf("restored %d records of %d%v", got, n, r.journal())
	}
	r.reopen()
}

func (r *rig) copy(records journal) (err error) {
	log := r.bed.Log()
	var lease flow.Lease
	for _, rec := range records {
		switch {
		case rec.Kind == "run.started" || rec.Kind == "run.resumed":
			lease, err = log.Acquire(context.Background(), r.run, r.bed.Owner())
		case rec.Kind == "run.parked":
			err = park(log, lease, rec)
		case rec.Epoch != 0 || terminal(rec.Kind):
			err = appendNow(log, lease, rec.Draft)
		case rec.From == "executor" && rec.Kind == "policy.gate":
			err = appendNow(log, lease, rec.Draft)
		default:
			err = r.bed.Write(r.run, rec.Draft)
		}
		if err != nil {
			return fmt.Errorf("record %d, %s: %w", rec.Seq, rec.Kind, err)
		}
	}
	return nil
}

func park(log flow.Log, l flow.Lease, rec flow.Record) error {
	b := read(rec)
	parked, err := log.Park(l, flow.Parking{Gates: b.Gates, WakeAt: b.WakeAt})
	if err == nil && !parked {
		err = fmt.Errorf("it did not park")
	}
	return err
}

func appendNow(log flow.Log, l flow.Lease, drafts ...flow.Draft) error {
	done := make(chan error, 1)
	log.Append(l, drafts, func(err error) { done <- err })
	return <-done
}
