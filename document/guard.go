package document

import (
	"cmp"

	"github.com/goccy/go-yaml/token"
)

// MaxNesting is how deep values may be nested.
const MaxNesting = 128

// Guards of tokens.
const (
	maxTokens   = 120_000
	maxSiblings = 2000 // keys of one block mapping, over which the parser recurses
)

// tokenGuard looks at tokens before the parser does: it refuses what has no
// one meaning in JSON and bounds how deep the parser will recurse.
type tokenGuard struct {
	count  int
	flow   []*token.Token // open brackets and braces
	blocks []block        // open block collections, columns ascending
	prev   *token.Token
}

// block is a block collection by the column of its keys or dashes.
type block struct{ column, keys int }

var refused = map[token.Type]string{
	token.AnchorType:      "anchors have no place in a document; write the value where it is used",
	token.AliasType:       "aliases have no place in a document; write the value where it is used",
	token.TagType:         "tags have no place in a document",
	token.DirectiveType:   "directives have no place in a document",
	token.MergeKeyType:    "merge keys have no place in a document",
	token.MappingKeyType:  "a key cannot begin with a question mark; put it in quotes",
	token.DocumentEndType: "a file holds one document; it has no end marker",
}

func (g *tokenGuard) check(t *token.Token) *Problem {
	defer func() { g.prev = t }()
	if g.count++; g.count > maxTokens {
		return limitAt(at(t), "the document has too many values to read as YAML; write it as JSON")
	}
	if message := refused[t.Type]; message != "" {
		return syntaxAt(at(t), "%s", message)
	}
	switch t.Type {
	case token.InvalidType:
		return syntaxAt(at(t), "%s", cmp.Or(t.Error, "not YAML"))
	case token.DocumentHeaderType:
		if g.count > 1 {
			return syntaxAt(at(t), "a file holds one document; a second one begins here")
		}
	case token.SequenceStartType, token.MappingStartType:
		g.flow = append(g.flow, t)
	case token.SequenceEndType, token.MappingEndType:
		return g.close(t)
	case token.SequenceEntryType:
		if len(g.flow) == 0 {
			return g.open(t, false)
		}
	case token.MappingValueType:
		if len(g.flow) == 0 && g.prev != nil {
			return g.open(g.prev, true)
		}
	}
	return g.depth(t)
}

// close matches a closing bracket with the last open one.
func (g *tokenGuard) close(t *token.Token) *Problem {
	if len(g.flow) == 0 {
		return syntaxAt(at(t), "nothing is open that %q could close", t.Value)
	}
	opened := g.flow[len(g.flow)-1]
	g.flow = g.flow[:len(g.flow)-1]
	if (opened.Type == token.SequenceStartType) != (t.Type == token.SequenceEndType) {
		return syntaxAt(at(t), "%q cannot close the %q of line %d", t.Value, opened.Value, at(opened).Line)
	}
	return nil
}

// open notes a key or a dash of a block collection. One further to the right
// than those before it opens a collection inside theirs.
func (g *tokenGuard) open(t *token.Token, key bool) *Problem {
	column := at(t).Column
	for len(g.blocks) > 0 && g.blocks[len(g.blocks)-1].column > column {
		g.blocks = g.blocks[:len(g.blocks)-1]
	}
	if len(g.blocks) == 0 || g.blocks[len(g.blocks)-1].column < column {
		g.blocks = append(g.blocks, block{column: column})
	}
	top := &g.blocks[len(g.blocks)-1]
	if !key {
		top.keys = 0
	} else if top.keys++; top.keys > maxSiblings {
		return limitAt(at(t), "a mapping has more than %d keys", maxSiblings)
	}
	return g.depth(t)
}

func (g *tokenGuard) depth(t *token.Token) *Problem {
	if len(g.flow)+len(g.blocks) > MaxNesting {
		return tooDeep(at(t))
	}
	return nil
}

// end is what is wrong once all tokens were seen.
func (g *tokenGuard) end() *Problem {
	if len(g.flow) > 0 {
		t := g.flow[len(g.flow)-1]
		return syntaxAt(at(t), "%q is never closed", t.Value)
	}
	return nil
}
