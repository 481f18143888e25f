package main

import (
	"io"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/cli"
)

// approve is who answers the approvals of a turn where no person is asked. Answers that
// follow from what tools declare are recorded as auto.
func approve(mode string, out io.Writer) tipstaff.Ask {
	if mode == cli.ApproveAuto {
		return agent.Asker(agent.AutoAllow{}, "auto")
	}
	return agent.Asker(&agent.Interactive{Out: out}, "")
}
