package main

import (
	"io"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/cli"
)

// approve is who answers the approvals of a turn at the command line. A person's
// answers are recorded as such, those that follow from what tools declare as auto.
func approve(mode string, in io.Reader, out io.Writer, tty bool) tipstaff.Ask {
	if mode == cli.ApproveAuto {
		return agent.Asker(agent.AutoAllow{}, "auto")
	}
	return agent.Asker(&agent.Interactive{In: in, Out: out, TTY: tty}, "")
}
