package process

import (
	"context"
	"os"

	"github.com/tipstaff/tipstaff/delivery"
	"github.com/tipstaff/tipstaff/supervisor"
	"github.com/tipstaff/tipstaff/tool/builtin"
)

// maxGitOutput is more than git prints of any repository that a person works in.
const maxGitOutput = 1 << 30

// Git is the git on PATH; nil: there is none.
func Git() *delivery.Git {
	path, err := builtin.LookProgram("", "git")
	if err != nil {
		return nil
	}
	return &delivery.Git{Env: os.Getenv, Run: func(ctx context.Context, dir string, env []string, stdin []byte, args ...string) ([]byte, error) {
		done, err := supervisor.Output(ctx, supervisor.Command{Path: path, Args: append([]string{"git"}, args...), Dir: dir, Env: env}, stdin, maxGitOutput)
		if err == nil && done.Exit != (supervisor.Exit{}) {
			err = &delivery.ExitError{Code: done.Exit.Status(), Stderr: string(done.Stderr)}
		}
		return done.Stdout, err
	}}
}
