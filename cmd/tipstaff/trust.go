package main

import (
	"os"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/supervisor"
	"github.com/tipstaff/tipstaff/trust"
	ws "github.com/tipstaff/tipstaff/workspace"
)

// trustVariable has this process trust every workspace if it is 1. The processes of runs inherit
// it, and no program of a run does.
const trustVariable = "TIPSTAFF_TRUST"

// keeper of the record of the user of this process.
var trusts = &trust.Keeper{
	State:      func() (string, error) { return ws.StateDir(os.Getenv) },
	Everywhere: func() bool { return os.Getenv(trustVariable) == "1" },
	Own:        func() []string { return supervisor.Membership().Runs },
}

// trusting has a runner start nothing in a workspace that is not trusted.
func trusting(config runner.Config) runner.Config {
	config.Trust = trusts.Check
	config.State, _ = trusts.State() // without one nothing is kept there
	return config
}

// folderTrust is the record as commands use it.
type folderTrust struct{ *trust.Keeper }

func (k folderTrust) Of(workspace string) (tipstaff.FolderTrust, error) {
	dir, err := folder(workspace)
	if err != nil {
		return tipstaff.FolderTrust{}, err
	}
	starts, err := trust.Starts(dir)
	if err != nil {
		return tipstaff.FolderTrust{}, err
	}
	return k.Keeper.Of(dir, starts)
}

func (k folderTrust) Record(shown tipstaff.FolderTrust) error {
	return k.Keeper.Record(shown, time.Now())
}

func (k folderTrust) Locked(workspace string) error {
	dir, err := folder(workspace)
	if err != nil {
		return err
	}
	return k.Keeper.Locked(dir, time.Now())
}

func (k folderTrust) Everywhere() error { return os.Setenv(trustVariable, "1") }

// requireTrust refuses a workspace that is not trusted, for what starts something without a
// runner.
func requireTrust(workspace string) error {
	t, err := folderTrust{trusts}.Of(workspace)
	if err != nil || t.Trusted {
		return err
	}
	return t.Refusal()
}
