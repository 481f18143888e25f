package page

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// markdownMay is what Markdown may become: elements with their attributes.
var markdownMay = map[string][]string{
	"p": {"class"}, "br": nil, "em": nil, "strong": nil, "del": nil, "code": nil, "pre": nil, "blockquote": nil, "hr": nil, "ul": nil, "ol": {"start"}, "li": nil,
	"table": nil, "thead": nil, "tbody": nil, "tr": nil, "th": nil, "td": nil, "a": {"href", "rel"}, "span": {"class"},
}

// parsed is the elements of a fragment of a page.
func parsed(t *testing.T, text string) []*html.Node {
	t.Helper()
	nodes, err := html.ParseFragment(strings.NewReader(text), &html.Node{Type: html.ElementNode, Data: "div", DataAtom: atom.Div})
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

// checkMarkdown says what Markdown has become that it must not.
func checkMarkdown(t *testing.T, source string) {
	t.Helper()
	made := string(markdown(source))
	for _, root := range parsed(t, made) {
		for n := range root.Descendants() {
			checkNode(t, source, n)
		}
		checkNode(t, source, root)
	}
}

func checkNode(t *testing.T, source string, n *html.Node) {
	t.Helper()
	switch n.Type {
	case html.TextNode:
		for _, r := range n.Data {
			if r != '\n' && r != '\t' && (unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200b) {
				t.Errorf("%q has become a text with %U in it", source, r)
			}
		}
	case html.ElementNode:
		may, known := markdownMay[n.Data]
		if !known {
			t.Errorf("%q has become a <%s>", source, n.Data)
		}
		for _, a := range n.Attr {
			if !slices.Contains(may, a.Key) {
				t.Errorf("%q has become a <%s %s=%q>", source, n.Data, a.Key, a.Val)
			}
			if a.Key == "class" && a.Val != "image" && a.Val != "host" && a.Val != "heading" || a.Key == "rel" && a.Val != "noopener noreferrer nofollow" {
				t.Errorf("%q has become a %s %q", source, a.Key, a.Val)
			}
			if a.Key == "href" && !strings.HasPrefix(a.Val, "http://") && !strings.HasPrefix(a.Val, "https://") && !strings.HasPrefix(a.Val, "mailto:") {
				t.Errorf("%q has become a link to %q", source, a.Val)
			}
		}
	default:
		t.Errorf("%q has become a node of type %d: %q", source, n.Type, n.Data)
	}
}

// markdownSeeds are ways to make more of Markdown than text.
var markdownSeeds = []string{
	"# Title\n\nA *b* **c** ~~d~~ `e`\n\n1. x\n2. y\n\n- z\n\n> q\n\n---\n\n| a | b |\n|:--|--:|\n| 1 | 2 |\n",
	"<script>alert(1)</script>", "a <img src=x onerror=alert(1)> b", "<!-- x -->", "<?php ?>", "<![CDATA[x]]>", "<div\nonclick=x>\n", "<pre>\n<script>\n</pre>x",
	"![alt *x*](http://evil.example/p.png \"t\")", "![a](javascript:alert(1))", "[![in](x.png)](https://example.org)", "[x](javascript:alert(1))", "[x](JaVaScRiPt:alert(1))",
	"[x](data:text/html,<script>)", "[x](vbscript:x)", "[x](&#106;avascript:alert(1))", "[x](java\nscript:x)", "[x](<https://a.example/\"onclick=x>)", "[x](//evil.example)", "[x](/ui/signout)",
	"[x](https://good.example@evil.example/)", "<https://example.org/?a=b&c=\"d>", "<me@example.org>", "<javascript:alert(1)>", "<data:text/html,x>", "[x][r]\n\n[r]: https://example.org \"x\\\" onclick=y\"",
	"```js onclick=x\"><script>\nlet x = '</code></pre><script>'\n```", "    <script>\n", "\u202eevil\u202c", "&#x202e;evil", "&rlm;&zwj;&#0;&#27;[2J", "a\x00b\x1b[31mc", "[\u202ex](https://example.org/\u202e)",
	"# h {onclick=x #id .class}", "| a {x=y} |\n|---|\n| <b> |", "\\<script\\>", "&lt;script&gt;", "&amp;lt;script&gt;", "[a](mailto:x@example.org?subject=y)", "[a](https:)", "- [ ] task", "a\r\nb\rc", "<https://example.org/>\xff\xfe",
}

func TestMarkdownBecomesNoMoreThanItMay(t *testing.T) {
	for _, source := range markdownSeeds {
		checkMarkdown(t, source)
	}
}

func FuzzMarkdown(f *testing.F) {
	for _, source := range markdownSeeds {
		f.Add(source)
	}
	f.Fuzz(checkMarkdown)
}

func TestMarkdown(t *testing.T) {
	for source, want := range map[string]string{
		"A *b*":                       "<p>A <em>b</em></p>\n",
		"# T":                         "<p class=\"heading\">T</p>\n",
		"![a cat](http://e.example/)": "<p><span class=\"image\">image: a cat</span></p>\n",
		"[x](https://e.example/y)":    "<p><a href=\"https://e.example/y\" rel=\"noopener noreferrer nofollow\">x</a> <span class=\"host\">(e.example)</span></p>\n",
		"[x](ftp://e.example/y)":      "<p>x</p>\n",
		"<me@e.example>":              "<p><a href=\"mailto:me@e.example\" rel=\"noopener noreferrer nofollow\">me@e.example</a> <span class=\"host\">(me@e.example)</span></p>\n",
		"a <b>c</b>":                  "<p>a &lt;b&gt;c&lt;/b&gt;</p>\n",
		"```go\na < b\n```":           "<pre><code>a &lt; b\n</code></pre>\n",
		"a\u202eb":                    "<p>a\\u202eb</p>\n",
		"&#x202e;":                    "<p>\\u202e</p>\n",
		strings.Repeat("-", 200):      "<hr>\n",
	} {
		if got := string(markdown(source)); got != want {
			t.Errorf("%q has become %q, want %q", source, got, want)
		}
	}
}

// Texts that are made to keep a parser or a browser busy are shown all the same, and soon.
func TestMarkdownThatIsNestedWithoutEnd(t *testing.T) {
	const n = 2_500 // of what the parser looks at; lists are sorted out before
	var stairs strings.Builder
	for i := range 400 {
		stairs.WriteString(strings.Repeat("  ", i) + "- x\n")
	}
	for name, source := range map[string]string{
		"lists": strings.Repeat("- ", 10_000) + "x", "numbered lists": strings.Repeat("1. ", 10_000) + "x", "quotes": strings.Repeat("> ", 10_000) + "x", "quotes without spaces": strings.Repeat(">", n) + "x",
		"both": strings.Repeat("> - ", n) + "x", "stairs": stairs.String(), "emphasis": strings.Repeat("*a _b ", n), "strong": strings.Repeat("**a ", n) + strings.Repeat("b** ", n),
		"brackets": strings.Repeat("[", n), "images": strings.Repeat("![", n), "links": strings.Repeat("[a](", n), "backquotes": strings.Repeat("`", n) + " " + strings.Repeat("``` ", n/4),
		"angles": strings.Repeat("<", n), "entities": strings.Repeat("&", n), "open comments": strings.Repeat("<!--", n), "cells": strings.Repeat("|", n) + "\n" + strings.Repeat("|-", n),
		"nested links": strings.Repeat("[", n) + "a" + strings.Repeat("](x)", n),
		"definitions":  strings.Repeat("[a]: b\n", n) + strings.Repeat("[a]", n),
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			made := string(markdown(source[:min(len(source), markdownMost)]))
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			} else if took > time.Second/4 {
				t.Logf("it took %v", took)
			}
			if depth := deepest(made); depth > 4*markdownDepth {
				t.Errorf("elements are %d deep", depth)
			}
		})
	}
}

// deepest is how far elements stand in each other, by their tags.
func deepest(made string) (most int) {
	depth := 0
	for z := html.NewTokenizer(strings.NewReader(made)); ; {
		switch z.Next() {
		case html.ErrorToken:
			return most
		case html.StartTagToken:
			if name, _ := z.TagName(); string(name) != "br" && string(name) != "hr" {
				depth++
				most = max(most, depth)
			}
		case html.EndTagToken:
			depth--
		}
	}
}
