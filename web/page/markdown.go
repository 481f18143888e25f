package page

import (
	"bytes"
	"html/template"
	"net/url"
	"strings"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

const (
	markdownMost  = 32 << 10 // bytes of a text that are shown
	markdownLinks = 500      // what has more is shown as it was written: the parser takes the square of their number
	markdownDepth = 40       // of lists in lists; what is deeper is shown as it was written
)

// markdowns makes elements of Markdown. What a model says loads nothing and leads nowhere
// unseen: HTML in it stays text, an image is its description, and a link names its host.
var markdowns = sync.OnceValue(func() goldmark.Markdown {
	return goldmark.New(
		goldmark.WithExtensions(extension.Strikethrough, extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignNone))),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(plainNodes{}, 1))),
	)
})

// markdown is what a model has said, as elements. This is the one place where text becomes
// HTML without html/template.
func markdown(said string) template.HTML {
	source := []byte(passage(said))
	if nestedDeep(source) || bytes.Count(source, []byte("](")) > markdownLinks {
		return asWritten(source)
	}
	doc := markdowns().Parser().Parse(text.NewReader(source))
	if depthOf(doc) > 2*markdownDepth {
		return asWritten(source)
	}
	var b bytes.Buffer
	if markdowns().Renderer().Render(&b, source, doc) != nil {
		return asWritten(source)
	}
	return template.HTML(passage(b.String())) // a second time: character references have become characters
}

func asWritten(source []byte) template.HTML {
	return template.HTML("<pre>" + template.HTMLEscapeString(string(source)) + "</pre>")
}

// nestedDeep reports whether a line begins with more lists and quotes, one in another, than
// anybody reads. The parser takes the square of their number.
func nestedDeep(source []byte) bool {
	for line := range bytes.Lines(source) {
		marks := 0
		for _, c := range line {
			if c == '>' || c == '-' || c == '+' || c == '*' || c == '.' || c == ')' {
				marks++
			} else if c != ' ' && c != '\t' && (c < '0' || c > '9') {
				break
			}
		}
		if rule := bytes.TrimLeft(bytes.TrimSpace(line), "-*+. >"); marks > markdownDepth && (len(rule) > 0 || bytes.ContainsAny(bytes.TrimSpace(line), " >")) {
			return true
		}
		if indent := len(line) - len(bytes.TrimLeft(line, " ")); indent > 8*markdownDepth {
			return true
		}
	}
	return false
}

// depthOf is how many elements stand in each other, without recursion.
func depthOf(doc ast.Node) int {
	depth, most := 0, 0
	for n := doc; n != nil; {
		if n.FirstChild() != nil {
			n = n.FirstChild()
			depth++
			most = max(most, depth)
			continue
		}
		for n != nil && n != doc && n.NextSibling() == nil {
			n = n.Parent()
			depth--
		}
		if n == nil || n == doc {
			break
		}
		n = n.NextSibling()
	}
	return most
}

// plainNodes draws what goldmark would draw otherwise.
type plainNodes struct{}

// RegisterFuncs says which.
func (plainNodes) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindRawHTML, drawRawHTML)
	r.Register(ast.KindHTMLBlock, drawHtmlBlock)
	r.Register(ast.KindImage, drawImage)
	r.Register(ast.KindLink, drawLink)
	r.Register(ast.KindAutoLink, drawAutoLink)
	r.Register(ast.KindHeading, drawHeading)
	r.Register(ast.KindCodeBlock, drawCode)
	r.Register(ast.KindFencedCodeBlock, drawCode)
}

func drawRawHTML(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.Write(util.EscapeHTML(n.(*ast.RawHTML).Segments.Value(source)))
	}
	return ast.WalkSkipChildren, nil
}

func drawHtmlBlock(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString("<pre>")
		block := n.(*ast.HTMLBlock)
		_, _ = w.Write(util.EscapeHTML(block.Lines().Value(source)))
		if block.HasClosure() {
			_, _ = w.Write(util.EscapeHTML(block.ClosureLine.Value(source)))
		}
		_, _ = w.WriteString("</pre>\n")
	}
	return ast.WalkSkipChildren, nil
}

// drawImage draws the description, which its children are.
func drawImage(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString(`<span class="image">image: `)
	} else {
		_, _ = w.WriteString("</span>")
	}
	return ast.WalkContinue, nil
}

func drawLink(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	to, host := destination(n.(*ast.Link).Destination)
	if to == "" {
		return ast.WalkContinue, nil
	}
	if entering {
		openLink(w, to)
	} else {
		closeLink(w, host)
	}
	return ast.WalkContinue, nil
}

func drawAutoLink(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	auto := n.(*ast.AutoLink)
	address := auto.URL(source)
	if auto.AutoLinkType == ast.AutoLinkEmail {
		address = append([]byte("mailto:"), address...)
	}
	to, host := destination(address)
	if to != "" {
		openLink(w, to)
	}
	_, _ = w.Write(util.EscapeHTML(auto.Label(source)))
	if to != "" {
		closeLink(w, host)
	}
	return ast.WalkContinue, nil
}

// destination is where a link leads, and whose it is; "": nowhere that anybody is led.
func destination(given []byte) (to, host string) {
	u, err := url.Parse(string(util.UnescapePunctuations(given)))
	if err != nil {
		return "", ""
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https":
		if u.Host == "" || u.User != nil {
			return "", "" // a name before the host is there to be taken for it
		}
		return u.String(), u.Host
	case "mailto":
		address, err := url.PathUnescape(u.Opaque)
		if err != nil || address == "" {
			return "", ""
		}
		return u.String(), address
	}
	return "", ""
}

func openLink(w util.BufWriter, to string) {
	_, _ = w.WriteString(`<a href="`)
	_, _ = w.Write(util.EscapeHTML(util.URLEscape([]byte(to), false)))
	_, _ = w.WriteString(`" rel="noopener noreferrer nofollow">`)
}

func closeLink(w util.BufWriter, host string) {
	_, _ = w.WriteString(`</a> <span class="host">(`)
	_, _ = w.Write(util.EscapeHTML([]byte(host)))
	_, _ = w.WriteString(")</span>")
}

// drawHeading draws one as a paragraph: the page has headings of its own.
func drawHeading(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString(`<p class="heading">`)
	} else {
		_, _ = w.WriteString("</p>\n")
	}
	return ast.WalkContinue, nil
}

func drawCode(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString("<pre><code>")
		_, _ = w.Write(util.EscapeHTML(n.Lines().Value(source)))
		_, _ = w.WriteString("</code></pre>\n")
	}
	return ast.WalkSkipChildren, nil
}

// Markdown is what the assistant says, as far as it is shown.
func (i transcriptItem) Markdown() template.HTML {
	return markdown(cutBytes(i.ConversationItem.Text, markdownMost))
}
