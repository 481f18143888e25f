package main

import (
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/tipstaff/tipstaff/cli"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/mcpserver"
	"github.com/tipstaff/tipstaff/pb"
	"github.com/tipstaff/tipstaff/postgres"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/sqlite"
	"github.com/tipstaff/tipstaff/web"
)

// version is set by the linker when a release is built. What needs it asks build.
var version string

// build is how this binary was made.
var build = buildOf(version, debug.ReadBuildInfo)

// buildOf is what the linker was given and, of what it was not, what the go command has left in
// the binary: the version of the module for `go install …@latest`, the commit for a build in a
// clone.
func buildOf(given string, read func() (*debug.BuildInfo, bool)) cli.VersionInfo {
	v := cli.VersionInfo{Version: given, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := read(); ok {
		if v.Version == "" && info.Main.Version != "(devel)" {
			v.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.time":
				v.Date = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	if v.Version == "" {
		v.Version = "dev"
	}
	// Tags begin with a v, releases do not.
	v.Version = strings.TrimPrefix(v.Version, "v")
	return v
}

// versionInfo adds what it reads, writes and speaks: each is declared where it is implemented.
func versionInfo() cli.VersionInfo {
	v := build
	v.Formats = cli.Formats{Journal: journal.Version, Rules: runner.Rules, SQLite: sqlite.Format(), Postgres: postgres.Format()}
	v.Protocols = cli.Protocols{GRPC: []string{string(pb.File_tipstaff_core_v1_core_proto.Package()), string(pb.File_tipstaff_runs_v1_runs_proto.Package())}, HTTP: web.APIVersion, MCP: mcpserver.Protocols()}
	return v
}
