package process

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/delivery"
	"github.com/tipstaff/tipstaff/supervisor"
	"github.com/tipstaff/tipstaff/tool/builtin"
	"github.com/tipstaff/tipstaff/worker"
)

// maxGitOutput is more than git prints of any repository that a person works in.
const maxGitOutput = 1 << 30

// gitLimit is the variable that says how long one call of git may take.
const gitLimit = "TIPSTAFF_GIT_LIMIT"

// Git is the git on PATH; nil: there is none.
func Git() *delivery.Git {
	path, err := builtin.LookProgram("", "git")
	if err != nil {
		return nil
	}
	limit, wrong := time.Duration(0), error(nil)
	if text := os.Getenv(gitLimit); text != "" {
		if limit, err = time.ParseDuration(text); err != nil || limit <= 0 {
			limit, wrong = 0, fmt.Errorf("%s is %q: it is a duration such as 2m", gitLimit, text)
		}
	}
	return &delivery.Git{Env: os.Getenv, Limit: limit, LimitHint: gitLimit + " sets another limit, such as 10m", Private: worker.PrivateFile, Run: func(ctx context.Context, dir string, env []string, stdin []byte, args ...string) ([]byte, error) {
		if wrong != nil {
			return nil, wrong
		}
		done, err := supervisor.Output(ctx, supervisor.Command{Path: path, Args: append([]string{"git"}, args...), Dir: dir, Env: env}, stdin, maxGitOutput)
		if err == nil && done.Exit != (supervisor.Exit{}) {
			err = &delivery.ExitError{Code: done.Exit.Status(), Stderr: string(done.Stderr)}
		}
		if err == nil && done.Cut {
			err = fmt.Errorf("git %s printed more than %d bytes", strings.Join(args, " "), maxGitOutput)
		}
		return done.Stdout, err
	}}
}
