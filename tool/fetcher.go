package tool

import (
	"path/filepath"
	"slices"

	"github.com/tipstaff/tipstaff/workspace"
)

// fetchers are programs that get what they run from elsewhere, some of them only
// when their first argument says so.
var fetchers = map[string][]string{
	"npx": nil, "bunx": nil, "pnpx": nil, "uvx": nil, "pipx": nil,
	"npm": {"exec", "x"}, "pnpm": {"dlx"}, "yarn": {"dlx"}, "bun": {"x"}, "uv": {"tool"},
	"docker": {"run"}, "podman": {"run"},
}

// Unpinned are the servers, sorted, of which nothing says what will be started the
// next time: their program fetches it, and no package is named whose digest could
// be compared. What they list is still held to the lock.
func Unpinned(m *workspace.Manifest) []string {
	var list []string
	if m == nil {
		return nil
	}
	for _, name := range sortedKeys(m.Servers) {
		if c := m.Servers[name]; c.Package == "" && fetches(c.Command) {
			list = append(list, name)
		}
	}
	return list
}

func fetches(argv []string) bool {
	if len(argv) == 0 {
		return false
	}
	words, ok := fetchers[filepath.Base(argv[0])]
	return ok && (words == nil || len(argv) > 1 && slices.Contains(words, argv[1]))
}
