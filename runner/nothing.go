package runner

import (
	"context"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// nothing is the store of a runner that was given none, in a workspace where nothing was
// ever run: it can be looked at, and stays as it is. It has every method of its own: one that
// is added to flow.Store is missing here until somebody says what it finds.
type nothing struct{}

var _ flow.Store = nothing{}

// errNothing answers whoever wants to write.
func errNothing() error {
	return tipstaff.Errorf(tipstaff.StoreUnavailable, "no store was opened here: nothing can be kept")
}

func (nothing) Acquire(context.Context, string, flow.Owner) (flow.Lease, error) {
	return flow.Lease{}, flow.ErrNoRun
}

func (nothing) Load(context.Context, string) (flow.History, error) {
	return flow.History{}, flow.ErrNoRun
}
func (nothing) Append(_ flow.Lease, _ []flow.Draft, done func(error)) { done(errNothing()) }
func (nothing) Park(flow.Lease, flow.Parking) (bool, error)           { return false, errNothing() }
func (nothing) Watch(string, func(flow.Record)) (stop func())         { return func() {} }

func (nothing) Create(context.Context, flow.NewRun, []flow.Draft) error { return errNothing() }
func (nothing) PutBlob(context.Context, []byte) (string, error)         { return "", errNothing() }
func (nothing) Write(context.Context, string, func(flow.Tx) ([]flow.Draft, error)) error {
	return flow.ErrNoRun
}

func (nothing) Run(context.Context, string) (flow.Row, error)                 { return flow.Row{}, flow.ErrNoRun }
func (nothing) Runs(context.Context, flow.Query) ([]flow.Row, error)          { return nil, nil }
func (nothing) Due(context.Context, string) ([]string, error)                 { return nil, nil }
func (nothing) Gates(context.Context, flow.GateQuery) ([]flow.GateRow, error) { return nil, nil }
func (nothing) CountRuns(context.Context, flow.Query) (int, error)            { return 0, nil }
func (nothing) CostOfRuns(context.Context, flow.Query) (int64, error)         { return 0, nil }
func (nothing) Blob(context.Context, string) ([]byte, error)                  { return nil, flow.ErrNoBlob }
func (nothing) Keeps(context.Context, string, string) (bool, error)           { return false, flow.ErrNoRun }
func (nothing) Follow(string) (<-chan struct{}, func())                       { return nil, func() {} }

func (nothing) CountStates(context.Context, flow.Query) (map[string]int, error) { return nil, nil }
func (nothing) CountGates(context.Context, flow.GateQuery) (map[string]int, error) {
	return nil, nil
}

func (nothing) Records(context.Context, string, int64, int) ([]flow.Stored, error) {
	return nil, flow.ErrNoRun
}
