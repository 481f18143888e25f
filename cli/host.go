package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

// Attached is where hosts of agents reach a run that this process drives.
type Attached struct {
	Environ []string // variables by which a host finds it
	Close   func()   // lets hosts go, and ends those that were started
}

func (a *app) hostFlag(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&a.hosts, "host", nil, "start this `command` to serve the remote stages of a pipeline; may be repeated")
}

// hasRemote reports whether a program has stages that are done by hosts.
func hasRemote(o *tipstaff.Outline) bool {
	if o == nil || o.Kind != tipstaff.ProgramPipeline {
		return false
	}
	return slices.ContainsFunc(o.Children, func(stage *tipstaff.Outline) bool { return stage.Hosted })
}

// mayHost refuses --host where there is nothing to serve.
func (a *app) mayHost(o *tipstaff.Outline) error {
	if len(a.hosts) > 0 && !hasRemote(o) {
		return &usageError{message: "--host serves remote stages, and there are none"}
	}
	return nil
}

// checkHosts has a program looked at before it is started with hosts.
func (a *app) checkHosts(ctx context.Context, svc tipstaff.Service, req tipstaff.StartRequest) error {
	if len(a.hosts) == 0 {
		return nil
	}
	checked, err := svc.Validate(ctx, tipstaff.ValidateRequest{Start: &req})
	if err != nil {
		return nil // starting it says so, too, and what can be done about it
	}
	return a.mayHost(checked.Outline)
}

// attach lets hosts attach to a run with remote stages while it is driven. Whoever
// starts none here is told how one finds it.
func (a *app) attach(s *tipstaff.Started, f *follower) (release func()) {
	if err := a.mayHost(s.Outline); err != nil {
		f.tell(err.Error())
	}
	if !hasRemote(s.Outline) || a.server != "" { // where hosts attach themselves
		return func() {}
	}
	attached, err := a.session.Attach(s.Run, a.hosts, f.tell)
	if err != nil {
		f.tell("remote stages cannot be served: " + clean(err.Error()))
		return func() {}
	}
	if len(a.hosts) == 0 {
		f.tell(fmt.Sprintf("remote stages wait for hosts with %s", clean(strings.Join(attached.Environ, " "))))
	}
	return attached.Close
}
