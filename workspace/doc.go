// Package workspace reads the configuration of a workspace: tipstaff.yaml, the policy,
// prompts and toolkits that it names, and the references to variables that stand in
// place of credentials.
//
// A section of the [Manifest] is one type. Its doc tags say how it is read from YAML
// (see [document.Fields.Decode]), its json tags how it is frozen into a run, which keeps
// its meaning when the file or a default changes. Whatever is wrong with a file is
// reported at once, each problem with its line and column.
//
// The package starts nothing and connects to nothing: that is for tool, agent and
// runner, which are given a Manifest.
//
// Start with [ParseIn], then [Manifest.Frozen].
package workspace
