package workspace

import "strings"

// Rule is why something is not written by runs. A smaller one is stricter.
type Rule int

// The rules of what runs may not write.
const (
	RuleOwn     Rule = 1 + iota // Tipstaff's own folder, repositories, and what git is told to obey
	RuleObeyed                  // what decides about runs: manifest, lock, and the files and folders that these name
	RuleCode                    // code that is started
	RuleSetting                 // what other agents, editors and CI obey
	RuleLinked                  // what worktrees have a link to
)

const (
	ownFolder = ".tipstaff"
	gitFolder = ".git"
	lockFile  = "tipstaff.lock"
)

const (
	whyOwn     = "it belongs to Tipstaff itself"
	whyGit     = "it belongs to a git repository, which may run what stands there: no tool but a program writes it"
	whyDecides = "it says what runs may do, so no run writes it"
	whyLinked  = "worktrees have a link to it, and what is started there may load it, so no run writes it"
	whySetting = "other agents, editors or CI obey it, so no run writes it unless servers.builtin.writable names it"
)

// named is what a name, or two of a path, stand for at any depth.
type named struct {
	rule Rule
	why  string
}

// decisive are the names of rules 1 and 2. git~1 is .git on file systems with short names.
var decisive = map[string]named{
	ownFolder: {RuleOwn, whyOwn},
	gitFolder: {RuleOwn, whyGit}, "git~1": {RuleOwn, whyGit},
	FileName: {RuleObeyed, whyDecides}, lockFile: {RuleObeyed, whyDecides},
	".worktreeinclude": {RuleObeyed, "it says which ignored files the worktrees of later runs get, so no run writes it"},
}

// told are files that git obeys and that people change all day: they are written like others, and
// named at the gate.
var told = map[string]string{
	".gitattributes": "git obeys it: it says which filters, merge and diff drivers files have",
	".gitmodules":    "git obeys it: it says where other repositories come from",
}

// settingKinds are the extensions of files that are obeyed whatever their name is.
var settingKinds = set(".code-workspace", ".sublime-project")

// settings are files and folders that other agents, editors, shells, package managers and
// CI obey wherever they stand. They are folded: see fold.
var settings = set(
	// agents
	".claude", ".claude.json", "claude.md", "claude.local.md", ".mcp.json", "mcp.json", ".codex", "codex.md", "agents.md", "agents.override.md", "agent.md",
	".agents", ".gemini", "gemini.md", ".geminiignore", ".cursor", ".cursorrules", ".opencode", "opencode.json", "opencode.jsonc", ".qwen", "qwen.md", ".crush", ".crush.json", "crush.json", "crush.md",
	".windsurf", ".windsurfrules", ".clinerules", ".roo", ".roorules", ".roomodes", ".kilocode", ".kiro", ".continue", ".aider.conf.yml", ".aider.model.settings.yml",
	".amazonq", ".junie", ".augment", ".augment-guidelines", ".trae", ".goosehints", ".goose", ".rules", ".openhands", ".factory", ".warp", "warp.md",
	".github/copilot-instructions.md", ".github/instructions", ".github/prompts", ".github/agents", ".github/chatmodes", ".github/hooks",
	// editors
	".vscode", ".idea", ".zed", ".fleet", ".vs", ".devcontainer", ".devcontainer.json", ".exrc", ".nvimrc", ".nvim.lua", ".vimrc", ".lvimrc", ".dir-locals.el", ".gdbinit",
	// CI
	".github/workflows", ".github/actions", ".github/dependabot.yml", ".gitlab-ci.yml", ".gitlab", ".circleci", ".travis.yml", "azure-pipelines.yml", ".azure-pipelines",
	"jenkinsfile", ".drone.yml", ".woodpecker", ".woodpecker.yml", ".woodpecker.yaml", ".buildkite", ".gitea/workflows", ".forgejo/workflows", "bitbucket-pipelines.yml",
	"appveyor.yml", ".appveyor.yml", "cloudbuild.yaml", "cloudbuild.yml", ".cirrus.yml", ".semaphore", ".teamcity", "buildspec.yml", "renovate.json", ".renovaterc",
	// hooks of repositories
	".husky", ".githooks", ".pre-commit-config.yaml", ".pre-commit-hooks.yaml", "lefthook.yml", "lefthook.yaml", ".lefthook.yml", ".lefthook.yaml", ".lefthook", ".overcommit.yml",
	"lefthook.toml", "lefthook.json", ".lefthook.toml", ".lefthook.json", "lefthook-local.yml", "lefthook-local.yaml", "lefthook-local.toml", "lefthook-local.json",
	".lefthook-local.yml", ".lefthook-local.yaml", ".lefthook-local.toml", ".lefthook-local.json", ".simple-git-hooks.json", "simple-git-hooks.json", ".hg/hgrc", ".lfsconfig",
	// shells and package managers
	".envrc", ".direnv", ".mise.toml", "mise.toml", ".mise.local.toml", "mise.local.toml", ".mise", ".config/mise", ".config/mise.toml", ".tool-versions", ".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", ".zprofile",
	".npmrc", ".yarnrc", ".yarnrc.yml", ".yarn", ".pnp.cjs", ".pnpmfile.cjs", "bunfig.toml", ".pypirc", "pip.conf", ".condarc", ".cargo", ".mvn", ".bazelrc", ".gemrc", ".bundle",
)

// pairs are the first of two names in settings.
var pairs = func() map[string]bool {
	first := map[string]bool{}
	for name := range settings {
		if folder, _, two := strings.Cut(name, "/"); two {
			first[folder] = true
		}
	}
	return first
}()

// kinds are the extensions of code: a program may load such a file because it is there.
var kinds = set(
	".py", ".pyc", ".pyw", ".pyd", ".pyx", ".pth", ".pyz", ".ipynb",
	".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".node", ".wasm", ".coffee", ".vue", ".svelte",
	".sh", ".bash", ".zsh", ".fish", ".ksh", ".csh", ".ps1", ".psm1", ".psd1", ".bat", ".cmd", ".vbs", ".awk", ".sed",
	".rb", ".rake", ".gemspec", ".pl", ".pm", ".t", ".php", ".phar", ".phtml", ".lua", ".tcl", ".r", ".jl", ".el", ".scm", ".rkt", ".lisp",
	".go", ".rs", ".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".m", ".mm", ".s", ".swift", ".zig", ".nim", ".d", ".cu",
	".java", ".jar", ".war", ".class", ".kt", ".kts", ".groovy", ".gradle", ".scala", ".sbt", ".clj", ".cljs", ".cs", ".csx", ".csproj", ".fs", ".fsx", ".vb", ".dll", ".exe",
	".ex", ".exs", ".erl", ".hrl", ".beam", ".hs", ".ml", ".mli", ".dart", ".sol",
	".so", ".dylib", ".a", ".o", ".bin", ".run", ".app",
	".mk", ".mak", ".cmake", ".bzl", ".bazel", ".star", ".nix", ".just", ".ninja", ".am", ".ac", ".m4",
)

func set(names ...string) map[string]bool {
	all := map[string]bool{}
	for _, name := range names {
		all[name] = true
	}
	return all
}

// builder is a program that is told by files in the folder it is started in what to start.
type builder struct {
	build []string // these files
	// runs: it runs the folder, so that all code in it counts; with a word, if that is among its
	// arguments.
	runs bool
	word string
}

var nodeBuild = []string{"package.json", "package-lock.json", "npm-shrinkwrap.json", "node_modules", ".npmrc"}

// builders are those of which it is known, by the name of the program.
var builders = map[string]builder{
	"make":   {build: []string{"makefile", "gnumakefile"}, runs: true},
	"gmake":  {build: []string{"makefile", "gnumakefile"}, runs: true},
	"just":   {build: []string{"justfile", ".justfile"}, runs: true},
	"npm":    {build: nodeBuild, runs: true},
	"pnpm":   {build: append(nodeBuild, "pnpm-lock.yaml", "pnpm-workspace.yaml", ".pnpmfile.cjs"), runs: true},
	"yarn":   {build: append(nodeBuild, "yarn.lock", ".yarnrc.yml", ".yarnrc", ".yarn", ".pnp.cjs"), runs: true},
	"bun":    {build: append(nodeBuild, "bunfig.toml", "bun.lock", "bun.lockb"), runs: true},
	"go":     {build: []string{"go.mod", "go.work", "go.sum"}, runs: true, word: "run"},
	"cargo":  {build: []string{"cargo.toml", "cargo.lock", ".cargo", "rust-toolchain", "rust-toolchain.toml"}, runs: true},
	"gradle": {build: []string{"build.gradle", "settings.gradle", "gradle.properties", "gradle", "gradlew"}, runs: true},
	"mvn":    {build: []string{"pom.xml", ".mvn", "mvnw"}, runs: true},
	"npx":    {build: []string{".npmrc", "node_modules"}}, "bunx": {build: []string{"bunfig.toml", "node_modules"}},
	"uv": {build: []string{"pyproject.toml", "uv.toml", "uv.lock", ".venv"}}, "uvx": {build: []string{"uv.toml"}}, "poetry": {build: []string{"pyproject.toml", "poetry.lock", ".venv"}},
	"deno": {build: []string{"deno.json", "deno.jsonc"}},
	"rake": {build: []string{"rakefile", "gemfile", "gemfile.lock"}, runs: true}, "bundle": {build: []string{"gemfile", "gemfile.lock", ".bundle"}, runs: true},
}

// installed are folders of builders that hold what these have installed: too much for digests.
var installed = set("node_modules", ".venv", ".yarn")

// pythonBuild are the files that python -m reads besides modules.
var pythonBuild = []string{"pyproject.toml", "setup.cfg", "setup.py", "pytest.ini", "tox.ini", "pyvenv.cfg"}

// interpreters run a folder that is given to them if it has an entry.
var interpreters = set("node", "deno", "bun", "tsx", "ts-node", "python", "pypy", "go", "ruby", "php", "lua", "perl", "java", "sh", "bash", "zsh", "dash", "fish")

// entries are the files that make a folder something to run.
var entries = []string{"__main__.py", "__init__.py", "index.js", "index.mjs", "index.cjs", "index.ts", "package.json", "main.go", "go.mod", "Cargo.toml", "pyproject.toml"}

// loaders are the variables by which programs find what they run.
var loaders = []string{"PATH", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "NODE_PATH", "NODE_OPTIONS", "BASH_ENV", "ENV", "LD_PRELOAD", "LD_LIBRARY_PATH",
	"RUBYLIB", "RUBYOPT", "PERL5LIB", "PERL5OPT", "CLASSPATH", "JAVA_TOOL_OPTIONS", "GIT_CONFIG_GLOBAL", "GIT_EXEC_PATH"}

// written are the extensions of files that servers change themselves.
var written = set(".db", ".sqlite", ".sqlite3", ".duckdb", ".log", ".db-wal", ".db-shm", ".sqlite-wal", ".sqlite-shm", ".sqlite3-wal", ".sqlite3-shm")
