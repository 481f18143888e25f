package main

const (
	treeConfigures = "With `settings: none`, the default, nothing in the tree configures its CLI"
	tokenOnce      = "The token of its channel is in no environment and no command line"
)

// Bugs against what a tree tells the CLIs of others, and against the token of their channel.
var clisBugs = []bug{
	{
		id: "token-in-environment", page: securityPage, says: tokenOnce,
		slip:   "gives the CLI the token, which hands it to the relay",
		file:   "worker/channel.go",
		old:    "\treturn []string{socketVariable + \"=\" + c.listener.Addr().String()}",
		new:    "\treturn []string{socketVariable + \"=\" + c.listener.Addr().String(), tokenName + \"=\" + c.secret}",
		suites: []suite{tests("worker", "TestTokenIsHandedOverOnce|TestEachTypeRuns|TestEnvironment")},
	},
	{
		id: "token-stays", page: securityPage, says: tokenOnce,
		slip:   "leaves the file of the token to the end of the invocation",
		file:   "worker/channel.go",
		old:    "} else if err := c.forget(); err != nil {",
		new:    "} else if err := error(nil); err != nil {",
		suites: []suite{tests("worker", "TestTokenIsHandedOverOnce")},
	},
	{
		id: "token-outlives-its-channel", page: securityPage, says: tokenOnce,
		slip:   "trusts the relay to remove the token",
		file:   "worker/channel.go",
		old:    "\t_ = c.forget()         // nobody may have connected\n",
		new:    "",
		suites: []suite{tests("worker", "TestTokenIsHandedOverOnce")},
	},
	{
		id: "token-through-a-link", page: securityPage, says: tokenOnce,
		slip:   "takes a file that lies there already",
		file:   "worker/launch.go",
		old:    "\tif err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {\n\t\treturn err\n\t}\n\tf, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)",
		new:    "\tif _, err := os.Stat(file); err != nil && !errors.Is(err, fs.ErrNotExist) {\n\t\treturn err\n\t}\n\tf, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)",
		suites: []suite{tests("worker", "TestTokenIsHandedOverOnce")},
	},
	{
		id: "opencode-beside-plugins", page: securityPage, says: treeConfigures,
		slip:   "believes that the switch is asked wherever configuration is read",
		file:   "worker/opencode.go",
		old:    "present(o, \".opencode\", \"opencode.json\", \"opencode.jsonc\"), nil",
		new:    "present(o), nil",
		suites: []suite{tests("worker", "TestTreesThatConfigureACLI")},
	},
	{
		id: "gemini-reads-env", page: securityPage, says: treeConfigures,
		slip:   "lets Gemini check beforehand whether it can sign in, which reads .env",
		file:   "worker/gemini.go",
		old:    "\t\t\tauth[\"useExternal\"] = true",
		new:    "\t\t\tauth[\"useExternal\"] = false",
		suites: []suite{tests("worker", "TestConfigurations")},
	},
	{
		id: "opencode-reads-the-tree", page: securityPage, says: treeConfigures,
		slip:   "takes --pure for all that there is to say",
		file:   "worker/opencode.go",
		old:    "OPENCODE_DISABLE_PROJECT_CONFIG=1",
		new:    "OPENCODE_DISABLE_PROJECT_CONFIG=0",
		suites: []suite{tests("worker", "TestConfigurations")},
	},
	{
		id: "cursor-obeys-the-tree", page: securityPage, says: treeConfigures,
		slip:   "refuses Cursor for the file that it replaces, and no other",
		file:   "worker/cursor.go",
		old:    "\t\t\tif e.Name() != \"rules\" &&",
		new:    "\t\t\tif e.Name() == \"mcp.json\" &&",
		suites: []suite{tests("worker", "TestCursorInATreeThatConfiguresIt")},
	},
	{
		id: "tree-of-one-folder", page: securityPage, says: treeConfigures,
		slip:   "forgets that the workspace may lie below the root of its repository",
		file:   "worker/check.go",
		old:    "\t\troot := lexists(",
		new:    "\t\troot := d == o.Dir || lexists(",
		suites: []suite{tests("worker", "TestCursorInATreeThatConfiguresIt|TestTreesThatConfigureACLI")},
	},
	{
		id: "tree-without-a-repository", page: securityPage, says: treeConfigures,
		slip:   "believes that no CLI looks above the home of its user",
		file:   "worker/check.go",
		old:    "|| d == filepath.Dir(d)\n",
		new:    "|| d == home || d == filepath.Dir(d)\n",
		suites: []suite{tests("worker", "TestTreesWithoutARepository")},
	},
	{
		id: "anybody-left-it", page: securityPage, says: treeConfigures,
		slip:   "takes whatever lies where the channel of Cursor must be for one that was left there",
		file:   "worker/cursor.go",
		old:    "bytes.Equal(b, cursorChannel(c.Servers[ServerName].Command)) &&",
		new:    "bytes.HasPrefix(b, []byte(\"{\")) &&",
		suites: []suite{tests("worker", "TestCursorInATreeThatConfiguresIt|TestAChannelThatWasLeft")},
	},
	{
		id: "exclude-through-a-link", page: securityPage, says: treeConfigures,
		slip:   "writes into whatever info/exclude leads to",
		file:   "worker/cursor.go",
		old:    "flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK",
		new:    "flags|syscall.O_NONBLOCK",
		suites: []suite{tests("worker", "TestExcludeIsAPlainFile")},
	},
}
