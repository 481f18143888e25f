package page_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// guards are what the sources of the page may not hold, each with what it must find.
var guards = []struct {
	name     string
	files    string
	but      string // the one file that may
	found    *regexp.Regexp
	negative []string
	positive []string // what it must let pass
}{
	{
		name: "style attributes", files: "templates/*.html", found: regexp.MustCompile(`(?i)[\s"'/]style\s*=`),
		negative: []string{`<p style="color: red">`, `<rect width="1"style=x>`, "<p\nSTYLE = a>"}, positive: []string{`<link rel="stylesheet" href="/ui/a.css">`},
	}, {
		name: "handlers of events", files: "templates/*.html", found: regexp.MustCompile(`(?i)[\s"'/]on[a-z]+\s*=`),
		negative: []string{`<b onclick="a()">`, `<svg/onload=a>`, `<p class="a"onfocus = b>`}, positive: []string{`<p>on the machine</p>`, `{{if eq .Section "once"}}`},
	}, {
		name: "scripts and styles in a page", files: "templates/*.html", found: regexp.MustCompile(`(?i)<style|<script(?:[^>]*)>[^<]|javascript:|\bdata:[a-z]`),
		negative: []string{`<script>alert(1)</script>`, `<style>p{}</style>`, `<a href="javascript:a()">`, `<img src="data:image/png,a">`}, positive: []string{`<script type="module" src="/ui/a.js"></script>`},
	}, {
		name: "absolute addresses", files: "templates/*.html", found: regexp.MustCompile(`(?i)[a-z]+://|=\s*["']?//`),
		negative: []string{`<a href="https://elsewhere.example">`, `<img src=//elsewhere.example>`, `<form action="//e">`}, positive: []string{`<a href="/ui/runs">`},
	}, {
		name: "absolute addresses in style sheets", files: "assets/*.css", found: regexp.MustCompile(`(?i)://|url\(\s*["']?//|@import`),
		negative: []string{`a { background: url(//e/a.png); }`, `@import "a.css";`, `url("https://e")`}, positive: []string{`/* a // b */`},
	}, {
		name: "raw values of colours", files: "assets/*.css", but: "tokens.css", found: regexp.MustCompile(`(?i)oklch\(|rgba?\(|hsla?\(|:[^;{}]*#[0-9a-f]{3,8}\b`),
		negative: []string{`a { color: #fff; }`, `a { color: rgb(0 0 0); }`}, positive: []string{`#part-tree a { color: var(--text); }`},
	}, {
		name: "markup made in scripts", files: "assets/*.js", but: "parts.js", found: regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|setHTML|parseFromString|createContextualFragment|srcdoc|document\.write|\beval\b|new Function|createPolicy`),
		negative: []string{`a.innerHTML = b`, `document.write(a)`, `eval(a)`, `a["outerHTML"] = b`, `trustedTypes.createPolicy("a")`}, positive: []string{`a.textContent = b`, `evaluated`},
	}, {
		name: "addresses of other hosts in scripts", files: "assets/*.js", found: regexp.MustCompile("(?i)[a-z]+://|[\"'`]//"),
		negative: []string{`fetch("https://e")`, "import(`//e`)"}, positive: []string{`// a comment`, `fetch("/ui/whoami")`},
	}, {
		name: "text that is not escaped", files: "*.go", but: "markdown.go", found: regexp.MustCompile(`template\.(HTML|HTMLAttr|JS|JSStr|CSS|URL|Srcset)\b`),
		negative: []string{`template.HTML(s)`, `template.URL(u)`}, positive: []string{`template.HTMLEscapeString(s)`, `template.FuncMap`},
	},
}

// The sources hold nothing that would let foreign text act or call another host.
func TestTheSourcesAreClean(t *testing.T) {
	for _, g := range guards {
		files, err := filepath.Glob(filepath.Join("../../web/page", g.files))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", g.name, files, err)
		}
		for _, file := range files {
			if base := filepath.Base(file); base == g.but || strings.HasSuffix(base, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(text), "\n") {
				if g.found.MatchString(line) {
					t.Errorf("%s: %s:%d: %q", g.name, filepath.Base(file), i+1, g.found.FindString(line))
				}
			}
		}
		for _, bad := range g.negative {
			if !g.found.MatchString(bad) {
				t.Errorf("%s: %q passes", g.name, bad)
			}
		}
		for _, good := range g.positive {
			if g.found.MatchString(good) {
				t.Errorf("%s: %q does not pass", g.name, good)
			}
		}
	}
}

// colour is one in linear sRGB.
type colour [3]float64

// fromOKLCH converts as CSS Color 4 does, and cuts off what no screen shows.
func fromOKLCH(l, c, h float64) colour {
	a, b := c*math.Cos(h*math.Pi/180), c*math.Sin(h*math.Pi/180)
	cube := func(x float64) float64 { return x * x * x }
	x, y, z := cube(l+0.3963377774*a+0.2158037573*b), cube(l-0.1055613458*a-0.0638541728*b), cube(l-0.0894841775*a-1.2914855480*b)
	rgb := colour{
		4.0767416621*x - 3.3077115913*y + 0.2309699292*z,
		-1.2684380046*x + 2.6097574011*y - 0.3413193965*z,
		-0.0041960863*x - 0.7034186147*y + 1.7076147010*z,
	}
	for i := range rgb {
		rgb[i] = min(1, max(0, rgb[i]))
	}
	return rgb
}

// contrast is that of WCAG 2.
func contrast(a, b colour) float64 {
	light := func(c colour) float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] + 0.05 }
	return max(light(a), light(b)) / min(light(a), light(b))
}

var colourToken = regexp.MustCompile(`--([a-z-]+): light-dark\(oklch\(([\d.]+) ([\d.]+) ([\d.]+)\), oklch\(([\d.]+) ([\d.]+) ([\d.]+)\)\);`)

// colours are the tokens by name, in one theme: 0 is light, 1 is dark.
func colours(t *testing.T) [2]map[string]colour {
	t.Helper()
	text, err := os.ReadFile("../../web/page/assets/tokens.css")
	if err != nil {
		t.Fatal(err)
	}
	themes := [2]map[string]colour{{}, {}}
	for _, m := range colourToken.FindAllStringSubmatch(string(text), -1) {
		var n [6]float64
		for i := range n {
			n[i], _ = strconv.ParseFloat(m[i+2], 64)
		}
		themes[0][m[1]], themes[1][m[1]] = fromOKLCH(n[0], n[1], n[2]), fromOKLCH(n[3], n[4], n[5])
	}
	if want := strings.Count(string(text), "light-dark("); len(themes[0]) != want {
		t.Fatalf("%d of %d colours are understood", len(themes[0]), want)
	}
	return themes
}

// Text can be read on every ground, and lines that mean something seen, in both themes.
func TestContrast(t *testing.T) {
	if black, white := fromOKLCH(0, 0, 0), fromOKLCH(1, 0, 0); math.Abs(contrast(black, white)-21) > 0.01 {
		t.Fatalf("black on white is %f", contrast(black, white))
	}
	// #767676 on white is the grey that just suffices.
	if grey := contrast(fromOKLCH(0.5681, 0, 0), fromOKLCH(1, 0, 0)); math.Abs(grey-4.54) > 0.05 {
		t.Fatalf("the grey that just suffices is %f", grey)
	}
	grounds := []string{"back", "card", "sunk"}
	states := []string{"pending", "running", "waiting", "done", "failed", "refused", "uncertain"}
	for i, theme := range []string{"light", "dark"} {
		all := colours(t)[i]
		check := func(front, ground string, least float64) {
			t.Helper()
			f, known := all[front]
			g, too := all[ground]
			if !known || !too {
				t.Fatalf("there is no %s or no %s", front, ground)
			}
			if got := contrast(f, g); got < least {
				t.Errorf("%s on %s is %.2f in the %s theme, less than %.1f", front, ground, got, theme, least)
			}
		}
		for _, ground := range grounds {
			for _, front := range append([]string{"text", "quiet", "accent"}, states...) {
				check(front, ground, 4.5)
			}
			check("edge", ground, 3)
		}
		check("on-accent", "accent", 4.5)
	}
}

// All sheets are one: what one of them says of a class it says of every element that has it.
func TestAClassBelongsToOneSheet(t *testing.T) {
	t.Parallel()
	sheets, err := filepath.Glob("../../web/page/assets/*.css")
	if err != nil || len(sheets) < 5 {
		t.Fatal(sheets, err)
	}
	alone := regexp.MustCompile(`(?:^|[},])\s*(\.[\w-]+)\s*[{,]`)
	of := map[string]string{}
	for _, sheet := range sheets {
		text, err := os.ReadFile(sheet)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(sheet) == "everyone.css" { // which is about all of them
			continue
		}
		for _, m := range alone.FindAllStringSubmatch(string(text), -1) {
			if other := of[m[1]]; other != "" && other != sheet {
				t.Errorf("%s and %s: %s", other, sheet, m[1])
			}
			of[m[1]] = sheet
		}
	}
	if of[".newer"] == "" {
		t.Error("no class was found")
	}
}

// A browser is sent every file that the frame names, compressed if it likes that, and one sheet
// with all of them.
func TestAssets(t *testing.T) {
	t.Parallel()
	w := newBed(t).browser("alice")
	body := w.open("/ui/settings").body
	names := regexp.MustCompile(`/ui/assets/[0-9a-f]{16}/[a-z.-]+`).FindAllString(body, -1)
	if len(names) != 3 {
		t.Fatalf("the frame names %q", names)
	}
	for _, name := range names {
		read := func(encoding string) []byte {
			p := w.get(name, func(r *http.Request) { r.Header.Set("Accept-Encoding", encoding) })
			if packed := p.header.Get("Content-Encoding"); p.status != http.StatusOK || (packed == "gzip") != (encoding == "gzip") {
				t.Fatalf("%s is answered %d, packed by %q for who takes %s", name, p.status, packed, encoding)
			}
			if encoding != "gzip" {
				return []byte(p.body)
			}
			z, err := gzip.NewReader(strings.NewReader(p.body))
			if err != nil {
				t.Fatal(err)
			}
			all, err := io.ReadAll(z)
			if err != nil {
				t.Error(err)
			}
			return all
		}
		plain := read("identity")
		if !bytes.Equal(plain, read("gzip")) {
			t.Errorf("%s differs", name)
		}
		if !strings.HasSuffix(name, ".css") {
			continue
		}
		sheets, err := filepath.Glob("../../web/page/assets/*.css")
		if err != nil || len(sheets) < 5 {
			t.Fatal(sheets, err)
		}
		for _, sheet := range sheets {
			if text, err := os.ReadFile(sheet); err != nil || !bytes.Contains(plain, text) {
				t.Errorf("%s is not in the sheet: %v", sheet, err)
			}
		}
	}
}
