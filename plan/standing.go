package plan

// Standing is a document of another kind in the place of a plan. It is frozen,
// accepted, digested and gated like one, has no nodes, and is never walked: what it
// means is for whoever made it.
func Standing(kind, name string, canonical []byte, tools []string) *Document {
	return &Document{Kind: kind, Version: 1, Name: name, Tools: &tools, canonical: canonical,
		Root: &Node{Kind: Sequential, Path: rootPath, segment: rootPath}}
}
