package main

import (
	"context"

	"github.com/tipstaff/tipstaff"
)

// firstRun is the Service of a workspace in which nothing was ever run. A program
// that is refused there leaves it so: the store, with its keys, is made for the
// first one that passes.
type firstRun struct {
	tipstaff.Service                                  // over no store, until it is there
	begin            func() (tipstaff.Service, error) // makes it; nil: it was made
}

func (f *firstRun) Start(ctx context.Context, req tipstaff.StartRequest) (tipstaff.Started, error) {
	if err := f.made(ctx, tipstaff.ValidateRequest{Start: &req}); err != nil {
		return tipstaff.Started{}, err
	}
	return f.Service.Start(ctx, req)
}

func (f *firstRun) Draft(ctx context.Context, req tipstaff.DraftRequest) (tipstaff.Started, error) {
	if err := f.made(ctx, tipstaff.ValidateRequest{Draft: &req}); err != nil {
		return tipstaff.Started{}, err
	}
	return f.Service.Draft(ctx, req)
}

// made makes the store, if there is none yet and the request would pass.
func (f *firstRun) made(ctx context.Context, req tipstaff.ValidateRequest) error {
	if f.begin == nil {
		return nil
	}
	if _, err := f.Service.Validate(ctx, req); err != nil {
		return err
	}
	svc, err := f.begin()
	if err != nil {
		return err
	}
	f.Service, f.begin = svc, nil
	return nil
}
