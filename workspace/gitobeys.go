package workspace

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/tipstaff/tipstaff/filestamp"
)

// gitObeys are the files and folders that git is told to obey in a folder: the repository
// that it lies in, where its hooks are, configurations that are included, and attributes
// that they name. Nothing is started to find them.
func gitObeys(dir string, env func(string) string) []string {
	g := gitConfig{env: env, seen: map[string]bool{}}
	for top := dir; ; top = filepath.Dir(top) {
		if at := filepath.Join(top, gitFolder); exists(at) {
			g.top = top
			g.repository(at)
			break
		}
		if top == filepath.Dir(top) {
			g.top = dir
			break
		}
	}
	home := env("HOME")
	files := []string{"/etc/gitconfig", env("GIT_CONFIG_SYSTEM"), env("GIT_CONFIG_GLOBAL"), filepath.Join(home, ".gitconfig")}
	for _, folder := range []string{filepath.Join(home, ".config"), env("XDG_CONFIG_HOME")} {
		if filepath.IsAbs(folder) { // attributes and excludes there need not be named
			g.obeys = append(g.obeys, filepath.Join(folder, "git"))
			files = append(files, filepath.Join(folder, "git", "config"))
		}
	}
	for _, path := range files {
		if filepath.IsAbs(path) {
			g.obeys = append(g.obeys, path)
			g.read(path, 0)
		}
	}
	return g.obeys
}

// gitConfig collects what configurations of git name.
type gitConfig struct {
	top   string // of the repository: hooks are started there
	env   func(string) string
	seen  map[string]bool
	obeys []string
}

// repository reads the configuration of the repository that .git is, or leads to.
func (g *gitConfig) repository(at string) {
	if text, ok := smallFile(at); ok { // a linked worktree, or a submodule
		path, found := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir:")
		if !found {
			return
		}
		at = absoluteIn(filepath.Dir(at), strings.TrimSpace(path))
		g.obeys = append(g.obeys, at)
	}
	common := at
	if text, ok := smallFile(filepath.Join(at, "commondir")); ok {
		common = absoluteIn(at, strings.TrimSpace(string(text)))
		g.obeys = append(g.obeys, common)
	}
	g.read(filepath.Join(common, "config"), 0)
	g.read(filepath.Join(at, "config.worktree"), 0)
}

const (
	mostIncluded  = 10 // one in another, as git has it
	mostGitConfig = 1 << 20
)

// read reads one configuration. One whose condition does not hold now counts, too.
func (g *gitConfig) read(path string, depth int) {
	if g.seen[path] || depth > mostIncluded {
		return
	}
	g.seen[path] = true
	text, ok := smallFile(path)
	if !ok {
		return
	}
	eachGitSetting(text, func(section, key, value string) {
		include := (section == "include" || section == "includeif") && key == "path"
		from := g.top
		if include {
			from = filepath.Dir(path)
		}
		if !include && !(section == "core" && (key == "hookspath" || key == "attributesfile" || key == "excludesfile")) || value == "" {
			return
		}
		named := g.path(from, value)
		g.obeys = append(g.obeys, named)
		if include {
			g.read(named, depth+1)
		}
	})
}

func (g *gitConfig) path(from, value string) string {
	if name, rest, ok := strings.Cut(value, "/"); ok && strings.HasPrefix(name, "~") {
		home := g.env("HOME")
		if name != "~" {
			home = ""
			if of, err := user.Lookup(name[1:]); err == nil {
				home = of.HomeDir
			}
		}
		if home != "" {
			return filepath.Join(home, rest)
		}
	}
	return absoluteIn(from, value)
}

func absoluteIn(dir, path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return filepath.Clean(path)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// smallFile reads a plain file, without waiting for anything else that has its name.
func smallFile(path string) ([]byte, bool) {
	f, err := filestamp.Open(path)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostGitConfig))
	return text, err == nil
}

// eachGitSetting calls yield with every setting of a configuration of git, section and key
// in lower case. What is not one is passed over.
func eachGitSetting(text []byte, yield func(section, key, value string)) {
	section := ""
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, mostGitConfig)
	for lines.Scan() {
		line := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "\ufeff"))
		if strings.HasPrefix(line, "[") {
			end := strings.LastIndexByte(line[:headerEnd(line)], ']')
			if end < 0 {
				continue
			}
			section, _, _ = strings.Cut(strings.Trim(line[1:end], " \t"), " ")
			section, _, _ = strings.Cut(strings.ToLower(section), ".") // the old way to write a subsection
			line = strings.TrimSpace(line[end+1:])
		}
		key, value, given := strings.Cut(line, "=")
		if key = strings.ToLower(strings.TrimSpace(key)); !given || key == "" || strings.HasPrefix(key, "#") || strings.HasPrefix(key, ";") {
			continue
		}
		for strings.HasSuffix(value, `\`) && !strings.HasSuffix(value, `\\`) && lines.Scan() {
			value = strings.TrimSuffix(value, `\`) + lines.Text()
		}
		yield(section, key, gitValue(value))
	}
}

// headerEnd is behind the bracket that ends the header of a section: one in quotes does not.
func headerEnd(line string) int {
	quoted := false
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '\\':
			i++
		case line[i] == '"':
			quoted = !quoted
		case line[i] == ']' && !quoted:
			return i + 1
		}
	}
	return 0
}

// gitValue is a value without quotes, escapes and comments.
func gitValue(raw string) string {
	var b strings.Builder
	quoted := false
	raw = strings.TrimSpace(raw)
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && i+1 < len(raw):
			i++
			b.WriteString(map[byte]string{'n': "\n", 't': "\t", 'b': "\b"}[raw[i]])
			if !strings.ContainsRune("ntb", rune(raw[i])) {
				b.WriteByte(raw[i])
			}
		case (c == '#' || c == ';') && !quoted:
			return strings.TrimSpace(b.String())
		default:
			b.WriteByte(c)
		}
	}
	return strings.TrimRight(b.String(), " \t")
}
