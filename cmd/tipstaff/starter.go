package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cli"
	"github.com/tipstaff/tipstaff/delivery"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/process"
	"github.com/tipstaff/tipstaff/provider"
	"github.com/tipstaff/tipstaff/worker"
	ws "github.com/tipstaff/tipstaff/workspace"
)

// starter is what `tipstaff init` writes. It starts git alone.
func starter(ctx context.Context, o cli.StarterOptions) (cli.Starter, error) {
	first := provider.Vendors()[0]
	start := ws.Start{Python: o.Python, Models: keyedModels(), Example: ws.StarterModel{Provider: first.Provider, Model: first.Model, Key: first.Keys[0]}}
	made := cli.Starter{Key: start.Example.Key, Missing: len(start.Models) == 0, Workers: worker.Installed(exec.LookPath)}
	if o.Agent && made.Missing {
		start.Models = []ws.StarterModel{start.Example}
	}
	if len(start.Models) > 0 {
		made.Model, made.Key = start.Models[0].Model, start.Models[0].Key
	}
	if len(o.Server) > 0 {
		made.Server = serverName(o.Server)
		start.Server = &ws.StarterServer{Name: made.Server, Command: o.Server}
	}
	if o.Worker != "" && !slices.Contains(worker.Types(), o.Worker) {
		return cli.Starter{}, tipstaff.Errorf(tipstaff.InvalidArgument, "there is no type of worker %s%s", tipstaff.Quote(o.Worker, 80), tipstaff.DidYouMean(o.Worker, worker.Types())).
			WithHint("types are %s", strings.Join(worker.Types(), ", "))
	}
	var err error
	if start.Worker, made.Unborn, err = starterWorker(ctx, o); err != nil {
		return cli.Starter{}, err
	}
	made.Worker = start.Worker
	for _, f := range start.Files() {
		made.Files = append(made.Files, cli.StarterFile(f))
	}
	return made, nil
}

// starterWorker is the type of the worker that makes changes in a workspace; "": in none,
// because it is in no repository.
func starterWorker(ctx context.Context, o cli.StarterOptions) (typ string, unborn bool, err error) {
	git := process.Git()
	if git == nil && o.Worker == "" {
		return "", false, nil
	}
	if git == nil {
		return "", false, tipstaff.Errorf(tipstaff.NotAGitRepository, "no git is on PATH: workers make their changes in git worktrees").WithHint("install git")
	}
	dir, err := filepath.Abs(o.Workspace)
	if err != nil {
		return "", false, err
	}
	repo, err := delivery.Open(ctx, git, dir)
	if err == nil {
		_, err = repo.Resolve(ctx, "HEAD")
	}
	var e *tipstaff.Error
	switch {
	case errors.As(err, &e) && e.Code == tipstaff.NoCommits:
		unborn = true
	case errors.As(err, &e) && o.Worker == "":
		return "", false, nil
	case err != nil:
		return "", false, err
	}
	if o.Worker != "" {
		return o.Worker, unborn, nil
	}
	return ws.Scripted, unborn, nil
}

// launchers are programs that start the one that a later word names.
var launchers = []string{"npx", "uvx", "bunx", "pnpx", "npm", "pnpm", "yarn", "uv", "pipx", "python", "python3", "node", "deno", "bun", "docker", "go", "sh", "bash", "exec", "run", "dlx", "tool", "env"}

var (
	serverAffix = regexp.MustCompile(`^(mcp-server|server|mcp)-|-(mcp-server|server|mcp)$`)
	notOfAName  = regexp.MustCompile(`[^A-Za-z0-9_-]+`)
)

// serverName makes a name of the command that starts a server: that of what it runs, without
// a scope, a version, an extension, or the word server.
func serverName(command []string) string {
	named := ""
	for _, word := range command {
		base := path.Base(word)
		if strings.HasPrefix(word, "-") || slices.Contains(launchers, base) {
			continue
		}
		named = word
		break
	}
	base, _, _ := strings.Cut(path.Base(named), "@")
	base, _, _ = strings.Cut(base, ":")
	if extension := path.Ext(base); extension != "" && extension != base {
		base = strings.TrimSuffix(base, extension)
	}
	name := strings.Trim(notOfAName.ReplaceAllString(serverAffix.ReplaceAllString(base, ""), "-"), "-")
	if !document.IsName(name) || name == "builtin" || name == worker.ServerName {
		return "server"
	}
	return name
}

// keyedModels are the default models of vendors whose keys are in the environment.
func keyedModels() (models []ws.StarterModel) {
	for _, v := range provider.Vendors() {
		for _, key := range v.Keys {
			if os.Getenv(key) != "" {
				models = append(models, ws.StarterModel{Provider: v.Provider, Model: v.Model, Key: key})
				break
			}
		}
	}
	return models
}
