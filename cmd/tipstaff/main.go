// Command tipstaff runs plans of AI agents' work durably: every effect is
// journaled, every tool call passes a gate, every budget is bounded.
package main

import (
	"os"

	"github.com/tipstaff/tipstaff/cli"
)

func main() {
	stop := newStop()
	env := cli.FromOS()
	env.Version = versionInfo()
	env.Open = stop.open
	env.Export = export
	os.Exit(cli.Main(stop.ctx, os.Args[1:], env))
}
