package main

import (
	"runtime/debug"
	"testing"

	"github.com/tipstaff/tipstaff/cli"
)

func TestABuildKnowsItself(t *testing.T) {
	clone := []debug.BuildSetting{{Key: "GOOS", Value: "plan9"}, {Key: "vcs.revision", Value: "c0ffee"}, {Key: "vcs.time", Value: "2026-03-04T23:30:00Z"}, {Key: "vcs.modified", Value: "true"}}
	for name, c := range map[string]struct {
		given string
		info  *debug.BuildInfo
		want  cli.VersionInfo
	}{
		"a release":                  {"0.1.0", &debug.BuildInfo{Main: debug.Module{Version: "v0.1.0"}}, cli.VersionInfo{Version: "0.1.0"}},
		"a tag as git describes it":  {"v0.1.0-3-gc0ffee", &debug.BuildInfo{}, cli.VersionInfo{Version: "0.1.0-3-gc0ffee"}},
		"go install":                 {"", &debug.BuildInfo{Main: debug.Module{Version: "v0.1.0"}}, cli.VersionInfo{Version: "0.1.0"}},
		"go build in a clone":        {"", &debug.BuildInfo{Main: debug.Module{Version: "v0.1.1-0.20260304-c0ffee+dirty"}, Settings: clone}, cli.VersionInfo{Version: "0.1.1-0.20260304-c0ffee+dirty", Commit: "c0ffee", Date: "2026-03-04T23:30:00Z", Modified: true}},
		"go build without a history": {"", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, cli.VersionInfo{Version: "dev"}},
		"a test":                     {"", nil, cli.VersionInfo{Version: "dev"}},
	} {
		got := buildOf(c.given, func() (*debug.BuildInfo, bool) { return c.info, c.info != nil })
		if got.Version != c.want.Version || got.Commit != c.want.Commit || got.Date != c.want.Date || got.Modified != c.want.Modified {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if got.Go == "" || got.OS == "" || got.Arch == "" {
			t.Errorf("%s: %+v lacks what the runtime knows", name, got)
		}
	}
}
