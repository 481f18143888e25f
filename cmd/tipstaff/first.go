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
	if f.begin == nil || req.DryRun {
		return f.Service.Start(ctx, req)
	}
	check := req
	check.DryRun = true
	if _, err := f.Service.Start(ctx, check); err != nil {
		return tipstaff.Started{}, err
	}
	svc, err := f.begin()
	if err != nil {
		return tipstaff.Started{}, err
	}
	f.Service, f.begin = svc, nil
	return svc.Start(ctx, req)
}
